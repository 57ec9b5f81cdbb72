/**
 * Memory: pools that lend blocks of device or host memory, their statistics and limits, what is done
 * when memory is short, and copies between devices. It knows the binding (`ffi/`) and nothing above.
 *
 * @module
 */
export type {
  DeviceMemoryOptions,
  DeviceMemoryStats,
  PressureCallback,
  Reclaimer,
} from "./device_memory.ts";
export { DeviceMemory } from "./device_memory.ts";
export type { LiveAllocation, OutOfMemoryDetails, Rung } from "./errors.ts";
export { OutOfMemoryError } from "./errors.ts";
export type { FenceEvent, FenceQueue } from "./fences.ts";
export { HostPool } from "./host_pool.ts";
export { memory } from "./memory.ts";
export type {
  AllocateOptions,
  BlockSnapshot,
  BufferHandle,
  HandleState,
  LiveBlock,
  Pool,
  PoolObserver,
  SegmentSnapshot,
} from "./pool.ts";
export {
  deviceMemoryOf,
  registerDeviceMemory,
  setActiveDevice,
  unregisterDeviceMemory,
} from "./registry.ts";
export { SlabPool, type SlabPoolOptions } from "./slab_pool.ts";
export { HostBuffer, type MemorySource, NoMemoryError } from "./source.ts";
export type { GaugeValues, PoolStats } from "./stats.ts";
export { Storage, type Transport } from "./storage.ts";
