/**
 * Tensors on any OpenCL device from a Deno script: NVIDIA, AMD, Intel, or the processor through PoCL.
 * `Deno.dlopen` binds libOpenCL, nothing is compiled, no package is imported; where no OpenCL driver
 * exists, the same program runs on the built-in CPU backend.
 *
 * {@linkcode Tensor} is an n-dimensional array: lazy, fused into few kernels, differentiable.
 * {@linkcode nn} has layers, {@linkcode optim} optimizers, {@linkcode DataLoader} batches;
 * {@linkcode device} and {@linkcode withDevice} choose where to compute, {@linkcode memory} tells what
 * is held, {@linkcode compile} makes a training step as cheap as its launches.
 *
 * @example A model that learns
 * ```ts
 * import { manualSeed, nn, optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * manualSeed(0);
 * const x = Tensor.rand([256, 2]);
 * const y = x.matmul(Tensor.fromHost([[3], [-1]])).add(0.5).realize();
 * const model = new nn.Linear(2, 1);
 * const optimizer = new optim.Adam(model.parameters(), { lr: 0.1 });
 * let last = Infinity;
 * for (let step = 0; step < 200; step++) {
 *   using loss = model.forward(x).sub(y).pow(2).mean();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 *   if (step % 50 === 49) last = await loss.item();
 * }
 * assert(last < 0.01);
 * ```
 *
 * @module
 */
// Objects of OpenCL and pools are machinery: those here are named by programs that bring kernels, buffers or
// pools of their own; all others have the entry points "./ffi", "./memory" and "./backend".
export {
  Buffer,
  CommandQueue,
  Context,
  Device,
  isOpenCLAvailable,
  Kernel,
  KernelBuildError,
  MemFlags,
  OpenCLError,
  OpenCLUnavailableError,
  Platform,
  platforms,
  Program,
} from "./ffi/mod.ts";
export type { Handle, KernelArg, LaunchOptions, TransferOptions } from "./ffi/mod.ts";
export {
  BufferPool,
  getPersistentPool,
  getPinnedPool,
  isIntegratedGpu,
  memory,
  OutOfMemoryError,
  PersistentBufferPool,
  PinnedBufferPool,
  SlabPool,
} from "./memory/mod.ts";
export type {
  BufferHandle,
  DeviceMemoryStats,
  MemoryEvent,
  PinnedHandle,
  Pool,
  PoolStats,
} from "./memory/mod.ts";
export {
  type BackendName,
  type BuildObserver,
  type BuildProgress,
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
  profiler,
  type ProfilerCounters,
  type ProfilerRow,
  saveFile,
  saveFileSync,
  type SaveOptions,
  type Shape,
  shutdown,
  type SignalOptions,
  type TypedArray,
  withDevice,
} from "./backend/mod.ts";
export * from "./tensor/mod.ts";
