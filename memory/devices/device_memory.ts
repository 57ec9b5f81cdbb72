/**
 * The memory of a device: its pools, limit and retry steps, storages with their copies on other
 * devices, uploads under way, and which device has which memory. This folder imports all others but
 * `report/`. Requests come from the backends; blocks come from `pools/` and `wrappers/`.
 *
 * @module
 */
import { readEnvironment } from "../../ffi/host/environment.ts";
import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { formatBytes, parseBytes } from "../core/bytes.ts";
import { pinnedPoolOf } from "./context_pools.ts";
import { runCollector } from "../core/garbage.ts";
import { PendingUploads } from "./pending_uploads.ts";
import { type DeviceMemoryStats, deviceStats } from "./device_stats.ts";
import type { PersistentBufferPool } from "../pools/persistent_pool.ts";
import type { AllocateOptions, BlockPlace, BufferHandle, Pool } from "../core/pool.ts";
import {
  RetryLadder,
  type RetryResult,
  type RetryStep,
  retryStep,
  Shortage,
} from "../core/retry_ladder.ts";
import { StatisticsScope } from "../wrappers/statistics_scope.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options of a block of a device. */
export interface DeviceAllocateOptions extends AllocateOptions {
  /**
   * True when it comes from the device's persistent pool: for weights, which outlive many steps.
   * False by default.
   */
  readonly persistent?: boolean;
}

/** The owner of a device's memory. */
export interface DeviceMemoryOptions {
  /** The device, as errors and reports name it. */
  readonly name: string;
  /** Bytes that the device has; nine tenths of it are the default limit. */
  readonly totalBytes?: number;
  /** The queue that works on it; absent for the host. */
  readonly queue?: CommandQueue;
}

/** The source of a device's memory. */
export interface DevicePools<B> extends DeviceMemoryOptions {
  /** Makes, or finds, the pool of persistent blocks. Default: they come from the pool of all others. */
  readonly persistentPool?: () => PersistentBufferPool<B>;
}

const rules: Rules<DevicePools<Buffer>> = {
  name: takes.text,
  totalBytes: takes.byteLimit,
  queue: takes.object("the queue that works on the device"),
  persistentPool: takes.callback,
};

/** Asked to free memory before an allocation is given up; returns whether trying again may help. */
export type PressureCallback = (info: {
  /** Bytes that are lacking a place. */
  readonly requestedBytes: number;
  /** The device that they are lacking on. */
  readonly deviceName: string;
}) => boolean;

/**
 * Something that holds memory which it can do without, such as values that can be computed again.
 */
export interface Reclaimer {
  /** The retry step's name in errors and statistics. */
  readonly name: string;
  /** Gives back what it can; `nbytes` are lacking a place. */
  reclaim(nbytes: number): void;
}

// A driver needs some of a device's memory for itself: kernels, command queues, the display.
const DEFAULT_LIMIT_SHARE = 0.9;

/** The user's callbacks for all devices; `memory.onPressure` adds to them. */
export const pressureCallbacks: Set<PressureCallback> = new Set();

/**
 * The memory of one device: its pool, its limit and what is tried when memory is short.
 *
 * The retry steps: blocks of other queues (behind a fence), the oldest work, cached segments,
 * reclaimers (values that can be computed again), the user's callbacks, and in
 * {@linkcode allocateAsync} the garbage collector. Every step that helped is counted in
 * `stats.rungs`.
 *
 * @example
 * ```ts
 * import { DeviceMemory, HostPool } from "@netcl/netcl/memory";
 * import { assertEquals } from "@std/assert";
 *
 * const memory = new DeviceMemory(new HostPool(), { name: "cpu" });
 * const handle = memory.allocate(4096);
 * assertEquals(memory.stats.currentAllocated, 4096);
 * handle.release();
 * assertEquals(memory.stats.currentAllocated, 0);
 * ```
 */
export class DeviceMemory<B = Buffer> {
  /** The device, as errors and reports name it. */
  readonly name: string;
  /** The source of the blocks. */
  readonly pool: Pool<B>;
  /** The queue that works on the memory, `null` for the host. */
  readonly queue: CommandQueue | null;
  /** Bytes that the device has, `Infinity` where it is unknown. */
  readonly totalBytes: number;
  readonly #defaultLimit: number;
  readonly #openPersistent: (() => PersistentBufferPool<B>) | null;
  #persistent: PersistentBufferPool<B> | null = null;
  #limitBytes = Infinity;
  /** Blocks that are still being filled beside the kernels. */
  readonly uploads: PendingUploads;
  readonly #reclaimers = new Set<Reclaimer>();

