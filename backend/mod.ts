/**
 * Devices: finding and choosing them, the device stack, what happens at Ctrl+C and at the end of the
 * program, profiling, and sharing a device's objects with workers. Two backends compute behind them:
 * OpenCL, and a built-in one that needs no driver. This layer knows `memory/` and `ffi/`, and nothing
 * of tensors.
 *
 * This folder holds all that knows devices: finding them (`devices/`), computing on them
 * (`execution/`, `opencl/`, `cpu/`), planning (`graph/`, `schedule/`, `kernel/`, `codegen/`) and
 * ending well (`lifecycle/`). It imports `memory/` and `ffi/`; the tensor layer hands it nodes by
 * `internal.ts` and reads blocks back.
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
export type {
  AttentionCall,
  AttentionDropout,
  AttentionMask,
  FilledKeys,
} from "./graph/attention.ts";
export type { CustomCall, CustomKernel } from "./graph/custom.ts";
export type { BlockFormatName } from "./formats/block_formats.ts";
export type { DType, TypedArray } from "./graph/dtype.ts";
// The table as a type: PrimitiveName is its keys.
export type { RandomStream } from "./graph/scalar.ts";
export type { PrimitiveName, primitiveTable } from "./graph/primitives.ts";
export type { KernelDeclaration, KernelParameter, ScalarType } from "./graph/kernel_declaration.ts";
export type { Storage as NodeStorage } from "./graph/stored_value.ts";
export { NEED, type Need, Node, type Saved, type Token } from "./graph/node.ts";
export type {
  ExpressionList,
  Float32Precision,
  Op,
  RecurrenceOp,
  RecurrentGates,
  ReduceFn,
  RoutineCall,
  RowOp,
  ScanFn,
  ScatterMode,
  TemplateNode,
  ViewOp,
} from "./graph/op.ts";
export type { Shape } from "./graph/shape.ts";
export { InterruptedError, interruptible, interruptSignal } from "./lifecycle/interruption.ts";
export type { SignalOptions } from "./lifecycle/options.ts";
export { configureSignals, rearm } from "./lifecycle/signals.ts";
export { startWatchdog } from "./lifecycle/watchdog.ts";
export type { BuildObserver, BuildProgress } from "./profiling/builds.ts";
export { profiler, type ProfilerCounters } from "./profiling/profiler.ts";
export type { ProfilerRow } from "./profiling/table.ts";
export {
  attach,
  type SharedArg,
  type SharedBuffer,
  type SharedHandles,
  SharedQueue,
} from "./sharing/attached_handles.ts";
export {
  type BufferSnapshot,
  type HandleSnapshot,
  type MemorySnapshot,
  revokeHandles,
  type ShareableDevice,
  type ShareOptions,
  snapshotHandles,
} from "./sharing/shared_handles.ts";
export { shutdown } from "./shutdown.ts";
