/**
 * Host memory that copies to a device pass through: the caller's array is free at once, and the
 * device copies from here when its turn comes.
 */
import { Buffer, type CommandQueue, type Event, MemFlags, OpenCLError } from "../../ffi/mod.ts";
import { runAll } from "../../ffi/run_all.ts";

interface Piece {
  readonly start: number;
  readonly nbytes: number;
  readonly event: Event;
}

const ALIGNMENT = 64;

/** Where a ring's bytes come from. */
interface Memory {
  readonly bytes: Uint8Array<ArrayBuffer>;
  release(): void;
}

/** Bytes handed out in a circle; each piece is free again when its copy is done. */
export class StagingRing {
  readonly nbytes: number;
  readonly #pinnedBy: (() => CommandQueue) | null;
  readonly #pieces: Piece[] = [];
  #memory: Memory | null = null;

  /**
   * @param nbytes Bytes of the ring.
   * @param pinnedBy A queue with nothing to do, to map pinned memory; null for plain memory.
   */
  constructor(nbytes: number, pinnedBy: (() => CommandQueue) | null) {
    this.nbytes = nbytes;
    this.#pinnedBy = pinnedBy;
  }

  /**
   * Copies `data` into the ring and lets `enqueue` start its copy to the device. Blocks while the
   * ring is full of copies that wait for the device.
   *
   * @param data At most as many bytes as the ring has.
   * @param enqueue Is given the copy; its event says when the bytes are no longer needed.
   * @returns That event, which stays the ring's.
   */
  pass(data: Uint8Array, enqueue: (staged: Uint8Array<ArrayBuffer>) => Event): Event {
    const nbytes = Math.ceil(data.byteLength / ALIGNMENT) * ALIGNMENT;
    const start = this.#reserve(nbytes);
    this.#memory ??= this.#pinnedBy ? pinned(this.#pinnedBy(), this.nbytes) : plain(this.nbytes);
    const staged = this.#memory.bytes.subarray(start, start + data.byteLength);
    staged.set(data);
    const event = enqueue(staged);
    this.#pieces.push({ start, nbytes, event });
    return event;
  }

  /** Waits until nothing is copied from here, and gives the memory back. */
  release(): void {
    runAll([
      ...this.#pieces.splice(0).flatMap(({ event }) => [
        () => event.waitSync(),
        () => event.release(),
      ]),
      () => this.#memory?.release(),
    ]);
    this.#memory = null;
  }

  #reserve(nbytes: number): number {
    if (nbytes > this.nbytes) {
      throw new RangeError(`Cannot stage ${nbytes} bytes: the ring has ${this.nbytes}`);
    }
    while (this.#pieces[0] && this.#retireOldest((event) => event.status === "complete"));
    for (;;) {
      const start = this.#fit(nbytes);
      if (start !== null) return start;
      this.#retireOldest((event) => event.waitSync());
    }
  }

  /** Frees the oldest piece unless `isDone` says no; one whose copy failed is free as well. */
  #retireOldest(isDone: (event: Event) => boolean | void): boolean {
    const { event } = this.#pieces[0]!;
    try {
      if (isDone(event) === false) return false;
    } catch (error) {
      if (error instanceof OpenCLError) this.#dropOldest();
      throw error;
    }
    this.#dropOldest();
    return true;
  }

  #dropOldest(): void {
    this.#pieces.shift()!.event.release();
  }

  #fit(nbytes: number): number | null {
    const oldest = this.#pieces[0], newest = this.#pieces.at(-1);
    if (oldest === undefined || newest === undefined) return nbytes <= this.nbytes ? 0 : null;
    const end = newest.start + newest.nbytes;
    if (end <= oldest.start) return end + nbytes <= oldest.start ? end : null;
    if (end + nbytes <= this.nbytes) return end;
    return nbytes <= oldest.start ? 0 : null;
  }
}

function plain(nbytes: number): Memory {
  return { bytes: new Uint8Array(nbytes), release: () => {} };
}

function pinned(queue: CommandQueue, nbytes: number): Memory {
  const buffer = new Buffer(queue.context, nbytes, { flags: MemFlags.ALLOC_HOST_PTR });
  try {
    const region = queue.map(buffer, { discard: true });
    return {
      bytes: region.bytes,
      release: () => runAll([() => region.release(), () => buffer.release()]),
    };
  } catch (error) {
    buffer.release();
    throw error;
  }
}
