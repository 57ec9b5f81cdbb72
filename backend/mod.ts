/**
 * Devices: finding and choosing them, the device stack, what happens at Ctrl+C and at the end of the
 * program, profiling, and lending a device's objects to workers. Two engines compute behind them:
 * OpenCL, and a built-in one that needs no driver. This layer knows `memory/` and `ffi/`, and nothing
 * of tensors.
 *
 * @example The devices of this machine
 * ```ts
 * import { manager } from "@netcl/netcl/backend";
 *
 * for (const handle of manager.list()) console.log(`${handle}`);
 * ```
 *
 * @module
 */
export { saveFile, saveFileSync, type SaveOptions } from "../ffi/host/atomic_file.ts";
export { device, withDevice } from "./devices/device_stack.ts";
export {
  type BackendName,
  type DeviceDescription,
  DeviceHandle,
  DeviceManager,
  type DeviceType,
  manager,
} from "./devices/devices.ts";
export type { CustomCall, CustomKernel } from "./graph/custom.ts";
export type { DType, TypedArray } from "./graph/dtype.ts";
export type { PrimitiveName } from "./graph/primitives.ts";
export type { KernelDeclaration, KernelParameter, ScalarType } from "./graph/kernel_declaration.ts";
export {
  type Float32Precision,
  NEED,
  type Need,
  Node,
  type Op,
  type RandomStream,
  type ReduceFn,
  type Saved,
  type ScanFn,
  type Storage as NodeStorage,
  type Token,
  type ViewOp,
} from "./graph/node.ts";
export type { Shape } from "./graph/shape.ts";
export {
  configureSignals,
  InterruptedError,
  interruptible,
  interruptSignal,
  rearm,
  shutdown,
  type SignalOptions,
  startWatchdog,
} from "./lifecycle/mod.ts";
export { profiler, type ProfilerCounters } from "./profiling/profiler.ts";
export {
  attach,
  type LentArg,
  type LentBuffer,
  type LentHandles,
  LentQueue,
} from "./sharing/lent_handles.ts";
export {
  type BufferSnapshot,
  type HandleSnapshot,
  type Loan,
  type MemorySnapshot,
  revokeHandles,
  snapshotHandles,
} from "./sharing/loans.ts";
