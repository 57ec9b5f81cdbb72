import { checkByteCount } from "../core/bytes.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { OutOfMemoryError, type Rung } from "../core/errors.ts";
import {
  awaitEnd,
  checkInOrder,
  type FenceEvent,
  type FenceQueue,
  markerOf,
  orderAfter,
} from "../core/fences.ts";
import { type Block, PooledHandle } from "./handle.ts";
import { LiveHandles } from "./live_handles.ts";
import { largestByOrigin } from "../report/live_allocations.ts";
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
import { RetryLadder } from "../core/retry_ladder.ts";
import { type MemorySource, NoMemoryError } from "../sources/source.ts";
import { PoolCounters, type PoolStats } from "../core/stats.ts";
import { ViewHandle } from "./view_handle.ts";
import { checkOptions } from "../../ffi/host/options.ts";

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
  readonly #live: LiveHandles<B> = new LiveHandles();
  readonly #parked: ParkedBlocks<B> = new ParkedBlocks();
  #serial = 0;
  #refusal: unknown = undefined;
  #hasHome: boolean;

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
    this.#hasHome = source.home !== undefined;
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
   * Does the same with all free blocks of the home queue: it was released, and what it was given
   * can no longer be waited for.
   */
  protected abstract abandonHome(): void;
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
  allocate(nbytes: number, options?: AllocateOptions, ladder?: RetryLadder): BufferHandle<B> {
    checkOptions("allocate", options, allocateRules);
    const queue = options?.queue ?? this.home;
    if (queue !== this.home) checkInOrder(queue);
    if (!(nbytes > 0 && Number.isSafeInteger(nbytes))) {
      checkByteCount(nbytes, "allocate");
      return this.#lend(null, 0, queue, options?.label);
    }
    if (this.#hasHome && this.home!.released) this.#loseHome();
    if (this.#parked.count > 0) this.#giveBack(this.#parked.takeDone());
    const counters = this.counters;
    const nativeBefore = counters.nativeAllocs;
    const request = { nbytes, flags: options?.flags, queue };
    const block = this.take(request) ?? this.#climb(request, ladder);
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
    this.#live.add(handle);
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
    this.#parked.add(block, queue, fence, users);
  }

  #loseHome(): void {
    this.#hasHome = false;
    this.abandonHome();
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
    this.#live.remove(handle);
    const block = handle.block;
    if (block === null) return;
    block.holder = null;
    this.counters.requested.subtract(handle.nbytes);
    this.counters.allocated.subtract(block.size);
  }

  /** Takes parked blocks back whose other users are done; returns their bytes. */
  #giveBack(parked: readonly Parked<B>[]): number {
    for (const { block, queue, fence } of parked) {
      // Its own queue may be gone since, and with it the order of what comes next.
      if (fence === null && queue?.released) this.abandon(block);
      else this.give(block, queue, fence);
    }
    return parked.reduce((bytes, { block }) => bytes + block.size, 0);
  }

  /**
   * Lets `taker` wait, on the device, for the users of all parked blocks, and gives these to it.
   */
  #adoptParked(taker: FenceQueue | undefined): number {
    if (taker === undefined || this.#parked.count === 0) return 0;
    const parked = this.#parked.all();
    if (parked.some(({ fence, queue }) => fence === null && queue?.released)) return 0;
    const ofHome = parked.some(({ queue }) => queue !== undefined && queue === this.home);
    const fences = parked.flatMap(({ events, fence }) => fence ? [...events, fence] : events);
    this.order(taker, ofHome ? this.home : taker, fences);
    for (const { block, fence } of this.#parked.takeAll()) {
      fence?.release();
      this.give(block, taker, this.fenceOn(taker));
    }
    return parked.reduce((bytes, { block }) => bytes + block.size, 0);
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
    const isHome = owner !== undefined && owner === this.home && taker !== owner;
    if (orderAfter(taker, events, isHome ? owner : undefined)) this.counters.fences++;
  }

  /** The pool's part of the ladder: each rung frees something and the allocation is tried again. */
  #climb(request: BlockRequest, given: RetryLadder | undefined): Block<B> {
    const ladder = given ?? new RetryLadder();
    const block = this.#retry(request, ladder);
    if (given === undefined) this.settle(ladder, request.nbytes, block !== null);
    if (block === null) throw this.#exhausted(request.nbytes, ladder.rungs);
    return block;
  }

  #retry(request: BlockRequest, ladder: RetryLadder): Block<B> | null {
    for (const [name, climb] of this.#rungs(request)) {
      for (let freedBytes = climb(); freedBytes > 0; freedBytes = climb()) {
        ladder.note(name, freedBytes);
        const block = this.take(request);
        if (block !== null) return block;
      }
      ladder.note(name, 0);
    }
    return null;
  }

  /** Counts an allocation that had to be tried again; see {@linkcode Pool.settle}. */
  settle(ladder: RetryLadder, nbytes: number, found: boolean): void {
    for (const [name, climbs] of ladder.climbs) this.counters.countRung(name, climbs);
    if (found) {
      this.counters.numRetries++;
      return;
    }
    this.counters.numOoms++;
    for (const observer of this.#observers ?? []) observer.exhausted(nbytes);
  }

  #rungs(request: BlockRequest): [string, () => number][] {
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

  #exhausted(nbytes: number, rungs: readonly Rung[]): OutOfMemoryError {
    const cause = this.#refusal;
    this.#refusal = undefined;
    return new OutOfMemoryError({
      requestedBytes: nbytes,
      freeBytes: this.counters.bytesCached,
      largestFreeBytes: this.largestFreeBytes,
      reservedBytes: this.counters.reservedBytes,
      limitBytes: this.limitBytes,
      maxAllocationBytes: this.source.maxAllocationBytes,
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
    this.counters.nativeFrees++;
    this.counters.reserved.subtract(nbytes);
    for (const observer of this.#observers ?? []) observer.unreserved(segment, nbytes);
    this.source.destroy(buffer);
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

  /**
   * Ends the pool: every block becomes `destroyed`. One that cannot be given back, or waited for,
   * keeps none of the others; the first error is thrown at the end.
   */
  destroy(): void {
    const abandoned: Block<B>[] = [];
    for (let handle; (handle = this.#live.newest) !== null;) {
      this.#forget(handle);
      if (handle.block !== null) abandoned.push(handle.block);
    }
    const parked = this.#parked.all();
    runAll([
      ...parked.flatMap(({ events }) => events.map((event) => () => awaitEnd(event))),
      () => this.#parked.takeAll(),
      ...parked.map(({ block, fence }) => () => {
        fence?.release();
        this.abandon(block);
      }),
      ...abandoned.map((block) => () => this.abandon(block)),
      () => this.trim(),
    ]);
  }

  /** The blocks that callers hold, oldest first. */
  liveBlocks(): LiveBlock[] {
    return this.#live.describe();
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
