import type { RetryLadder } from "./retry_ladder.ts";

/** History of a quantity of bytes: what it is now, its peak, and all that ever went in and out. */
export interface StatCounterValues {
  /** Bytes now. */
  readonly current: number;
  /** The most that `current` was since the peaks were reset. */
  readonly peak: number;
  /** Bytes that were added since the accumulated counters were reset. */
  readonly allocated: number;
  /** Bytes that were taken away since the accumulated counters were reset. */
  readonly freed: number;
}

/** The mutable form of {@linkcode StatCounterValues}. */
export class StatCounter implements StatCounterValues {
  /** Bytes now. */
  current = 0;
  /** The most that they were. */
  peak = 0;
  /** Bytes that were added. */
  allocated = 0;
  /** Bytes that were taken away. */
  freed = 0;

  /** Adds bytes. */
  add(nbytes: number): void {
    const current = this.current + nbytes;
    this.current = current;
    this.allocated += nbytes;
    if (current > this.peak) this.peak = current;
  }

  /** Takes bytes away. */
  subtract(nbytes: number): void {
    this.current -= nbytes;
    this.freed += nbytes;
  }

  /** Lets the peak start again from the present value. */
  resetPeak(): void {
    this.peak = this.current;
  }

  /** Sets what only grows to zero. */
  resetAccumulated(): void {
    this.allocated = 0;
    this.freed = 0;
  }

  /** A copy that no longer changes. */
  toJSON(): StatCounterValues {
    const { current, peak, allocated, freed } = this;
    return { current, peak, allocated, freed };
  }
}

/**
 * Statistics of a pool. Two laws always hold: `bytesAllocated + bytesCached === reservedBytes`,
 * and (since the last reset) `hits + misses === numAllocs` less the allocations of zero bytes.
 */
export interface PoolStats {
  /** Allocations that needed no new memory from the driver. */
  readonly hits: number;
  /** Allocations for which the driver was asked for memory. */
  readonly misses: number;
  /** `hits / (hits + misses)`, 0 before the first allocation. */
  readonly hitRate: number;
  /** Block bytes that callers hold: what they asked for, rounded up. */
  readonly bytesAllocated: number;
  /** Bytes that the pool holds from the driver and that no caller holds. */
  readonly bytesCached: number;
  /** Bytes that callers hold, as they asked for them. */
  readonly requestedBytes: number;
  /** Peak of `requestedBytes`. */
  readonly peakRequestedBytes: number;
  /** Bytes held from the driver. */
  readonly reservedBytes: number;
  /** Peak of `reservedBytes`. */
  readonly peakReservedBytes: number;
  /** Allocations that succeeded. */
  readonly numAllocs: number;
  /** Releases that gave memory back. */
  readonly numFrees: number;
  /** Allocations that failed for good. */
  readonly numOoms: number;
  /** Allocations that succeeded only after a retry step. */
  readonly numRetries: number;
  /** Memory objects that were asked of the driver. */
  readonly nativeAllocs: number;
  /** Memory objects that were given back to the driver. */
  readonly nativeFrees: number;
  /** Sub-buffers that were made; they take no memory, but each is a call into the driver. */
  readonly subBuffers: number;
  /** Times that a queue was made to wait for another one before it got a block. */
  readonly fences: number;
  /** Releases of handles that were released already. */
  readonly doubleReleases: number;
  /** Handles that were not released and that the garbage collector found. */
  readonly leaksReclaimed: number;
  /** The caller's bytes. */
  readonly requested: StatCounterValues;
  /** The same after rounding. */
  readonly allocated: StatCounterValues;
  /** Memory that the driver gave. */
  readonly reserved: StatCounterValues;
  /** By retry step: how often it helped, so that the allocation was tried again. */
  readonly rungs: Readonly<Record<string, number>>;
}

const accumulated = [
  "hits",
  "misses",
  "numAllocs",
  "numFrees",
  "numOoms",
  "numRetries",
  "nativeAllocs",
  "nativeFrees",
  "subBuffers",
  "fences",
  "doubleReleases",
  "leaksReclaimed",
] as const;

