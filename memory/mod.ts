/**
 * Memory: pools that lend blocks of device or host memory, their statistics and limits, what is
 * done when memory is short, and copies between devices. It knows the binding (`ffi/`) and nothing
 * above.
 *
 * **Why a pool?** Asking an OpenCL driver for memory is slow (62 µs for a small buffer on an H100,
 * first touch included), and a training step needs hundreds of buffers of the same sizes as the
 * step before. A pool asks once, keeps what comes back, and lends it again: that takes a tenth of a
 * microsecond.
 *
 * **What it lends** is a {@linkcode BufferHandle}. Whoever has it calls `release()`, or lets
 * `using` do it; then the block is the pool's, and touching it through the old handle is an error.
 *
 * ```ts
 * import { HostPool } from "@netcl/netcl/memory";
 * import { assertEquals, assertThrows } from "@std/assert";
 *
 * const pool = new HostPool();
 * const handle = pool.allocate(1_000_000, { label: "weights" });
 * handle.buffer.bytes.fill(1);
 * handle.release();
 * assertThrows(() => handle.buffer, ReferenceError);
 * pool.allocate(900_000);
 * assertEquals([pool.stats.hits, pool.stats.misses], [1, 1]);
 * ```
 *
 * **Which pool?** {@linkcode SlabPool}, unless you know why not: it divides 64 MiB segments and
 * joins what comes back, so that it holds 1.04 to 1.10 times what is asked of it where others hold
 * twice and more. {@linkcode BufferPool} (powers of two) and {@linkcode PersistentBufferPool} (a
 * fixed list of sizes, bounded) never divide a buffer; {@linkcode PinnedBufferPool} lends page-locked host
 * memory for fast copies, {@linkcode SvmPool} memory that host and device share,
 * {@linkcode HostPool} the host's own.
 *
 * **Two queues** may share a pool: a block goes to another queue only behind the work of the former
 * one, which the device waits for, not the host. {@linkcode recordQueue} names further users.
 *
 * **When memory is short**, one {@linkcode RetryLadder} runs the retry steps of the pool, of its
 * wrappers and of the {@linkcode DeviceMemory}, before an {@linkcode OutOfMemoryError} says who
 * holds what; `memory.onPressure()` lets a program help.
 *
 * **To look at it**, {@linkcode memory} has statistics, recordings, and
 * `memory.report("memory.html")`, one page with the timeline of every block.
 *
 * **Folders**, each of which imports those before it only: `fences/` (which queue may have a block,
 * and behind what), `core/` (the contract, statistics, the retry ladder), `sources/` (where memory
 * comes from), `regions/` (which places are free), `pools/`, `wrappers/` (a limit, guard words,
 * faults around any pool), `devices/` (a device's memory, storages, copies), `report/` (recordings
 * and pages). Requests come from the backends to a `DeviceMemory`; its pool lends a block, whose
 * segment came from a source; the release takes the same way back, through the fences.
 *
 * @module
 */
export type { Frame } from "./core/call_stack.ts";
export { runCollector } from "./core/garbage.ts";
export { type BlockRequest, PoolBase } from "./pools/base_pool.ts";
export { BucketPool } from "./pools/bucket_pool.ts";
export { BufferPool } from "./pools/buffer_pool.ts";
export {
  destroyContextPools,
  getPersistentPool,
  getPinnedPool,
  isIntegratedGpu,
} from "./devices/context_pools.ts";
export { createPool } from "./devices/create_pool.ts";
export {
  type DeviceAllocateOptions,
  DeviceMemory,
  type DeviceMemoryOptions,
  type DevicePools,
  type PressureCallback,
  type Reclaimer,
} from "./devices/device_memory.ts";
export type { DeviceMemoryStats } from "./devices/device_stats.ts";
export { DeviceSource, type DeviceSourceOptions } from "./sources/device_source.ts";
export {
  type LiveAllocation,
  type OutOfMemoryDetails,
  OutOfMemoryError,
  type RetryRecord,
} from "./core/errors.ts";
export { FaultPool } from "./wrappers/fault_pool.ts";
export { type FenceEvent, type FenceQueue, hasEnded, releasingTogether } from "./fences/fence.ts";
export { type BlockReceiver, FenceLedger, type Sized } from "./fences/fence_ledger.ts";
export {
  type GuardAccess,
  GuardPool,
  type GuardPoolOptions,
  MemoryCorruptionError,
} from "./wrappers/guard_pool.ts";
export { type Block, PooledHandle, recordQueue } from "./pools/handle.ts";
export { HostPool } from "./pools/host_pool.ts";
export { LimitPool } from "./wrappers/limit_pool.ts";
export { memory, type MemoryFacade } from "./memory.ts";
export { PendingUploads } from "./devices/pending_uploads.ts";
export {
  PersistentBufferPool,
  type PersistentBufferPoolOptions,
  type PersistentPoolStats,
} from "./pools/persistent_pool.ts";
export {
  PinnedBufferPool,
  type PinnedBufferPoolOptions,
  type PinnedHandle,
} from "./pools/pinned_pool.ts";
export type {
  AllocateOptions,
  BlockPlace,
  BlockSnapshot,
  BufferHandle,
  HandleState,
  LiveBlock,
  Pool,
  PoolObserver,
  SegmentSnapshot,
} from "./core/pool.ts";
export { type MemoryAction, type MemoryEvent, originOf } from "./report/memory_event.ts";
export { Recorder, type RecorderOptions } from "./report/recorder.ts";
export {
  RetryLadder,
  type RetryResult,
  type RetryStep,
  retryStep,
  Shortage,
  type ShortageDetails,
} from "./core/retry_ladder.ts";
export { PoolWrapper, WrappedHandle } from "./wrappers/pool_wrapper.ts";
export {
  type AnyDeviceMemory,
  deviceMemoryOf,
  registerDeviceMemory,
  registeredMemories,
  setActiveDevice,
  setDeviceOpener,
  unregisterDeviceMemory,
} from "./devices/registry.ts";
export { ReservedMemory } from "./pools/reserved_memory.ts";
export { parseJSONLines, replay, type ReplayEvent, type ReplayResult } from "./report/replay.ts";
export {
  SimulatedBuffer,
  SimulatedSource,
  type SimulatedSourceOptions,
} from "./sources/simulated_source.ts";
export { SlabPool, type SlabPoolOptions } from "./pools/slab_pool.ts";
export { HostedSource, type LentMemory } from "./sources/hosted_source.ts";
export { HostBuffer, HostSource, type MemorySource, NoMemoryError } from "./sources/source.ts";
export { StatisticsScope } from "./wrappers/statistics_scope.ts";
export { type SvmHandle, SvmPool } from "./pools/svm_pool.ts";
export { PoolCounters, type PoolStats, StatCounter, type StatCounterValues } from "./core/stats.ts";
export { Storage, type Transport } from "./devices/storage.ts";
export { transfer, type TransferEnd, type TransferPath } from "./devices/transfer.ts";
