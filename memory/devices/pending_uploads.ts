import type { CommandQueue, Event } from "../../ffi/mod.ts";
import type { BufferHandle } from "../core/pool.ts";

/**
 * Blocks that a transfer queue still fills. The first command of the compute queue that uses such a
 * block waits, on the device, for its copy; commands that do not use it run beside the copy.
 */
export class PendingUploads {
  readonly #queue: CommandQueue | null;
  readonly #events = new Map<BufferHandle<unknown>, Event>();

  /**
   * Begins with none.
   *
   * @param queue The compute queue; null for memory of the host, which needs no upload.
   */
  constructor(queue: CommandQueue | null) {
    this.#queue = queue;
  }

  /** Whether nothing is pending: then there is nothing to wait for. */
  get isEmpty(): boolean {
    return this.#events.size === 0;
  }

  /**
   * Notes a copy.
   *
   * @param block The block that is filled.
   * @param event Completes when it is full; passes to this object.
   */
  add(block: BufferHandle<unknown>, event: Event): void {
    // A block that was released is its pool's again, which knows what queue fills it.
    for (const [block, event] of this.#events) if (block.state !== "live") this.#drop(block, event);
    this.#events.set(block, event);
  }

  /** To be called before the compute queue is given a command that uses the block. */
  await(block: BufferHandle<unknown>): void {
    const event = this.#events.get(block);
    if (event === undefined) return;
    this.#queue!.barrier([event]).release();
    this.#drop(block, event);
  }

  /** Lets the compute queue wait for every copy. */
  awaitAll(): void {
    for (const block of this.#events.keys()) this.await(block);
  }

  /** Lets the events go, when the memory ends. */
  clear(): void {
    for (const [block, event] of this.#events) this.#drop(block, event);
  }

  #drop(block: BufferHandle<unknown>, event: Event): void {
    this.#events.delete(block);
    event.release();
  }
}