/** The live statistics of one pool. */
export class PoolCounters implements PoolStats {
  hits = 0;
  misses = 0;
  numAllocs = 0;
  numFrees = 0;
  numOoms = 0;
  numRetries = 0;
  nativeAllocs = 0;
  nativeFrees = 0;
  subBuffers = 0;
  fences = 0;
  doubleReleases = 0;
  leaksReclaimed = 0;
  readonly requested: StatCounter = new StatCounter();
  readonly allocated: StatCounter = new StatCounter();
  readonly reserved: StatCounter = new StatCounter();
  readonly rungs: Record<string, number> = {};

  get hitRate(): number {
    const total = this.hits + this.misses;
    return total === 0 ? 0 : this.hits / total;
  }

  get bytesAllocated(): number {
    return this.allocated.current;
  }

  get bytesCached(): number {
    return this.reserved.current - this.allocated.current;
  }

  get requestedBytes(): number {
    return this.requested.current;
  }

  get peakRequestedBytes(): number {
    return this.requested.peak;
  }

  get reservedBytes(): number {
    return this.reserved.current;
  }

  get peakReservedBytes(): number {
    return this.reserved.peak;
  }

  /** Counts an allocation that was tried again, once for all who helped. */
  countRetries(ladder: RetryLadder, found: boolean): void {
    for (const [name, times] of ladder.helped) this.rungs[name] = (this.rungs[name] ?? 0) + times;
    if (found) this.numRetries++;
    else this.numOoms++;
  }

  /** Lets every peak start again from the present value. */
  resetPeaks(): void {
    for (const counter of this.#counters()) counter.resetPeak();
  }

  /** Sets everything that only grows back to zero; what is live and the peaks stay. */
  resetAccumulated(): void {
    for (const counter of this.#counters()) counter.resetAccumulated();
    for (const name of accumulated) this[name] = 0;
    for (const name of Object.keys(this.rungs)) delete this.rungs[name];
  }

  #counters(): StatCounter[] {
    return [this.requested, this.allocated, this.reserved];
  }

  /** A copy that no longer changes. */
  toJSON(): PoolStats {
    return copyStats(this);
  }
}

/** Copies statistics into a plain object that no longer changes. */
export function copyStats(stats: PoolStats): PoolStats {
  return {
    hits: stats.hits,
    misses: stats.misses,
    hitRate: stats.hitRate,
    bytesAllocated: stats.bytesAllocated,
    bytesCached: stats.bytesCached,
    requestedBytes: stats.requestedBytes,
    peakRequestedBytes: stats.peakRequestedBytes,
    reservedBytes: stats.reservedBytes,
    peakReservedBytes: stats.peakReservedBytes,
    numAllocs: stats.numAllocs,
    numFrees: stats.numFrees,
    numOoms: stats.numOoms,
    numRetries: stats.numRetries,
    nativeAllocs: stats.nativeAllocs,
    nativeFrees: stats.nativeFrees,
    subBuffers: stats.subBuffers,
    fences: stats.fences,
    doubleReleases: stats.doubleReleases,
    leaksReclaimed: stats.leaksReclaimed,
    requested: { ...stats.requested },
    allocated: { ...stats.allocated },
    reserved: { ...stats.reserved },
    rungs: { ...stats.rungs },
  };
}

/** The statistics of two pools together; a peak is the sum of both peaks, which it cannot pass. */
export function addStats(a: PoolStats, b: PoolStats): PoolStats {
  const sum = new PoolCounters();
  for (const name of accumulated) sum[name] = a[name] + b[name];
  for (const counter of ["requested", "allocated", "reserved"] as const) {
    for (const key of ["current", "peak", "allocated", "freed"] as const) {
      sum[counter][key] = a[counter][key] + b[counter][key];
    }
  }
  for (const [name, times] of [...Object.entries(a.rungs), ...Object.entries(b.rungs)]) {
    sum.rungs[name] = (sum.rungs[name] ?? 0) + times;
  }
  return copyStats(sum);
}
