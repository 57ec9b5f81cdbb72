import { checkByteCount } from "./bytes.ts";
import { OutOfMemoryError, type Rung } from "./errors.ts";
import { checkInOrder, type FenceEvent, type FenceQueue, markerOf, waitFor } from "./fences.ts";
import { type Block, describeHandle, PooledHandle } from "./handle.ts";
import { largestByOrigin } from "./live_allocations.ts";
import {
  type AllocateOptions,
  allocateRules,
  type BufferHandle,
  type LiveBlock,
  type Pool,
  type PoolObserver,
  type SegmentSnapshot,
} from "./pool.ts";
import { type Parked, ParkedBlocks } from "./parked_blocks.ts";
import { type MemorySource, NoMemoryError } from "./source.ts";
import { PoolCounters, type PoolStats } from "./stats.ts";
import { ViewHandle } from "./view_handle.ts";
import { checkOptions } from "../ffi/options.ts";

/** What a block is asked for. */
export interface BlockRequest {
  /** Bytes, at least 1. */
  readonly nbytes: number;
  /** `cl_mem_flags`, `undefined` for the source's own. */
  readonly flags: bigint | undefined;
  /** The queue that will use it, `undefined` where nobody says. */
  readonly queue: FenceQueue | undefined;
}

/**
 * What all pools that own memory have in common: handles and their states, statistics, the limit,
 * fences and the pool's part of the ladder. A pool adds where a block comes from and where it goes.
 */
export abstract class PoolBase<B> implements Pool<B> {
  /** Where new memory comes from. */
  readonly source: MemorySource<B>;
  /** The queue of requests that name none; its work needs no marker, as it outlives the pool. */
  protected readonly home: FenceQueue | undefined;
  /** The most bytes that may be held from the driver; `Infinity` is no limit. */
  limitBytes: number;
  /** The statistics; {@linkcode PoolBase} keeps all of them but `slices`. */
  protected readonly counters: PoolCounters = new PoolCounters();
  #observers: PoolObserver[] | null = null;
  #newest: PooledHandle<B> | null = null;
  readonly #parked: ParkedBlocks<B> = new ParkedBlocks();
  #serial = 0;
  #refusal: unknown = undefined;

  /**
   * Begins with no memory.
   *
   * @param source Where new memory comes from.
   * @param limitBytes The most bytes to hold from it.
   */
  constructor(source: MemorySource<B>, limitBytes: number = Infinity) {
    checkInOrder(source.home);
    this.source = source;
    this.home = source.home;
    this.limitBytes = limitBytes;
  }

  /** What the pool did so far; the object is live. */
  get stats(): PoolStats {
    return this.counters;
  }

