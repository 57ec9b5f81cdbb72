/**
 * The pools: each asks a source (`sources/`) for segments, keeps what comes back in free lists
 * (`regions/`) and lends it as handles. This folder imports `core/`, `fences/`, `regions/` and
 * `sources/`. Requests come from `devices/`, or from a user who made a pool; a new kind of pool is a
 * file here and a line in the conformance suite.
 *
 * @module
 */
import { runAll } from "../../ffi/host/run_all.ts";
import * as takes from "../../ffi/host/option_rules.ts";
import { checkOptions, requireValue } from "../../ffi/host/options.ts";
import { allocateWithRetries } from "../core/allocate.ts";
import { checkByteCount } from "../core/bytes.ts";
import { largestByOrigin } from "../core/live_allocations.ts";
import { PoolObservers } from "../core/observers.ts";
import {
  type AllocateOptions,
  allocateRules,
  type BlockPlace,
  type BufferHandle,
  type LiveBlock,
  type Pool,
  type PoolObserver,
  type SegmentSnapshot,
} from "../core/pool.ts";
import {
  type RetryLadder,
  type RetryStep,
  retryStep,
  Shortage,
  type ShortageDetails,
} from "../core/retry_ladder.ts";
import { PoolCounters, type PoolStats } from "../core/stats.ts";
import { checkInOrder, type FenceEvent, type FenceQueue } from "../fences/fence.ts";
import { FenceLedger } from "../fences/fence_ledger.ts";
import type { MemorySource } from "../sources/source.ts";
import { type Block, outlivePool, PooledHandle } from "./handle.ts";
import { LiveHandles } from "./live_handles.ts";
import { ReservedMemory } from "./reserved_memory.ts";

/** The request for a block. */
export interface BlockRequest {
  /** Bytes, at least 1. */
  readonly nbytes: number;
  /** `cl_mem_flags`, `undefined` for the source's own. */
  readonly flags: bigint | undefined;
  /** The queue that will use it, `undefined` where it is not named. */
  readonly queue: FenceQueue | undefined;
}

/**
 * A pool that owns memory, put together of parts that each do one job: {@linkcode LiveHandles} what
 * callers hold, {@linkcode ReservedMemory} what the source gave, within the limit,
 * {@linkcode FenceLedger} which queue may have what came back, a {@linkcode RetryLadder} what is
 * tried when memory is short. A kind of pool adds where free blocks are kept: the abstract methods.
 */
export abstract class PoolBase<B> implements Pool<B> {
  /** The source of new memory. */
  readonly source: MemorySource<B>;
  /** The statistics; {@linkcode PoolBase} keeps all of them but `subBuffers`. */
  protected readonly counters: PoolCounters = new PoolCounters();
  /** Memory of the source, by segments. */
  protected readonly reserved: ReservedMemory<B>;
  /** Decides which queue may have a block that came back. */
  protected readonly fences: FenceLedger<Block<B>>;
  readonly #observers: PoolObservers = new PoolObservers();
  readonly #handles: LiveHandles<B>;

