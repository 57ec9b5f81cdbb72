import type {
  AllocateOptions,
  BufferHandle,
  HandleState,
  LiveBlock,
  Pool,
  PoolObserver,
  SegmentSnapshot,
} from "./pool.ts";
import type { FenceQueue } from "./fences.ts";
import { recordQueue } from "./handle.ts";
import type { PoolStats } from "./stats.ts";

/** A handle of an upstream pool in the hands of a wrapper. */
export class WrappedHandle<B> implements BufferHandle<B> {
  readonly pool: Pool<B>;
  readonly upstream: BufferHandle<B>;
  readonly nbytes: number;

  constructor(pool: Pool<B>, upstream: BufferHandle<B>, nbytes: number = upstream.nbytes) {
    this.pool = pool;
    this.upstream = upstream;
    this.nbytes = nbytes;
  }

  get buffer(): B {
    return this.upstream.buffer;
  }

  get bucketSize(): number {
    return this.upstream.bucketSize;
  }

  get offset(): number {
    return this.upstream.offset;
  }

  get state(): HandleState {
    return this.upstream.state;
  }

  get label(): string | undefined {
    return this.upstream.label;
  }

  /** See {@linkcode recordQueue}. */
  addUser(queue: FenceQueue): void {
    recordQueue(this.upstream, queue);
  }

  release(): void {
    this.pool.release(this);
  }

  [Symbol.dispose](): void {
    this.pool.release(this);
  }
}

/**
 * A pool that adds something to another one, its upstream, and leaves the rest to it. Statistics, limits
 * and the cache are the upstream's.
 */
export abstract class PoolWrapper<B> implements Pool<B> {
  /** The pool that lends the memory. */
  readonly upstream: Pool<B>;

  constructor(upstream: Pool<B>) {
    this.upstream = upstream;
  }

  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> {
    return new WrappedHandle(this, this.upstream.allocate(nbytes, options));
  }

  release(handle: BufferHandle<B>): void {
    this.own(handle).upstream.release();
  }

  /** The handle, if this wrapper lent it. */
  protected own(handle: BufferHandle<B>): WrappedHandle<B> {
    if (handle instanceof WrappedHandle && handle.pool === this) return handle;
    throw new TypeError("Cannot release a handle that another pool lent: call handle.release()");
  }

  reclaim(handle: BufferHandle<B>): void {
    this.upstream.reclaim(this.own(handle).upstream);
  }

  get stats(): PoolStats {
    return this.upstream.stats;
  }

  get limitBytes(): number {
    return this.upstream.limitBytes;
  }

  set limitBytes(bytes: number) {
    this.upstream.limitBytes = bytes;
  }

  get largestFreeBytes(): number {
    return this.upstream.largestFreeBytes;
  }

  trim(bytes?: number): number {
    return this.upstream.trim(bytes);
  }

  clear(): void {
    this.upstream.clear();
  }

  destroy(): void {
    this.upstream.destroy();
  }

  liveBlocks(): LiveBlock[] {
    return this.upstream.liveBlocks();
  }

  segments(): SegmentSnapshot[] {
    return this.upstream.segments();
  }

  observe(observer: PoolObserver): Disposable {
    return this.upstream.observe(observer);
  }

  resetPeakStats(): void {
    this.upstream.resetPeakStats();
  }

  resetAccumulatedStats(): void {
    this.upstream.resetAccumulatedStats();
  }
}
