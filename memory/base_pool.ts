import { checkByteCount } from "./bytes.ts";
import { type LiveAllocation, OutOfMemoryError, type Rung } from "./errors.ts";
import { type FenceEvent, type FenceQueue, markerOf, waitFor } from "./fences.ts";
import { type Block, PooledHandle } from "./handle.ts";
import type {
  AllocateOptions,
  BufferHandle,
  LiveBlock,
  Pool,
  PoolObserver,
  SegmentSnapshot,
} from "./pool.ts";
import { type MemorySource, NoMemoryError } from "./source.ts";
import { PoolCounters, type PoolStats } from "./stats.ts";

/** A released block that the work of other queues still uses. */
interface Parked<B> {
  readonly block: Block<B>;
  readonly queue: FenceQueue | undefined;
  readonly events: FenceEvent[];
}

/**
 * What all pools that own memory have in common: handles and their states, statistics, the limit,
 * fences and the pool's part of the ladder. A pool adds where a block comes from and where it goes.
 */
export abstract class PoolBase<B> implements Pool<B> {
  /** Where new memory comes from. */
  readonly source: MemorySource<B>;
  limitBytes: number;
  observer: PoolObserver | null = null;
  protected readonly counters: PoolCounters = new PoolCounters();
  #newest: PooledHandle<B> | null = null;
  #parked: Parked<B>[] = [];
  #serial = 0;
  #refusal: unknown = undefined;

  constructor(source: MemorySource<B>, limitBytes: number = Infinity) {
    this.source = source;
    this.limitBytes = limitBytes;
  }

  get stats(): PoolStats {
    return this.counters;
  }

  /** A block of at least `nbytes` for `queue`, `null` where the limit or the source has none. */
  protected abstract take(
    nbytes: number,
    flags: bigint | undefined,
    queue: FenceQueue | undefined,
  ): Block<B> | null;
  /** Takes a block back whose later users must come after the work of `queue`. */
  protected abstract give(block: Block<B>, queue: FenceQueue | undefined): void;
  /** Makes the free blocks of other queues `queue`'s own; returns their bytes. */
  protected abstract adopt(queue: FenceQueue | undefined): number;
  /** Frees what a caller still holds, at the end of the pool. */
  protected abstract discard(block: Block<B>): void;
  abstract trim(bytes?: number): number;
  abstract readonly largestFreeBytes: number;
  abstract segments(): SegmentSnapshot[];

  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> {
    if (!(nbytes > 0 && Number.isSafeInteger(nbytes))) {
      checkByteCount(nbytes, "allocate");
      return this.#lend(null, 0, options);
    }
    if (this.#parked.length > 0) this.#collectParked();
    const counters = this.counters;
    const nativeBefore = counters.nativeAllocs;
    const block = this.take(nbytes, options?.flags, options?.queue) ?? this.#climb(nbytes, options);
    if (counters.nativeAllocs === nativeBefore) counters.hits++;
    else counters.misses++;
    return this.#lend(block, nbytes, options);
  }

  #lend(
    block: Block<B> | null,
    nbytes: number,
    options: AllocateOptions | undefined,
  ): PooledHandle<B> {
    const handle = new PooledHandle<B>(
      this,
      block,
      nbytes,
      ++this.#serial,
      options?.label,
      options?.queue,
      this.source.empty,
    );
    const counters = this.counters;
    counters.numAllocs++;
    if (block !== null) {
      block.holder = handle;
      counters.requested.add(nbytes);
      counters.allocated.add(block.size);
    }
    handle.older = this.#newest;
    if (this.#newest !== null) this.#newest.newer = handle;
    this.#newest = handle;
    if (this.observer !== null) this.observer.allocated(handle);
    return handle;
  }

  release(handle: BufferHandle<B>): void {
    if (!(handle instanceof PooledHandle) || handle.pool !== this) {
      throw new TypeError("Cannot release a handle that another pool lent: call handle.release()");
    }
    if (!handle.live) {
      this.counters.doubleReleases++;
      return;
    }
    if (this.observer !== null) this.observer.released(handle);
    this.#forget(handle);
    this.counters.numFrees++;
    const block: Block<B> | null = handle.block;
    if (block === null) return;
    if (handle.users === null) this.give(block, handle.queue);
    else this.#park(block, handle.queue, handle.users);
  }

  /** Unlinks a handle that is live no more. */
  #forget(handle: PooledHandle<B>): void {
    handle.live = false;
    if (handle.newer === null) this.#newest = handle.older;
    else handle.newer.older = handle.older;
    if (handle.older !== null) handle.older.newer = handle.newer;
    handle.older = handle.newer = null;
    const block = handle.block;
    if (block === null) return;
    block.holder = null;
    this.counters.requested.subtract(handle.nbytes);
    this.counters.allocated.subtract(block.size);
  }