  /**
   * Sets the default limit: NETCL_MEMORY_LIMIT, else nine tenths of the device.
   *
   * @param pool The pool to lend from.
   * @param options What the memory belongs to.
   */
  constructor(pool: Pool<B>, options: DevicePools<B>) {
    checkOptions("make a DeviceMemory", options, rules, ["name"]);
    this.name = options.name;
    this.pool = pool;
    this.queue = options.queue ?? null;
    this.#openPersistent = options.persistentPool ?? null;
    this.uploads = new PendingUploads(this.queue);
    this.totalBytes = options.totalBytes ?? Infinity;
    this.#defaultLimit = environmentLimit(this.totalBytes) ??
      Math.min(pool.limitBytes, Math.floor(this.totalBytes * DEFAULT_LIMIT_SHARE));
    this.setLimit(null);
  }

  /**
   * Lends a block, trying one retry step after the other where memory is short.
   *
   * @param nbytes A whole number; 0 is legal.
   * @throws {OutOfMemoryError} When no step helped. What lives is intact.
   */
  allocate(nbytes: number, options?: DeviceAllocateOptions): BufferHandle<B> {
    const first = this.#tryAllocate(nbytes, options);
    if (!(first instanceof Shortage)) return first;
    const ladder = new RetryLadder();
    return this.#count(ladder, nbytes, options, this.#retry(ladder, first, nbytes, options));
  }

  /**
   * Like {@linkcode allocate}, with one more step: the garbage collector runs and its finalizers
   * get a turn of the event loop, which synchronous code cannot give them.
   *
   * @throws {OutOfMemoryError} When no step helped.
   */
  async allocateAsync(
    nbytes: number,
    options?: DeviceAllocateOptions,
  ): Promise<BufferHandle<B>> {
    const first = this.#tryAllocate(nbytes, options);
    if (!(first instanceof Shortage)) return first;
    const ladder = new RetryLadder();
    let result = this.#retry(ladder, first, nbytes, options);
    if (result instanceof Shortage) {
      const before = this.pool.stats.bytesAllocated;
      await collectGarbage();
      const freedBytes = Math.max(0, before - this.pool.stats.bytesAllocated);
      ladder.note("garbage collection", freedBytes, true);
      result = this.#tryAllocate(nbytes, options);
      if (result instanceof Shortage) result = this.#retry(ladder, result, nbytes, options, []);
    }
    return this.#count(ladder, nbytes, options, result);
  }

