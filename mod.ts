/**
 * Tensors on any OpenCL device from a Deno script, trained with automatic differentiation; where no
 * OpenCL driver exists, the same program runs on the built-in CPU backend.
 *
 * @module
 */
export * from "./ffi/mod.ts";
export * from "./memory/mod.ts";
export {
  type BackendName,
  configureSignals,
  device,
  type DeviceDescription,
  DeviceHandle,
  DeviceManager,
  type DType,
  InterruptedError,
  interruptible,
  interruptSignal,
  manager,
  Node,
  type NodeStorage,
  type Op,
  profiler,
  type ProfilerCounters,
  type RandomStream,
  rearm,
  type ReduceFn,
  type Shape,
  shutdown,
  type SignalOptions,
  startWatchdog,
  type Token,
  type TypedArray,
  type ViewOp,
  withDevice,
} from "./backend/mod.ts";
export * from "./backend/workers.ts";
export * from "./tensor/mod.ts";