  #park(block: Block<B>, queue: FenceQueue | undefined, users: FenceQueue[]): void {
    this.#parked.push({ block, queue, events: users.map(markerOf) });
  }

  /** Takes back the parked blocks whose other users are done; asks, but does not wait. */
  #collectParked(): void {
    this.#parked = this.#parked.filter(({ block, queue, events }) => {
      if (events.some((event) => event.status !== "complete")) return true;
      for (const event of events) event.release();
      this.give(block, queue);
      return false;
    });
  }

  /** Waits, on the host, until the longest-parked block is free. */
  #waitForOldest(): number {
    const oldest = this.#parked.shift();
    if (oldest === undefined) return 0;
    for (const event of oldest.events) {
      event.waitSync();
      event.release();
    }
    this.give(oldest.block, oldest.queue);
    return oldest.block.size;
  }

  /** Lets `queue` wait, on the device, for the users of all parked blocks, and takes these back. */
  #adoptParked(queue: FenceQueue): number {
    let bytes = 0;
    for (const { block, queue: owner, events } of this.#parked) {
      if (owner !== undefined && owner !== queue) events.push(markerOf(owner));
      waitFor(queue, events);
      for (const event of events) event.release();
      this.counters.fences++;
      this.give(block, queue);
      bytes += block.size;
    }
    this.#parked = [];
    return bytes;
  }

  /** The pool's part of the ladder: each rung frees something and the allocation is tried again. */
  #climb(nbytes: number, options: AllocateOptions | undefined): Block<B> {
    const queue = options?.queue;
    const rungs: Rung[] = [];
    for (const [name, climb] of this.#ladder(nbytes, queue)) {
      for (let freedBytes = climb(); freedBytes > 0; freedBytes = climb()) {
        this.counters.countRung(name);
        rungs.push({ name, freedBytes });
        const block = this.take(nbytes, options?.flags, queue);
        if (block !== null) {
          this.counters.numRetries++;
          return block;
        }
      }
      if (rungs.at(-1)?.name !== name) rungs.push({ name, freedBytes: 0 });
    }
    this.counters.numOoms++;
    throw this.#exhausted(nbytes, rungs);
  }

  #ladder(nbytes: number, queue: FenceQueue | undefined): [string, () => number][] {
    return [
      ["blocks of other queues", () => {
        const parked = queue === undefined || this.#parked.length === 0
          ? 0
          : this.#adoptParked(queue);
        return parked + this.adopt(queue);
      }],
      ["wait for the oldest work", () => this.#waitForOldest()],
      ["cached segments", () => this.#trimFor(nbytes)],
    ];
  }

  /** Trims what the request lacks, unless the callers' own blocks leave no room for it anyhow. */
  #trimFor(nbytes: number): number {
    const { allocated, reserved } = this.counters;
    if (allocated.current + nbytes > this.limitBytes) return 0;
    const lacking = reserved.current + nbytes - this.limitBytes;
    return this.trim(lacking > 0 ? lacking : nbytes);
  }

  #exhausted(nbytes: number, rungs: Rung[]): OutOfMemoryError {
    const cause = this.#refusal;
    this.#refusal = undefined;
    return new OutOfMemoryError({
      requestedBytes: nbytes,
      freeBytes: this.counters.bytesCached,
      largestFreeBytes: this.largestFreeBytes,
      reservedBytes: this.counters.reservedBytes,
      limitBytes: this.limitBytes,
      rungs,
      deviceName: this.source.name,
      liveAllocations: largestByOrigin(this.liveBlocks()),
      cause,
    });
  }

  /** True when the limit leaves room for that much more from the source. */
  protected fits(nbytes: number): boolean {
    return this.counters.reserved.current + nbytes <= this.limitBytes &&
      nbytes <= this.source.maxAllocationBytes;
  }

  /** Asks the source for memory; `null` where the limit or the source forbids it. */
  protected reserve(segment: number, nbytes: number, flags: bigint | undefined): B | null {
    if (!this.fits(nbytes)) return null;
    let buffer: B;
    try {
      buffer = this.source.create(nbytes, flags);
    } catch (error) {
      if (!(error instanceof NoMemoryError)) throw error;
      this.#refusal = error;
      return null;
    }
    this.counters.nativeAllocs++;
    this.counters.reserved.add(nbytes);
    this.observer?.reserved(segment, nbytes);
    return buffer;
  }

  /** Gives memory back to the source. */
  protected unreserve(segment: number, buffer: B, nbytes: number): void {
    this.source.destroy(buffer);
    this.counters.nativeFrees++;
    this.counters.reserved.subtract(nbytes);
    this.observer?.unreserved(segment, nbytes);
  }

  clear(): void {
    while (this.#waitForOldest() > 0);
    this.trim();
  }

  destroy(): void {
    while (this.#newest !== null) {
      const handle: PooledHandle<B> = this.#newest;
      this.#forget(handle);
      if (handle.block !== null) this.discard(handle.block);
    }
    this.clear();
  }

  liveBlocks(): LiveBlock[] {
    const blocks: LiveBlock[] = [];
    for (let handle = this.#newest; handle !== null; handle = handle.older) blocks.push(handle);
    return blocks.reverse();
  }

  resetPeakStats(): void {
    this.counters.resetPeaks();
  }

  resetAccumulatedStats(): void {
    this.counters.resetAccumulated();
  }

  /** Counts a handle that only the garbage collector found, and takes its block back. */
  reclaim(handle: BufferHandle<B>): void {
    if (handle.state !== "live") return;
    this.counters.leaksReclaimed++;
    handle.release();
  }
}

/** Adds allocations up by label and gives the largest sums first. */
export function largestByOrigin(
  blocks: readonly LiveBlock[],
  originOf: (block: LiveBlock) => string = (block) => block.label ?? "unlabelled",
  most = 5,
): LiveAllocation[] {
  const sums = new Map<string, { origin: string; count: number; nbytes: number }>();
  for (const block of blocks) {
    const origin = originOf(block);
    const sum = sums.get(origin) ?? { origin, count: 0, nbytes: 0 };
    sum.count++;
    sum.nbytes += block.nbytes;
    sums.set(origin, sum);
  }
  return [...sums.values()].sort((a, b) => b.nbytes - a.nbytes).slice(0, most);
}
