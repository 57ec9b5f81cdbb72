/**
 * Devices and the two engines that compute on them: OpenCL, and a built-in one that needs no driver;
 * the device stack, and what happens at Ctrl+C and at the end of the program. It knows `memory/` and
 * `ffi/`, and nothing of tensors.
 *
 * @module
 */
export type { Backend, Block, Capabilities, Launch } from "./backend.ts";
export { backendOf } from "./backends.ts";
export { device, withDevice } from "./device_stack.ts";
export {
  type BackendName,
  type DeviceDescription,
  DeviceHandle,
  DeviceManager,
  type DeviceType,
  manager,
} from "./devices.ts";
export {
  type DType,
  type DTypeInfo,
  type DTypeKind,
  dtypes,
  fromBfloat16Bits,
  isFloat,
  toBfloat16Bits,
  type TypedArray,
} from "./graph/dtype.ts";
export {
  Node,
  type Op,
  type RandomStream,
  type ReduceFn,
  type Token,
  type ViewOp,
} from "./graph/node.ts";
export { accepts, primitives } from "./graph/primitives.ts";
export { type Companion, GoneError, schedule } from "./graph/schedule.ts";
export {
  broadcastShapes,
  formatShape,
  sameShape,
  type Shape,
  sizeOf,
  stridesOf,
} from "./graph/shape.ts";
export {
  configureSignals,
  InterruptedError,
  interruptSignal,
  rearm,
  shutdown,
  type SignalOptions,
  startWatchdog,
} from "./lifecycle/mod.ts";
export { profiler, type ProfilerCounters } from "./profiler.ts";
export { isEager, realize, withBlock } from "./realize.ts";
export { record, type RecordedLaunch, type Recording } from "./recording.ts";
export * from "./workers.ts";
