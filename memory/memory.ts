import {
  type DeviceMemoryStats,
  type PressureCallback,
  pressureCallbacks,
} from "./device_memory.ts";
import { deviceMemoryOf } from "./registry.ts";

/**
 * The memory of all devices, for users: statistics, limits, the cache, recordings and reports.
 * Every function takes a device and means the active one where none is given.
 */
export const memory = {
  /** The statistics of a device now; the object no longer changes. */
  stats(device?: object): DeviceMemoryStats {
    return deviceMemoryOf(device).stats;
  },

  /** Lets the peaks start again from the present values. */
  resetPeakStats(device?: object): void {
    deviceMemoryOf(device).resetPeakStats();
  },

  /** Sets everything that only grows back to zero. */
  resetAccumulatedStats(device?: object): void {
    deviceMemoryOf(device).resetAccumulatedStats();
  },

  /** Gives all cached memory back to the driver; returns its bytes. */
  emptyCache(device?: object): number {
    return deviceMemoryOf(device).emptyCache();
  },

  /** Sets the most bytes that may be held from the driver; `null` is the default. */
  setLimit(bytes: number | null, device?: object): void {
    deviceMemoryOf(device).setLimit(bytes);
  },

  /**
   * Registers a callback that is asked to free memory before an allocation is given up. It returns
   * whether trying again may help.
   */
  onPressure(callback: PressureCallback): Disposable {
    pressureCallbacks.add(callback);
    return { [Symbol.dispose]: () => void pressureCallbacks.delete(callback) };
  },
};
