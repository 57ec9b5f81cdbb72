import type { PoolObservers } from "../core/observers.ts";
import type { PoolCounters } from "../core/stats.ts";
import { type MemorySource, NoMemoryError } from "../sources/source.ts";

/** Memory that a pool holds from its source: within a limit, counted, and told to the observers. */
export class ReservedMemory<B> {
  /** The most bytes that may be held; `Infinity` is no limit. */
  limitBytes: number;
  readonly #source: MemorySource<B>;
  readonly #counters: PoolCounters;
  readonly #observers: PoolObservers;
  #refusal: NoMemoryError | undefined = undefined;

  /** Begins with nothing held. */
  constructor(
    source: MemorySource<B>,
    limitBytes: number,
    counters: PoolCounters,
    observers: PoolObservers,
  ) {
    this.#source = source;
    this.limitBytes = limitBytes;
    this.#counters = counters;
    this.#observers = observers;
  }

  /** The source's error when it refused the last request; `undefined` where it did not. */
  get refusal(): NoMemoryError | undefined {
    return this.#refusal;
  }

  /** Asks the source for memory; `null` where the limit or the source forbids it. */
  reserve(segment: number, nbytes: number, flags: bigint | undefined): B | null {
    this.#refusal = undefined;
    const tooMuch = this.#counters.reserved.current + nbytes > this.limitBytes;
    if (tooMuch || nbytes > this.#source.maxAllocationBytes) return null;
    let buffer: B;
    try {
      buffer = this.#source.create(nbytes, flags);
    } catch (error) {
      if (!(error instanceof NoMemoryError)) throw error;
      this.#refusal = error;
      return null;
    }
    this.#counters.nativeAllocs++;
    this.#counters.reserved.add(nbytes);
    this.#observers.reserved(segment, nbytes);
    return buffer;
  }

  /** Gives memory back to the source. */
  unreserve(segment: number, buffer: B, nbytes: number): void {
    this.#counters.nativeFrees++;
    this.#counters.reserved.subtract(nbytes);
    this.#observers.unreserved(segment, nbytes);
    this.#source.destroy(buffer);
  }
}
