import type { CommandQueue, Event } from "../../ffi/mod.ts";
import type { BufferHandle } from "../core/pool.ts";

/** One copy to a block, or to blocks that were one when it began. */
interface Copy {
  readonly event: Event;
  blocks: readonly BufferHandle<unknown>[];
}

/**
 * Blocks that a transfer queue still fills. The first command of the compute queue that uses such a
 * block waits, on the device, for its copy; commands that do not use it run beside the copy.
 */
export class PendingUploads {
  readonly #queue: CommandQueue | null;
  readonly #copies = new Map<BufferHandle<unknown>, Copy>();

  /**
   * Begins with none.
   *
   * @param queue The compute queue; null for memory of the host, which needs no upload.
   */
  constructor(queue: CommandQueue | null) {
    this.#queue = queue;
  }

  /** True when nothing is pending: then there is nothing to wait for. */
  get isEmpty(): boolean {
    return this.#copies.size === 0;
  }

  /**
   * Notes a copy.
   *
   * @param block The block that is filled.
   * @param event Completes when it is full; passes to this object.
   */
  add(block: BufferHandle<unknown>, event: Event): void {
    // A block that was released is its pool's again, which knows what queue fills it.
    for (const copy of this.#copies.values()) {
      if (copy.blocks.every(({ state }) => state !== "live")) this.#drop(copy);
    }
    this.#copies.set(block, { event, blocks: [block] });
  }

  /** Says that a block was divided: the copy to it is the copy to its parts. */
  divide(block: BufferHandle<unknown>, parts: readonly BufferHandle<unknown>[]): void {
    const copy = this.#copies.get(block);
    if (copy === undefined) return;
    this.#copies.delete(block);
    copy.blocks = parts;
    for (const part of parts) this.#copies.set(part, copy);
  }

  /** True when a block is still filled, as far as the compute queue knows. */
  isPending(block: BufferHandle<unknown>): boolean {
    return this.#copies.has(block);
  }

  /** To be called before the compute queue is given a command that uses the block. */
  await(block: BufferHandle<unknown>): void {
    const copy = this.#copies.get(block);
    if (copy === undefined) return;
    this.#queue!.barrier([copy.event]).release();
    this.#drop(copy);
  }

  /** Lets the compute queue wait for every copy. */
  awaitAll(): void {
    for (const block of this.#copies.keys()) this.await(block);
  }

  /** Lets the events go, when the memory ends. */
  clear(): void {
    for (const copy of this.#copies.values()) this.#drop(copy);
  }

  #drop({ event, blocks }: Copy): void {
    for (const block of blocks) this.#copies.delete(block);
    event.release();
  }
}
