/**
 * Memory: pools that lend blocks of device or host memory, their statistics and limits, what is done
 * when memory is short, and copies between devices. It knows the binding (`ffi/`) and nothing above.
 *
 * @module
 */
export type { Frame } from "./call_stack.ts";
export { type BlockRequest, PoolBase } from "./base_pool.ts";
export { BucketPool } from "./bucket_pool.ts";
export { BufferPool } from "./buffer_pool.ts";
export {
  destroyContextPools,
  getPersistentPool,
  getPinnedPool,
  isIntegratedGpu,
} from "./context_pools.ts";
export { createPool } from "./create_pool.ts";
export {
  DeviceMemory,
  type DeviceMemoryOptions,
  type DeviceMemoryStats,
  type PressureCallback,
  type Reclaimer,
} from "./device_memory.ts";
export { DeviceSource, type DeviceSourceOptions } from "./device_source.ts";
export {
  type LiveAllocation,
  type OutOfMemoryDetails,
  OutOfMemoryError,
  type Rung,
} from "./errors.ts";
export { FaultPool } from "./fault_pool.ts";
export type { FenceEvent, FenceQueue } from "./fences.ts";
export {
  type GuardAccess,
  GuardPool,
  type GuardPoolOptions,
  MemoryCorruptionError,
} from "./guard_pool.ts";
export { type Block, PooledHandle, recordQueue } from "./handle.ts";
export { HostPool } from "./host_pool.ts";
export { LimitPool } from "./limit_pool.ts";
export { memory, type MemoryFacade } from "./memory.ts";
export {
  PersistentBufferPool,
  type PersistentBufferPoolOptions,
  type PersistentPoolStats,
} from "./persistent_pool.ts";
export {
  PinnedBufferPool,
  type PinnedBufferPoolOptions,
  type PinnedHandle,
} from "./pinned_pool.ts";
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
  type MemoryAction,
  type MemoryEvent,
  originOf,
  Recorder,
  type RecorderOptions,
} from "./recorder.ts";
export { PoolWrapper, WrappedHandle } from "./pool_wrapper.ts";
export {
  type AnyDeviceMemory,
  deviceMemoryOf,
  registerDeviceMemory,
  registeredMemories,
  setActiveDevice,
  setDeviceOpener,
  unregisterDeviceMemory,
} from "./registry.ts";
export { parseJSONLines, replay, type ReplayEvent, type ReplayResult } from "./replay.ts";
export {
  SimulatedBuffer,
  SimulatedSource,
  type SimulatedSourceOptions,
} from "./simulated_source.ts";
export { SlabPool, type SlabPoolOptions } from "./slab_pool.ts";
export { HostBuffer, HostSource, type MemorySource, NoMemoryError } from "./source.ts";
export { StatisticsScope } from "./statistics_scope.ts";
export { type SvmHandle, SvmPool } from "./svm_pool.ts";
export { Gauge, type GaugeValues, PoolCounters, type PoolStats } from "./stats.ts";
export { Storage, type Transport } from "./storage.ts";
export { transfer, type TransferPath } from "./transfer.ts";
