import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { BucketPool } from "./bucket_pool.ts";
import { GiB, KiB, MiB, nextPowerOfTwo, roundUp } from "../core/bytes.ts";
import { type FenceEvent, type FenceQueue, waitFor } from "../fences/fence.ts";
import type { Block } from "./handle.ts";
import { AllEnded } from "../fences/host_fence.ts";
import { PinnedSource } from "../sources/pinned_source.ts";
import type { AllocateOptions, BufferHandle } from "../core/pool.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import { requireObject } from "../../ffi/objects/object.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** A block of page-locked host memory. */
export interface PinnedHandle extends BufferHandle<Buffer> {
  /**
   * The memory itself, `nbytes` of it. Detached at the release: a view that was kept is empty
   * then, and cannot reach what the memory is used for next.
   */
  readonly view: Uint8Array<ArrayBuffer>;
}

const PAGE_BYTES = 4 * KiB;

/** Options of a PinnedBufferPool. */
export interface PinnedBufferPoolOptions {
  /** The most bytes of page-locked memory to hold. Default: 1 GiB. */
  readonly maxBytes?: number;
}

const rules: Rules<PinnedBufferPoolOptions> = { maxBytes: takes.byteLimit };

/**
 * Page-locked host memory for copies to and from a device, which such memory reaches several times
 * as fast on discrete GPUs. Where host and device share memory it costs what any buffer costs.
 *
 * Its buffers stay mapped: fill `handle.view`, enqueue a copy from it and release the handle. The
 * next holder fills the block from the host, which waits for no queue; so the block is lent again
 * only when everything is done that was enqueued until the release: on the queue that `allocate`
 * was told, on those of `recordQueue`, and without any on all queues of the context.
 */
export class PinnedBufferPool extends BucketPool<Buffer> {
  readonly #source: PinnedSource;
  /** The next block to come back is not in use. */
  #isIdle = false;

  /**
   * Begins with no memory.
   *
   * @param queue A queue of the context and the device that the copies are for. The pool outlives
   *   it: memory is mapped on a queue of the pool's own.
   * @param options The limit.
   */
  constructor(queue: CommandQueue, options: PinnedBufferPoolOptions = {}) {
    checkOptions("make a PinnedBufferPool", options, rules);
    requireObject("make a PinnedBufferPool", queue, "CommandQueue");
    const source = new PinnedSource(queue.context, queue.device, PAGE_BYTES);
    super(source, options.maxBytes ?? GiB);
    this.#source = source;
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  override allocate(nbytes: number, options?: AllocateOptions): PinnedHandle {
    return super.allocate(nbytes, options) as PinnedHandle;
  }

  /** Takes a block back whose copies the caller has waited for: it can be lent again at once. */
  releaseIdle(handle: BufferHandle<Buffer>): void {
    this.#isIdle = true;
    try {
      this.release(handle);
    } finally {
      this.#isIdle = false;
    }
  }

  /** Makes a block free once the device is done with it. */
  protected override deallocate(
    block: Block<Buffer>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void {
    const events = this.#isIdle ? [] : this.#usersOf(block, queue, fence);
    if (this.#isIdle) fence?.release();
    if (events.length === 0) super.deallocate(block, undefined, null);
    else super.deallocate(block, nobody, new AllEnded(events));
  }

  #usersOf(
    block: Block<Buffer>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): FenceEvent[] {
    if (fence !== null) return [fence];
    return this.#source.usersOf(block.buffer, queue);
  }

  /** The host fills the blocks, so it is the host that waits. */
  protected override orderAfter(
    _taker: FenceQueue | undefined,
    _owner: FenceQueue | undefined,
    events: readonly FenceEvent[],
  ): void {
    this.counters.fences++;
    waitFor(undefined, events);
  }

  /** Ends the pool once nothing uses its memory. */
  override destroy(): void {
    super.destroy();
    this.#source.close();
  }

  /**
   * Powers of two up to 1 MiB; above, whole pages: what is page-locked is lost to everybody else.
   */
  protected override bucketSize(nbytes: number): number {
    return nbytes <= MiB
      ? Math.max(PAGE_BYTES, nextPowerOfTwo(nbytes))
      : roundUp(nbytes, PAGE_BYTES);
  }
}

/** Owner of blocks that are in use: no request comes from it, so all wait for their fences. */
const nobody: FenceQueue = {
  released: false,
  outOfOrder: false,
  marker: refuse,
  barrier: refuse,
  flush: refuse,
};

function refuse(): never {
  throw new Error("Blocks of pinned memory wait for events, not for a queue");
}
