import type { DeviceMemoryStats } from "./devices/device_stats.ts";
import { saveFileSync } from "../ffi/host/atomic_file.ts";
import { type PressureCallback, pressureCallbacks } from "./devices/device_memory.ts";
import { largestByOrigin } from "./core/live_allocations.ts";
import { Recorder, type RecorderOptions } from "./report/recorder.ts";
import { deviceMemoryOf, registeredMemories, watchRegistrations } from "./devices/registry.ts";
import { reportPage } from "./report/report.ts";
import type { StatisticsScope } from "./wrappers/statistics_scope.ts";
import { requireValue } from "../ffi/host/options.ts";
import * as takes from "../ffi/host/option_rules.ts";

/** The recordings that run, oldest first. */
const recordings: Recording[] = [];

/** A recording of all devices, also of those that are opened while it runs. */
class Recording extends Recorder {
  readonly #watch: Disposable;

  constructor(options?: RecorderOptions) {
    super(options);
    for (const { name, pool } of registeredMemories()) this.attach(name, pool);
    this.#watch = watchRegistrations(({ name, pool }) => this.attach(name, pool));
    recordings.push(this);
  }

  override [Symbol.dispose](): void {
    super[Symbol.dispose]();
    this.#watch[Symbol.dispose]();
    const at = recordings.indexOf(this);
    if (at >= 0) recordings.splice(at, 1);
  }
}

/** The memory of all devices, as {@linkcode memory} offers it. */
export interface MemoryFacade {
  /** The statistics of a device now; the object no longer changes. */
  stats(device?: object): DeviceMemoryStats;
  /** Lets the peaks start again from the present values. */
  resetPeakStats(device?: object): void;
  /** Sets everything that only grows back to zero. */
  resetAccumulatedStats(device?: object): void;
  /**
   * Counts what happens from now on, apart from all other counters. Scopes may be nested.
   *
   * @example
   * ```ts
   * import { DeviceMemory, HostPool, memory, registerDeviceMemory } from "@netcl/netcl/memory";
   * import { assertEquals } from "@std/assert";
   *
   * const device = {}, cpu = new DeviceMemory(new HostPool(), { name: "cpu" });
   * registerDeviceMemory(device, cpu);
   * using scope = memory.scope(device);
   * cpu.allocate(1000).release();
   * assertEquals([scope.numAllocs, scope.requested.peak], [1, 1000]);
   * ```
   */
  scope(device?: object): StatisticsScope;
  /** Gives all cached memory back to the driver; returns its bytes. */
  emptyCache(device?: object): number;
  /**
   * Sets the most bytes that may be held from the driver: `Infinity` for no limit, `null` for the default.
   */
  setLimit(bytes: number | null, device?: object): void;
  /**
   * Registers a callback that is asked to free memory before an allocation is given up. It returns
   * whether trying again may help.
   */
  onPressure(callback: PressureCallback): Disposable;
  /** Records what happens to the memory of all devices, until the result is disposed of. */
  record(options?: RecorderOptions): Recorder;
  /** Everything about a device's memory as data: statistics, segments, blocks, who holds them. */
  snapshot(device?: object): Record<string, unknown>;
  /**
   * Writes one self-contained HTML page: the timeline, what lives now and where it was made. While
   * a recording runs, the page shows it.
   *
   * @param path Where to; needs the permission to write there.
   */
  report(path: string, device?: object): void;
}

/**
 * The memory of all devices: statistics, limits, the cache, recordings and reports. Every function
 * takes a device and means the active one where none is given.
 */
export const memory: MemoryFacade = {
  stats(device) {
    return deviceMemoryOf(device).stats;
  },

  resetPeakStats(device) {
    deviceMemoryOf(device).resetPeakStats();
  },

  resetAccumulatedStats(device) {
    deviceMemoryOf(device).resetAccumulatedStats();
  },

  scope(device) {
    return deviceMemoryOf(device).scope();
  },

  emptyCache(device) {
    return deviceMemoryOf(device).emptyCache();
  },

  setLimit(bytes, device) {
    deviceMemoryOf(device).setLimit(bytes);
  },

  onPressure(callback) {
    requireValue("register for memory pressure", "callback", callback, takes.callback);
    pressureCallbacks.add(callback);
    return { [Symbol.dispose]: () => void pressureCallbacks.delete(callback) };
  },

  record(options) {
    return new Recording(options);
  },

  snapshot(device) {
    const { name, pool, stats } = deviceMemoryOf(device);
    return {
      device: name,
      pool: pool.constructor.name,
      stats,
      segments: pool.segments(),
      liveAllocations: largestByOrigin(pool.liveBlocks(), undefined, Infinity),
    };
  },

  report(path, device) {
    const page = reportPage(deviceMemoryOf(device), recordings.at(-1) ?? null);
    saveFileSync(path, page);
  },
};
