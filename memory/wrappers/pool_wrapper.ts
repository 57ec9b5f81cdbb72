/**
 * Pools around pools: a limit, guard words, injected faults; and a scope that counts what any pool
 * does. Wrappers compose by `upstream` and may stand in any order. This folder imports `core/`,
 * `pools/`, `fences/` and `sources/`; what a wrapper lends is its upstream's block in a handle of
 * its own.
 *
 * @module
 */
import type {
  AllocateOptions,
  BufferHandle,
  HandleState,
  LiveBlock,
  Pool,
  PoolObserver,
  SegmentSnapshot,
} from "../core/pool.ts";
import type { FenceQueue } from "../fences/fence.ts";
import { recordQueue } from "../pools/handle.ts";
import { allocateWithRetries } from "../core/allocate.ts";
import { type RetryLadder, Shortage } from "../core/retry_ladder.ts";
import type { PoolStats } from "../core/stats.ts";

/** A handle of an upstream pool in the hands of a wrapper. */
export class WrappedHandle<B> implements BufferHandle<B> {
  /** The wrapper that lent it. */
  readonly pool: Pool<B>;
  /** The upstream's handle. */
  readonly upstream: BufferHandle<B>;
  /** Bytes, as the caller asked for them. */
  readonly nbytes: number;

  /**
   * Wraps a handle.
   *
   * @param pool The wrapper.
   * @param upstream The upstream's handle.
   * @param nbytes Bytes, as the caller asked for them; by default those of the upstream's handle.
   */
  constructor(pool: Pool<B>, upstream: BufferHandle<B>, nbytes: number = upstream.nbytes) {
    this.pool = pool;
    this.upstream = upstream;
    this.nbytes = nbytes;
  }

  /** The memory object. */
  get buffer(): B {
    return this.upstream.buffer;
  }

  /** The memory object that the block lies in. */
  get base(): B {
    return this.upstream.base;
  }

  /** Bytes that the upstream set aside. */
  get bucketSize(): number {
    return this.upstream.bucketSize;
  }

  /** The offset of the block in its segment. */
  get offset(): number {
    return this.upstream.offset;
  }

  /** The present place of the block. */
  get state(): HandleState {
    return this.upstream.state;
  }

  /** Its purpose. */
  get label(): string | undefined {
    return this.upstream.label;
  }

  /** See {@linkcode recordQueue}. */
  addUser(queue: FenceQueue): void {
    recordQueue(this.upstream, queue);
  }

  /** Takes a block back. */
  release(): void {
    this.pool.release(this);
  }

  /** Gives the block back. */
  [Symbol.dispose](): void {
    this.pool.release(this);
  }
}

/**
 * A pool that adds something to another one, its upstream, and leaves the rest to it. Statistics,
 * limits and the cache are the upstream's.
 */
export abstract class PoolWrapper<B> implements Pool<B> {
  /** The pool that lends the memory. */
  readonly upstream: Pool<B>;

  /**
   * Wraps a pool.
   *
   * @param upstream The pool that lends the memory.
   */
  constructor(upstream: Pool<B>) {
    this.upstream = upstream;
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> {
    return allocateWithRetries(this, this.tryAllocate(nbytes, options), nbytes, options);
  }

  /** Lends a block that needs no waiting; see {@linkcode Pool.tryAllocate}. */
  tryAllocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> | Shortage {
    const result = this.upstream.tryAllocate(nbytes, options);
    return result instanceof Shortage ? result : new WrappedHandle(this, result);
  }

  /** Counts an allocation that had to be tried again; see {@linkcode Pool.countRetries}. */
  countRetries(ladder: RetryLadder, nbytes: number, found: boolean): void {
    this.upstream.countRetries(ladder, nbytes, found);
  }

  /** Takes a block back. */
  release(handle: BufferHandle<B>): void {
    this.own(handle).upstream.release();
  }

  /** The handle, if this wrapper lent it. */
  protected own(handle: BufferHandle<B>): WrappedHandle<B> {
    if (handle instanceof WrappedHandle && handle.pool === this) return handle;
    throw new TypeError("Cannot release a handle that another pool lent: call handle.release()");
  }

  /** Takes back a block whose holder the garbage collector found. */
  reclaim(handle: BufferHandle<B>): void {
    this.upstream.reclaim(this.own(handle).upstream);
  }

  /** Statistics of the pool so far; the object is live. */
  get stats(): PoolStats {
    return this.upstream.stats;
  }

  /** The most bytes that may be held from the driver; `Infinity` is no limit. */
  get limitBytes(): number {
    return this.upstream.limitBytes;
  }

  /** See the getter. */
  set limitBytes(bytes: number) {
    this.upstream.limitBytes = bytes;
  }

  /** Bytes of the largest block that could be handed out without asking the driver. */
  get largestFreeBytes(): number {
    return this.upstream.largestFreeBytes;
  }

  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  trim(bytes?: number): number {
    return this.upstream.trim(bytes);
  }

  /** Gives all cached memory back to the driver. */
  clear(): void {
    this.upstream.clear();
  }

  /** Ends the pool: every block becomes `destroyed`. */
  destroy(): void {
    this.upstream.destroy();
  }

  /** The blocks that callers hold, oldest first. */
  liveBlocks(): LiveBlock[] {
    return this.upstream.liveBlocks();
  }

  /** Every segment with its blocks. */
  segments(): SegmentSnapshot[] {
    return this.upstream.segments();
  }

  /** Tells `observer` of everything from now on, until the result is disposed of. */
  observe(observer: PoolObserver): Disposable {
    return this.upstream.observe(observer);
  }

  /** Lets the peaks start again from the present values. */
  resetPeakStats(): void {
    this.upstream.resetPeakStats();
  }

  /** Sets the accumulated counters to zero. */
  resetAccumulatedStats(): void {
    this.upstream.resetAccumulatedStats();
  }
}
