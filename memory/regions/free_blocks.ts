import { type FenceEvent, type FenceQueue, hasEnded } from "../fences/fence.ts";

/** A free block, and who may have it. */
export interface FreeBlock {
  /** The owner that may have it at once; `undefined` is anyone. */
  readonly queue: FenceQueue | undefined;
  /** Events that others must wait for; `null` where only the queue itself knows. */
  readonly fence: FenceEvent | null;
}

/** Blocks of each other queue that are asked, oldest first, whether they are done. */
const MAX_POLLED_BLOCKS = 4;

/**
 * Free blocks of one size, by the queue that used them. What a request costs does not grow with the
 * blocks that other queues still use.
 */
export class FreeBlocks<T extends FreeBlock> {
  /** Oldest first, so that the one used last is at hand. */
  readonly #lists = new Map<FenceQueue | undefined, T[]>();
  #length = 0;

  /** Their number. */
  get length(): number {
    return this.#length;
  }

  /** Adds one. */
  push(block: T): void {
    const list = this.#lists.get(block.queue);
    if (list === undefined) this.#lists.set(block.queue, [block]);
    else list.push(block);
    this.#length++;
  }

  /** Takes the block that came back last and needs no waiting. */
  takeReady(taker: FenceQueue | undefined): T | null {
    const own = this.#takeLast(taker) ?? this.#takeLast(undefined);
    if (own !== null) return own;
    for (const [queue, list] of this.#lists) {
      const at = list.slice(0, MAX_POLLED_BLOCKS).findIndex(({ fence }) =>
        fence !== null && hasEnded(fence)
      );
      if (at >= 0) return this.#takeAt(queue, at);
    }
    return null;
  }

  /** Takes the oldest block that some other queue than `taker` used. */
  takeForeign(taker: FenceQueue | undefined): T | null {
    for (const queue of this.#lists.keys()) {
      if (queue !== taker && queue !== undefined) return this.#takeAt(queue, 0);
    }
    return null;
  }

  /** Takes the oldest block of the queue that has had free ones longest. */
  takeOldest(): T | null {
    for (const queue of this.#lists.keys()) return this.#takeAt(queue, 0);
    return null;
  }

  /** Takes the oldest block that a queue, or without one no queue, used. */
  takeOldestOf(queue: FenceQueue | undefined): T | null {
    return this.#lists.has(queue) ? this.#takeAt(queue, 0) : null;
  }

  #takeLast(queue: FenceQueue | undefined): T | null {
    const list = this.#lists.get(queue);
    return list === undefined ? null : this.#takeAt(queue, list.length - 1);
  }

  #takeAt(queue: FenceQueue | undefined, at: number): T {
    const list = this.#lists.get(queue)!;
    const block = at === list.length - 1 ? list.pop()! : list.splice(at, 1)[0]!;
    if (list.length === 0) this.#lists.delete(queue);
    this.#length--;
    return block;
  }
}
