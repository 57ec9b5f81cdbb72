import { EnvironmentError, readEnvironment } from "../../ffi/host/environment.ts";
import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { BucketPool } from "./bucket_pool.ts";
import { GiB, KiB, MiB, nextPowerOfTwo } from "../core/bytes.ts";
import { sourceOf } from "../sources/device_source.ts";
import type { MemorySource } from "../sources/source.ts";
import { copyStats, type PoolStats } from "../core/stats.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** The bounds of a PersistentBufferPool. */
export interface PersistentBufferPoolOptions {
  /** The most bytes to keep cached. Default: NETCL_MAX_CACHED_GB, else 4 GiB. */
  readonly maxCachedBytes?: number;
  /** The most free buffers to keep in one bucket. Default: 16. */
  readonly maxBuffersPerBucket?: number;
}

const rules: Rules<PersistentBufferPoolOptions> = {
  maxCachedBytes: takes.byteLimit,
  maxBuffersPerBucket: takes.whole,
};

/** The statistics of a PersistentBufferPool. */
export interface PersistentPoolStats extends PoolStats {
  /** By bucket size: how many buffers are cached and how many are in callers' hands. */
  readonly buckets: Record<number, { cached: number; live: number }>;
}

/**
 * A bounded cache for long runs: a fixed list of sizes, a bound on all cached bytes and one on
 * the buffers of each size. What is released above the bounds goes back to the driver at once.
 *
 * On devices that share the host's memory, its buffers are made where the host can map them.
 */
export class PersistentBufferPool<B = Buffer> extends BucketPool<B> {
  /** The sizes in bytes, 1 KiB to 256 MiB; larger requests take powers of two. */
  static readonly BUCKETS: readonly number[] = [
    KiB,
    4 * KiB,
    16 * KiB,
    64 * KiB,
    256 * KiB,
    MiB,
    4 * MiB,
    16 * MiB,
    64 * MiB,
    256 * MiB,
  ];
  /** The most bytes that are kept cached. */
  readonly maxCachedBytes: number;
  /** The most free buffers that are kept in one bucket. */
  readonly maxBuffersPerBucket: number;

  /**
   * Begins with no memory.
   *
   * @param from The queue whose context and device the buffers are for, or any other source.
   * @param options The bounds.
   */
  constructor(from: CommandQueue | MemorySource<B>, options: PersistentBufferPoolOptions = {}) {
    checkOptions("make a PersistentBufferPool", options, rules);
    super(sourceOf<B>(from));
    this.maxCachedBytes = options.maxCachedBytes ?? environmentMaxCached();
    this.maxBuffersPerBucket = options.maxBuffersPerBucket ?? 16;
  }

  /** The size that a request is rounded up to. */
  protected override bucketSize(nbytes: number): number {
    return PersistentBufferPool.BUCKETS.find((bucket) => bucket >= nbytes) ??
      nextPowerOfTwo(nbytes);
  }

  /** True when both bounds leave room for it. */
  protected override keeps(bucketSize: number, cachedInBucket: number): boolean {
    // The buffer that is just coming back counts as cached already.
    return cachedInBucket < this.maxBuffersPerBucket &&
      this.stats.bytesCached <= this.maxCachedBytes && bucketSize <= this.maxCachedBytes;
  }

  /** The statistics now, with the buckets. */
  getStats(): PersistentPoolStats {
    return { ...copyStats(this.stats), buckets: this.bucketCounts() };
  }
}

function environmentMaxCached(): number {
  const text = readEnvironment("NETCL_MAX_CACHED_GB");
  if (text === undefined) return 4 * GiB;
  const value = Number(text);
  if (!(value >= 0)) {
    throw new EnvironmentError("NETCL_MAX_CACHED_GB", text, "a number of gibibytes is needed");
  }
  return value * GiB;
}
