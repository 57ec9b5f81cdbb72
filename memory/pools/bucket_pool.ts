import { type BlockRequest, PoolBase } from "./base_pool.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { roundUp } from "../core/bytes.ts";
import type { FenceEvent, FenceQueue } from "../fences/fence.ts";
import { FreeBlocks } from "../regions/free_blocks.ts";
import { type Block, describeHandle, type PooledHandle } from "./handle.ts";
import type { BlockSnapshot, SegmentSnapshot } from "../core/pool.ts";
import * as takes from "../../ffi/host/option_rules.ts";
import { requireValue } from "../../ffi/host/options.ts";

/** A whole buffer from the source, in a bucket or in a caller's hands. */
class BucketBlock<B> implements Block<B> {
  readonly offset = 0;
  destroyed = false;
  holder: PooledHandle<B> | null = null;
  /** The owner that may have it at once; `undefined` is anyone. */
  queue: FenceQueue | undefined = undefined;
  /** Events that others must wait for. */
  fence: FenceEvent | null = null;

  constructor(readonly segment: number, readonly bucket: Bucket<B>, readonly buffer: B) {}

  get base(): B {
    return this.buffer;
  }

  get size(): number {
    return this.bucket.size;
  }
}

interface Bucket<B> {
  readonly size: number;
  readonly flags: bigint | undefined;
  readonly free: FreeBlocks<BucketBlock<B>>;
  live: number;
}

/** The common part of pools that hand out whole buffers from a list for each size. */
export abstract class BucketPool<B> extends PoolBase<B> {
  readonly #buckets = new Map<number, Bucket<B>[]>();
  readonly #blocks = new Set<BucketBlock<B>>();
  #nextBlock = 0;

  /** The size that a request is rounded up to. */
  protected abstract bucketSize(nbytes: number): number;

  /** True when a released buffer of that bucket is kept. */
  protected keeps(_bucketSize: number, _cachedInBucket: number): boolean {
    return true;
  }

  /** Every bucket that was ever used: its size, and how many of its buffers are where. */
  protected bucketCounts(): Record<number, { cached: number; live: number }> {
    const counts: Record<number, { cached: number; live: number }> = {};
    for (const [size, buckets] of this.#buckets) {
      counts[size] = {
        cached: buckets.reduce((sum, bucket) => sum + bucket.free.length, 0),
        live: buckets.reduce((sum, bucket) => sum + bucket.live, 0),
      };
    }
    return counts;
  }

  /** A free block of the request's size, else a new one. */
  protected override tryAllocateBlock({ nbytes, flags, queue }: BlockRequest): Block<B> | null {
    const bucket = this.#bucket(this.#sizeFor(nbytes), flags);
    const block = bucket.free.takeReady(queue) ?? this.#create(bucket);
    if (block === null) return null;
    block.fence?.release();
    block.fence = null;
    bucket.live++;
    return block;
  }

  /** Makes a block free for `queue`, and for others behind `fence`. */
  protected override deallocate(
    block: Block<B>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void {
    const own = block as BucketBlock<B>;
    const { bucket } = own;
    bucket.live--;
    own.queue = queue;
    own.fence = fence;
    if (this.keeps(bucket.size, bucket.free.length)) bucket.free.push(own);
    else this.#destroy(own);
  }

  /** Takes a block back that is never lent again. */
  protected override discard(block: Block<B>): void {
    const own = block as BucketBlock<B>;
    own.bucket.live--;
    this.#destroy(own);
  }

  /** Makes free blocks of other queues the request's own. */
  protected override mergeFromQueues({ nbytes, flags, queue }: BlockRequest): number {
    const { free, size } = this.#bucket(this.#sizeFor(nbytes), flags);
    const block = free.takeForeign(queue);
    if (block === null) return 0;
    try {
      this.orderAfter(queue, block.queue, block.fence === null ? [] : [block.fence]);
      const fence = this.fences.fenceOn(queue);
      block.fence?.release();
      block.queue = queue;
      block.fence = fence;
    } finally {
      free.push(block);
    }
    return size;
  }

  /** The default queue was released: its free blocks can no longer be waited for. */
  protected override discardFreeOfDefault(): void {
    const buckets = [...this.#buckets.values()].flat();
    runAll(buckets.map(({ free }) => () => {
      for (let block; (block = free.takeOldestOf(this.fences.defaultQueue)) !== null;) {
        this.#destroy(block);
      }
    }));
  }

  /** The bucket, or just the request where only that is within the limit or the largest buffer. */
  #sizeFor(nbytes: number): number {
    const bucket = this.bucketSize(nbytes);
    const room = this.limitBytes - this.counters.allocated.current;
    const fits = bucket <= room && bucket <= this.source.maxAllocationBytes;
    return fits ? bucket : roundUp(nbytes, this.source.alignment);
  }

  #bucket(size: number, flags: bigint | undefined): Bucket<B> {
    let buckets = this.#buckets.get(size);
    if (buckets === undefined) this.#buckets.set(size, buckets = []);
    for (const bucket of buckets) if (bucket.flags === flags) return bucket;
    const bucket: Bucket<B> = { size, flags, free: new FreeBlocks(), live: 0 };
    buckets.push(bucket);
    return bucket;
  }

  #create(bucket: Bucket<B>): BucketBlock<B> | null {
    const id = this.#nextBlock;
    const buffer = this.reserved.reserve(id, bucket.size, bucket.flags);
    if (buffer === null) return null;
    this.#nextBlock++;
    const block = new BucketBlock<B>(id, bucket, buffer);
    this.#blocks.add(block);
    return block;
  }

  #destroy(block: BucketBlock<B>): void {
    block.destroyed = true;
    this.#blocks.delete(block);
    block.fence?.release();
    this.reserved.unreserve(block.segment, block.buffer, block.size);
  }

  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  override trim(bytes = Infinity): number {
    requireValue("trim", "bytes", bytes, takes.byteLimit);
    let freed = 0;
    const sizes = [...this.#buckets.keys()].sort((a, b) => b - a);
    for (const bucket of sizes.flatMap((size) => this.#buckets.get(size)!)) {
      while (bucket.free.length > 0 && freed < bytes) {
        this.#destroy(bucket.free.takeOldest()!);
        freed += bucket.size;
      }
    }
    return freed;
  }

  /** Bytes of the largest block that could be handed out without asking the driver. */
  override get largestFreeBytes(): number {
    let largest = 0;
    for (const [size, buckets] of this.#buckets) {
      if (size > largest && buckets.some((bucket) => bucket.free.length > 0)) largest = size;
    }
    return largest;
  }

  /** Every segment with its blocks. */
  override segments(): SegmentSnapshot[] {
    return [...this.#blocks].map(({ segment: id, size: nbytes, holder, queue }) => {
      const isFree = queue === undefined || queue === this.fences.defaultQueue;
      const block: BlockSnapshot = holder === null
        ? { offset: 0, nbytes, state: isFree ? "free" : "fenced" }
        : { offset: 0, nbytes, state: "live", allocation: describeHandle(holder) };
      return { id, nbytes, blocks: [block] };
    });
  }
}