  /** A block for a request, `null` where the limit or the source has none. Waits for nothing. */
  protected abstract take(request: BlockRequest): Block<B> | null;
  /**
   * Takes a block back.
   *
   * @param queue Who may have it at once; `undefined` is anyone.
   * @param fence What others must wait for. Without one, a marker on `queue` (the home queue) will
   *   do.
   */
  protected abstract give(
    block: Block<B>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void;
  /** Takes a block back that may be in use for nobody knows how long: nobody may have it again. */
  protected abstract abandon(block: Block<B>): void;
  /**
   * Makes blocks of other queues that may serve the request its queue's own; returns their bytes.
   */
  protected abstract adopt(request: BlockRequest): number;
  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  abstract trim(bytes?: number): number;
  /** Bytes of the largest block that could be handed out without asking the driver. */
  abstract readonly largestFreeBytes: number;
  /** Every segment with its blocks. */
  abstract segments(): SegmentSnapshot[];

  /** Lends a block; see {@linkcode Pool.allocate}. */
  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> {
    checkOptions("allocate", options, allocateRules);
    const queue = options?.queue ?? this.home;
    if (queue !== this.home) checkInOrder(queue);
    if (!(nbytes > 0 && Number.isSafeInteger(nbytes))) {
      checkByteCount(nbytes, "allocate");
      return this.#lend(null, 0, queue, options?.label);
    }
    if (this.#parked.count > 0) this.#giveBack(this.#parked.takeDone());
    const counters = this.counters;
    const nativeBefore = counters.nativeAllocs;
    const request = { nbytes, flags: options?.flags, queue };
    const block = this.take(request) ?? this.#climb(request);
    if (counters.nativeAllocs === nativeBefore) counters.hits++;
    else counters.misses++;
    return this.#lend(block, nbytes, queue, options?.label);
  }

  #lend(
    block: Block<B> | null,
    nbytes: number,
    queue: FenceQueue | undefined,
    label: string | undefined,
  ): PooledHandle<B> {
    const id = ++this.#serial;
    const { source } = this;
    const handle = source.view === undefined
      ? new PooledHandle<B>(this, block, nbytes, id, label, queue, source.empty)
      : new ViewHandle<B>(source, this, block, nbytes, id, label, queue);
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
    if (this.#observers !== null) {
      for (const observer of this.#observers) observer.allocated(handle);
    }
    return handle;
  }

  /** Takes a block back. */
  release(handle: BufferHandle<B>): void {
    if (!(handle instanceof PooledHandle) || handle.pool !== this) {
      throw new TypeError("Cannot release a handle that another pool lent: call handle.release()");
    }
    if (!handle.live) {
      this.counters.doubleReleases++;
      return;
    }
    this.#forget(handle);
    this.counters.numFrees++;
    const block: Block<B> | null = handle.block;
    if (block === null) return;
    const { queue, users } = handle;
    if (queue?.released || users?.some((user) => user.released)) return this.abandon(block);
    const fence = this.fenceOn(queue);
    if (users === null) return this.give(block, queue, fence);
    this.#parked.add({ block, queue, fence, events: users.map(markerOf) });
  }

  /** What others have to wait for before they use what `queue` used; `null` on the home queue. */
  protected fenceOn(queue: FenceQueue | undefined): FenceEvent | null {
    return queue === undefined || queue === this.home ? null : markerOf(queue);
  }

  /** Unlinks a handle that is live no more. */
  #forget(handle: PooledHandle<B>): void {
    if (this.#observers !== null) {
      for (const observer of this.#observers) observer.released(handle);
    }
    handle.retire();
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

  /** Takes parked blocks back whose other users are done; returns their bytes. */
  #giveBack(parked: readonly Parked<B>[]): number {
    for (const { block, queue, fence } of parked) this.give(block, queue, fence);
    return parked.reduce((bytes, { block }) => bytes + block.size, 0);
  }

  /**
   * Lets `taker` wait, on the device, for the users of all parked blocks, and gives these to it.
   */
  #adoptParked(taker: FenceQueue | undefined): number {
    if (taker === undefined) return 0;
    let bytes = 0;
    for (const { block, queue, fence, events } of this.#parked.takeAll()) {
      this.order(taker, queue, fence === null ? events : [...events, fence]);
      for (const event of events) event.release();
      fence?.release();
      this.give(block, taker, this.fenceOn(taker));
      bytes += block.size;
    }
    return bytes;
  }

  /**
   * Lets `taker` come after `events`, and after the work of the home queue where that was the
   * `owner`: on the device, or without a taker by waiting for it.
   */
  protected order(
    taker: FenceQueue | undefined,
    owner: FenceQueue | undefined,
    events: readonly FenceEvent[],
  ): void {
    this.counters.fences++;
    if (owner === undefined || owner !== this.home || taker === owner) {
      return waitFor(taker, events);
    }
    const marker = markerOf(owner);
    waitFor(taker, [...events, marker]);
    marker.release();
  }

  /** The pool's part of the ladder: each rung frees something and the allocation is tried again. */
  #climb(request: BlockRequest): Block<B> {
    const rungs: Rung[] = [];
    for (const [name, climb] of this.#ladder(request)) {
      for (let freedBytes = climb(); freedBytes > 0; freedBytes = climb()) {
        this.counters.countRung(name);
        rungs.push({ name, freedBytes });
        const block = this.take(request);
        if (block !== null) {
          this.counters.numRetries++;
          return block;
        }
      }
      if (rungs.at(-1)?.name !== name) rungs.push({ name, freedBytes: 0 });
    }
    this.counters.numOoms++;
    for (const observer of this.#observers ?? []) observer.exhausted(request.nbytes);
    throw this.#exhausted(request.nbytes, rungs);
  }

  #ladder(request: BlockRequest): [string, () => number][] {
    return [
      ["blocks of other queues", () => this.#adoptParked(request.queue) + this.adopt(request)],
      ["wait for the oldest work", () => this.#giveBack(this.#parked.awaitOldest())],
      ["cached segments", () => this.#trimFor(request.nbytes)],
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

  /** Asks the source for memory; `null` where the limit or the source forbids it. */
  protected reserve(segment: number, nbytes: number, flags: bigint | undefined): B | null {
    const tooMuch = this.counters.reserved.current + nbytes > this.limitBytes;
    if (tooMuch || nbytes > this.source.maxAllocationBytes) return null;
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
    for (const observer of this.#observers ?? []) observer.reserved(segment, nbytes);
    return buffer;
  }

  /** Gives memory back to the source. */
  protected unreserve(segment: number, buffer: B, nbytes: number): void {
    this.source.destroy(buffer);
    this.counters.nativeFrees++;
    this.counters.reserved.subtract(nbytes);
    for (const observer of this.#observers ?? []) observer.unreserved(segment, nbytes);
  }

  /** Tells `observer` of everything from now on, until the result is disposed of. */
  observe(observer: PoolObserver): Disposable {
    // A new array each time: an observer may come or go while another one is being told.
    this.#observers = [...this.#observers ?? [], observer];
    return {
      [Symbol.dispose]: () => {
        const others = (this.#observers ?? []).filter((other) => other !== observer);
        this.#observers = others.length > 0 ? others : null;
      },
    };
  }

  /** Gives all cached memory back to the driver. */
  clear(): void {
    while (this.#giveBack(this.#parked.awaitOldest()) > 0);
    this.trim();
  }

  /** Ends the pool: every block becomes `destroyed`. */
  destroy(): void {
    while (this.#newest !== null) {
      const handle: PooledHandle<B> = this.#newest;
      this.#forget(handle);
      if (handle.block !== null) this.abandon(handle.block);
    }
    this.clear();
  }

  /** The blocks that callers hold, oldest first. */
  liveBlocks(): LiveBlock[] {
    const blocks: LiveBlock[] = [];
    for (let handle = this.#newest; handle !== null; handle = handle.older) {
      blocks.push(describeHandle(handle));
    }
    return blocks.reverse();
  }

  /** Lets the peaks start again from the present values. */
  resetPeakStats(): void {
    this.counters.resetPeaks();
  }

  /** Sets the accumulated counters to zero. */
  resetAccumulatedStats(): void {
    this.counters.resetAccumulated();
  }

  /** Takes back a block whose holder the garbage collector found. */
  reclaim(handle: BufferHandle<B>): void {
    if (handle.state !== "live") return;
    this.counters.leaksReclaimed++;
    this.release(handle);
  }
}
