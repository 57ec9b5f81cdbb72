import type { CommandQueue } from "../../ffi/mod.ts";
import { fragmentation } from "../core/errors.ts";
import type { Pool } from "../core/pool.ts";
import { addStats, copyStats, type PoolStats } from "../core/stats.ts";
import type { PersistentBufferPool, PersistentPoolStats } from "../pools/persistent_pool.ts";
import { driverFreeBytes } from "../sources/driver_free_bytes.ts";
import { pinnedPoolOf } from "./context_pools.ts";

/** The statistics of one device, with the names that PyTorch gives them. */
export interface DeviceMemoryStats extends PoolStats {
  /** Bytes that are live, rounded up to blocks: `allocated.current`. See also `requestedBytes`. */
  readonly currentAllocated: number;
  /** Peak of `currentAllocated`. */
  readonly peakAllocated: number;
  /** Cached bytes that a request of the size of the largest free block cannot use: 0 is none. */
  readonly fragmentation: number;
  /** The most bytes that may be held from the driver. */
  readonly limitBytes: number;
  /** The device's memory as the driver reports it; a hint, `Infinity` where it says nothing. */
  readonly totalBytes: number;
  /**
   * Bytes that the driver calls free, for all programs together; a hint, `null` where it says nothing.
   */
  readonly driverFreeBytes: number | null;
  /**
   * The part of the persistent pool, which the sums above contain; `null` before its first block.
   * Peaks of the sums are the sums of the pools' peaks.
   */
  readonly persistent: PersistentPoolStats | null;
  /**
   * Page-locked memory of the host for copies to and from the device, which the sums above do not
   * contain; `null` before its first block.
   */
  readonly pinned: PoolStats | null;
}

/** The subject of the statistics. */
interface Device<B> {
  readonly pool: Pool<B>;
  readonly queue: CommandQueue | null;
  readonly totalBytes: number;
}

/**
 * The statistics of a device now.
 *
 * @param persistent Its pool of persistent blocks, once there is one.
 * @param limitBytes The most bytes that both pools together may hold.
 */
export function deviceStats<B>(
  { pool, queue, totalBytes }: Device<B>,
  persistent: PersistentBufferPool<B> | null,
  limitBytes: number,
): DeviceMemoryStats {
  const persistentStats = persistent?.getStats() ?? null;
  const own = copyStats(pool.stats);
  const stats = persistentStats === null ? own : addStats(own, persistentStats);
  const pinned = queue === null ? null : pinnedPoolOf(queue.context);
  return {
    ...stats,
    currentAllocated: stats.allocated.current,
    peakAllocated: stats.allocated.peak,
    fragmentation: fragmentation(stats.bytesCached, pool.largestFreeBytes),
    limitBytes,
    persistent: persistentStats,
    pinned: pinned && copyStats(pinned.stats),
    totalBytes,
    driverFreeBytes: queue === null ? null : driverFreeBytes(queue.device),
  };
}