  /** The pool of a request; the limit is one for both, so each may have what the other leaves. */
  #poolFor(options: DeviceAllocateOptions | undefined): Pool<B> {
    if (options?.persistent && this.#openPersistent !== null) {
      this.#persistent ??= this.#openPersistent();
    }
    const persistent = this.#persistent;
    if (persistent === null) return this.pool;
    this.pool.limitBytes = this.#restBeside(persistent);
    persistent.limitBytes = this.#restBeside(this.pool);
    return options?.persistent ? persistent : this.pool;
  }

  /** The bytes that a limit leaves beside a pool, also one below what is held already. */
  #restBeside(pool: Pool<B> | null): number {
    return Math.max(0, this.#limitBytes - (pool?.stats.reservedBytes ?? 0));
  }

  #tryAllocate(
    nbytes: number,
    options: DeviceAllocateOptions | undefined,
  ): BufferHandle<B> | Shortage {
    return this.#poolFor(options).tryAllocate(nbytes, forPool(options));
  }

  /** Runs the pool's retry steps and those above them. */
  #retry(
    ladder: RetryLadder,
    shortage: Shortage,
    nbytes: number,
    options: DeviceAllocateOptions | undefined,
    further: readonly RetryStep[] = this.#retrySteps(nbytes),
  ): BufferHandle<B> | Shortage {
    return ladder.retry(shortage, () => this.#tryAllocate(nbytes, options), further);
  }

  /** Counts an allocation that was tried again, once for all that was tried. */
  #count(
    ladder: RetryLadder,
    nbytes: number,
    options: DeviceAllocateOptions | undefined,
    result: BufferHandle<B> | Shortage,
  ): BufferHandle<B> {
    const isFound = !(result instanceof Shortage);
    this.#poolFor(options).countRetries(ladder, nbytes, isFound);
    if (isFound) return result;
    throw result.error(ladder, this.name);
  }

  /** The retry steps above the pool's own. */
  #retrySteps(nbytes: number): RetryStep[] {
    const steps: RetryStep[] = [];
    const persistent = this.#persistent;
    if (persistent !== null) {
      steps.push(
        retryStep("cached memory of both pools", () => this.pool.trim() + persistent.trim()),
      );
    }
    for (const reclaimer of this.#reclaimers) {
      const reclaim = () => (reclaimer.reclaim(nbytes), false);
      steps.push({ name: reclaimer.name, run: () => this.#measure(reclaim) });
    }
    for (const callback of pressureCallbacks) {
      const ask = () => callback({ requestedBytes: nbytes, deviceName: this.name });
      steps.push({ name: "onPressure callback", run: () => this.#measure(ask) });
    }
    return steps;
  }

  /** Runs something that may release blocks, and says by itself whether trying again may help. */
  #measure(free: () => boolean): RetryResult {
    const before = this.pool.stats.bytesAllocated;
    const mayHelp = free();
    const freedBytes = Math.max(0, before - this.pool.stats.bytesAllocated);
    return { freedBytes, helped: mayHelp || freedBytes > 0 };
  }

  /** Makes several blocks of one; see {@linkcode Pool.divide}. Null where that is not possible. */
  divide(handle: BufferHandle<B>, places: readonly BlockPlace[]): BufferHandle<B>[] | null {
    const parts = handle.pool?.divide?.(handle, places) ?? null;
    if (parts !== null) this.uploads.divide(handle, parts);
    return parts;
  }

  /** Counts what happens from now on, apart from all other counters; scopes may be nested. */
  scope(): StatisticsScope {
    return new StatisticsScope(this.pool);
  }

  /** Registers something that can give memory back when it is short. */
  addReclaimer(reclaimer: Reclaimer): Disposable {
    this.#reclaimers.add(reclaimer);
    return { [Symbol.dispose]: () => void this.#reclaimers.delete(reclaimer) };
  }

  /**
   * Takes back a block that its holder forgot; for finalizers. Counted in `stats.leaksReclaimed`.
   */
  reclaim(handle: BufferHandle<B>): void {
    (handle.pool ?? this.pool).reclaim(handle);
  }

  /** The statistics now; the object no longer changes. */
  get stats(): DeviceMemoryStats {
    return deviceStats(this, this.#persistent, this.#limitBytes);
  }

  /**
   * Sets the most bytes that may be held from the driver. What is held already stays.
   *
   * @param bytes A whole number, `Infinity` for none, or `null` for the default.
   * @throws {RangeError} When it is none of these.
   */
  setLimit(bytes: number | null): void {
    if (bytes !== null && bytes !== Infinity && !(Number.isSafeInteger(bytes) && bytes >= 0)) {
      throw new RangeError(
        `Cannot set a limit of ${bytes} bytes: pass a whole number from 0, Infinity for none, or null ` +
          "for the default",
      );
    }
    this.#limitBytes = bytes ?? this.#defaultLimit;
    this.pool.limitBytes = this.#restBeside(this.#persistent);
  }

  /** Gives all cached memory back to the driver, pinned memory too; returns the device's bytes. */
  emptyCache(): number {
    const before = this.stats.reservedBytes;
    this.pool.clear();
    this.#persistent?.clear();
    if (this.queue !== null) pinnedPoolOf(this.queue.context)?.clear();
    return before - this.stats.reservedBytes;
  }

  /** Lets the peaks start again from the present values. */
  resetPeakStats(): void {
    this.pool.resetPeakStats();
    this.#persistent?.resetPeakStats();
  }

  /** Sets everything that only grows back to zero. */
  resetAccumulatedStats(): void {
    this.pool.resetAccumulatedStats();
    this.#persistent?.resetAccumulatedStats();
  }

  /** Ends the device's memory: cached and live blocks go back to the driver. */
  destroy(): void {
    this.uploads.clear();
    this.pool.destroy();
    this.#persistent?.destroy();
  }

  /** "cpu: 1.5 MiB of 2 GiB". */
  toString(): string {
    const { reservedBytes } = this.stats;
    return `${this.name}: ${formatBytes(reservedBytes)} of ${formatBytes(this.#limitBytes)}`;
  }
}

/** The options without `persistent`, which chooses the pool and means nothing to it. */
function forPool(options: DeviceAllocateOptions | undefined): AllocateOptions | undefined {
  if (options?.persistent === undefined) return options;
  const { persistent: _, ...rest } = options;
  return rest;
}

function environmentLimit(totalBytes: number): number | undefined {
  const text = readEnvironment("NETCL_MEMORY_LIMIT");
  return text === undefined ? undefined : parseBytes("NETCL_MEMORY_LIMIT", text, totalBytes);
}

/** Runs the garbage collector and gives its finalizers a turn. */
async function collectGarbage(): Promise<void> {
  runCollector();
  await new Promise((resolve) => setTimeout(resolve));
}
