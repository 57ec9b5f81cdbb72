/**
 * Host memory that copies to a device pass through: the caller's array is free at once, and the
 * device copies from here when its turn comes.
 */
import { Buffer, type CommandQueue, type Event, MemFlags, OpenCLError } from "../../../ffi/mod.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import {
  hasEnded,
  OutOfMemoryError,
  type PinnedBufferPool,
  type PinnedHandle,
} from "../../../memory/mod.ts";
import type { HostBlock } from "../../execution/backend.ts";

/** Bytes on their way to the device. */
interface Piece {
  readonly nbytes: number;
  /** The pinned block; null where the bytes are an array that the queue holds. */
  readonly block: PinnedHandle | null;
  readonly event: Event;
}

/** Options of staging. */
export interface StagingOptions {
  /** Through a block of the pinned pool, else through a plain array. */
  readonly pinned: boolean;
  /** The most bytes that may be under way. */
  readonly maxBytes: number;
}

/** The copies under way of one queue. */
export class Staging {
  readonly #pool: () => PinnedBufferPool;
  readonly #pieces: Piece[] = [];
  #nbytes = 0;

  /** @param pool Where blocks come from, asked at the first copy. */
  constructor(pool: () => PinnedBufferPool) {
    this.#pool = pool;
  }

  /**
   * Copies `data` into a block and lets `enqueue` start its copy to the device. Blocks while earlier
   * pieces leave no room within `maxBytes`.
   *
   * @param enqueue Is given the copy; its event says when the bytes are no longer needed.
   * @returns That event, which stays the staging's.
   */
  pass(
    data: Uint8Array,
    { pinned, maxBytes }: StagingOptions,
    enqueue: (staged: Uint8Array) => Event,
  ): Event {
    this.retire();
    const nbytes = data.byteLength;
    while (this.#pieces.length > 0 && this.#nbytes + nbytes > maxBytes) this.#awaitOldest();
    const block = pinned ? this.#take(nbytes) : null;
    const staged = block?.view ?? data.slice();
    let event: Event;
    try {
      if (block !== null) staged.set(data);
      event = enqueue(staged);
    } catch (error) {
      block?.release();
      throw error;
    }
    this.#pieces.push({ nbytes, block, event });
    this.#nbytes += nbytes;
    return event;
  }

  /** Gives back the blocks whose copies are done; asks, but does not wait. */
  retire(): void {
    while (this.#pieces[0] && hasEnded(this.#pieces[0].event)) this.#dropOldest();
  }

  /** Waits until nothing is copied from here. */
  release(): void {
    const pieces = this.#pieces.splice(0);
    this.#nbytes = 0;
    runAll(pieces.flatMap((piece) => [() => piece.event.waitSync(), () => this.#drop(piece)]));
  }

  /** A pinned block; null where none is to be had, for then a plain array will do. */
  #take(nbytes: number): PinnedHandle | null {
    for (;;) {
      try {
        return this.#pool().allocate(nbytes, { label: "staging" });
      } catch (error) {
        if (!(error instanceof OutOfMemoryError)) throw error;
        if (this.#pieces.length === 0) return null;
        this.#awaitOldest();
      }
    }
  }

  /** A copy that failed is over, too: its error is told once, here. */
  #awaitOldest(): void {
    try {
      this.#pieces[0]!.event.waitSync();
    } catch (error) {
      if (error instanceof OpenCLError) this.#dropOldest();
      throw error;
    }
    this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#pieces.shift()!;
    this.#nbytes -= oldest.nbytes;
    this.#drop(oldest);
  }

  #drop({ block, event }: Piece): void {
    if (block !== null) this.#pool().releaseIdle(block);
    event.release();
  }
}

/** The bytes, in memory that cannot move under the driver. */
export function fixed(data: Uint8Array): Uint8Array {
  const { buffer } = data;
  const isFixed = buffer instanceof ArrayBuffer ? !buffer.resizable : !buffer.growable;
  return isFixed ? data : data.slice();
}

/** Memory of somebody else, pinned: NVIDIA's driver pins what a buffer is made of. */
export function pinned(queue: CommandQueue, bytes: Uint8Array<ArrayBuffer>): HostBlock {
  const flags = MemFlags.READ_WRITE | MemFlags.USE_HOST_PTR;
  const buffer = new Buffer(queue.context, bytes.byteLength, { flags, data: bytes });
  const region = queue.map(buffer);
  return {
    bytes,
    [Symbol.dispose]: () => runAll([() => region.release(), () => buffer.release()]),
  };
}