  /**
   * Begins with no memory.
   *
   * @param source The source of new memory.
   * @param limitBytes The most bytes to hold from it; no limit by default.
   */
  constructor(source: MemorySource<B>, limitBytes: number = Infinity) {
    this.source = source;
    this.fences = new FenceLedger(source.defaultQueue, {
      deallocate: (block, queue, fence) => this.deallocate(block, queue, fence),
      discard: (block) => this.discard(block),
      discardFreeOfDefault: () => this.discardFreeOfDefault(),
      orderAfter: (taker, owner, events) => this.orderAfter(taker, owner, events),
    });
    this.reserved = new ReservedMemory(source, limitBytes, this.counters, this.#observers);
    this.#handles = new LiveHandles(this, source, this.counters, this.#observers);
  }

  /** Statistics of the pool so far; the object is live. */
  get stats(): PoolStats {
    return this.counters;
  }

  /** The most bytes that may be held from the driver; `Infinity` is no limit. */
  get limitBytes(): number {
    return this.reserved.limitBytes;
  }

  /**
   * Sets the most bytes that may be held.
   *
   * @throws {TypeError | RangeError} When it is no number of bytes.
   */
  set limitBytes(bytes: number) {
    requireValue("limit a pool", "limitBytes", bytes, takes.byteLimit);
    this.reserved.limitBytes = bytes;
  }

  /** A block for a request, `null` where the limit or the source has none. Waits for nothing. */
  protected abstract tryAllocateBlock(request: BlockRequest): Block<B> | null;
  /**
   * Takes a block back.
   *
   * @param queue Who may have it at once; `undefined` is anyone.
   * @param fence What others must wait for. Without one, a marker on `queue` (the default queue)
   *   will do.
   */
  protected abstract deallocate(
    block: Block<B>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void;
  /** Takes a block back whose last use cannot be waited for: it is never lent again. */
  protected abstract discard(block: Block<B>): void;
  /**
   * Does the same with all free blocks of the default queue: it was released, and what it was given
   * can no longer be waited for.
   */
  protected abstract discardFreeOfDefault(): void;
  /**
   * Makes free blocks of other queues that may serve the request its queue's own, behind fences;
   * returns their bytes.
   */
  protected abstract mergeFromQueues(request: BlockRequest): number;
  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  abstract trim(bytes?: number): number;
  /** Bytes of the largest block that could be handed out without asking the driver. */
  abstract readonly largestFreeBytes: number;
  /** Every segment with its blocks. */
  abstract segments(): SegmentSnapshot[];

  /** Lends a block; see {@linkcode Pool.allocate}. */
  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> {
    return allocateWithRetries(this, this.tryAllocate(nbytes, options), nbytes, options);
  }

  /** Lends a block that needs no waiting; see {@linkcode Pool.tryAllocate}. */
  tryAllocate(nbytes: number, options?: AllocateOptions): PooledHandle<B> | Shortage {
    checkOptions("allocate", options, allocateRules);
    const { defaultQueue } = this.fences;
    const queue = options?.queue ?? defaultQueue;
    if (queue !== defaultQueue) checkInOrder(queue);
    if (!(nbytes > 0 && Number.isSafeInteger(nbytes))) {
      checkByteCount(nbytes, "allocate");
      return this.#handles.lend(null, 0, queue, options?.label);
    }
    this.fences.update();
    const counters = this.counters;
    const nativeBefore = counters.nativeAllocs;
    const request = { nbytes, flags: options?.flags, queue };
    const block = this.tryAllocateBlock(request);
    if (block === null) return this.#shortage(request);
    if (counters.nativeAllocs === nativeBefore) counters.hits++;
    else counters.misses++;
    return this.#handles.lend(block, nbytes, queue, options?.label);
  }

  #shortage(request: BlockRequest): Shortage {
    const cause = this.reserved.refusal;
    return new Shortage(this.#retrySteps(request), () => this.#details(request.nbytes, cause));
  }

  #retrySteps(request: BlockRequest): RetryStep[] {
    const { fences } = this;
    return [
      retryStep(
        "blocks of other queues",
        () => fences.mergeDeferred(request.queue) + this.mergeFromQueues(request),
      ),
      retryStep("wait for the oldest work", () => fences.awaitOldest()),
      retryStep("cached segments", () => this.#trimFor(request.nbytes)),
    ];
  }

  /** Trims what the request lacks, unless the callers' own blocks leave no room for it anyhow. */
  #trimFor(nbytes: number): number {
    const { allocated, reserved } = this.counters;
    if (allocated.current + nbytes > this.limitBytes) return 0;
    const lacking = reserved.current + nbytes - this.limitBytes;
    return this.trim(lacking > 0 ? lacking : nbytes);
  }

  #details(nbytes: number, cause: unknown): ShortageDetails {
    return {
      requestedBytes: nbytes,
      freeBytes: this.counters.bytesCached,
      largestFreeBytes: this.largestFreeBytes,
      reservedBytes: this.counters.reservedBytes,
      limitBytes: this.limitBytes,
      maxAllocationBytes: this.source.maxAllocationBytes,
      deviceName: this.source.name,
      liveAllocations: largestByOrigin(this.liveBlocks()),
      cause,
    };
  }

  /** Counts an allocation that had to be tried again; see {@linkcode Pool.countRetries}. */
  countRetries(ladder: RetryLadder, nbytes: number, found: boolean): void {
    this.counters.countRetries(ladder, found);
    if (!found) this.#observers.exhausted(nbytes);
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
    this.#handles.end(handle);
    this.counters.numFrees++;
    const block: Block<B> | null = handle.block;
    if (block !== null) this.fences.release(block, handle.queue, handle.users);
  }

  /**
   * Lends parts of a block in its stead.
   *
   * @param divided The blocks at these places.
   */
  protected lendParts(
    handle: PooledHandle<B>,
    places: readonly BlockPlace[],
    divided: readonly Block<B>[],
  ): PooledHandle<B>[] {
    const { queue, users, label } = handle;
    this.#handles.end(handle);
    this.counters.numFrees++;
    return divided.map((block, k) => {
      const part = this.#handles.lend(block, places[k]!.nbytes, queue, label);
      part.users = users;
      return part;
    });
  }

  /** Takes back a block whose holder the garbage collector found. */
  reclaim(handle: BufferHandle<B>): void {
    if (handle.state !== "live") return;
    this.counters.leaksReclaimed++;
    this.release(handle);
  }

  /**
   * Lets `taker` come after `events`, and after the work of the default queue where that was the
   * `owner`: on the device, or without a taker by waiting for it.
   */
  protected orderAfter(
    taker: FenceQueue | undefined,
    owner: FenceQueue | undefined,
    events: readonly FenceEvent[],
  ): void {
    if (this.fences.orderAfter(taker, owner, events)) this.counters.fences++;
  }

  /** Gives all cached memory back to the driver. */
  clear(): void {
    this.fences.awaitAll();
    this.trim();
  }

  /**
   * Ends the pool: every block becomes `destroyed`. One that cannot be given back, or waited for,
   * keeps none of the others; the first error is thrown at the end.
   */
  destroy(): void {
    const held: Block<B>[] = [];
    for (let handle; (handle = this.#handles.newest) !== null;) {
      this.#handles.end(handle);
      outlivePool(handle);
      if (handle.block !== null) held.push(handle.block);
    }
    runAll([
      () => this.fences.discardAll(),
      ...held.map((block) => () => this.discard(block)),
      () => this.trim(),
    ]);
  }

  /** Tells `observer` of everything from now on, until the result is disposed of. */
  observe(observer: PoolObserver): Disposable {
    return this.#observers.add(observer);
  }

  /** The blocks that callers hold, oldest first. */
  liveBlocks(): LiveBlock[] {
    return this.#handles.describe();
  }

  /** Lets the peaks start again from the present values. */
  resetPeakStats(): void {
    this.counters.resetPeaks();
  }

  /** Sets the accumulated counters to zero. */
  resetAccumulatedStats(): void {
    this.counters.resetAccumulated();
  }
}
