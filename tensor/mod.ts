/**
 * Tensors: lazy n-dimensional arrays with automatic differentiation, and what is built on them. It
 * knows the backends by their interface only.
 *
 * This folder holds all that users compute with. It imports `backend/`, and of `memory/` and `ffi/`
 * types and errors only. Users call methods of `Tensor` (`tensor.ts`); nodes go to `backend/` when
 * a value is needed.
 *
 * @module
 */
export { Tensor } from "./tensor.ts";
export type { GradientHook } from "./autograd/gradient_hooks.ts";
export type { PrintOptions } from "./execution/printing.ts";
export type { CloseOptions } from "./ops/elementwise/comparisons.ts";
export type { HostData, NestedArray } from "./ops/creation/host_data.ts";
export type { TensorOptions } from "./ops/creation/tensor_options.ts";
export { AnomalyError } from "./autograd/anomaly.ts";
export { detectAnomaly, isAnomalyEnabled, setDetectAnomaly } from "./core/grad_mode.ts";
export { checkpoint } from "./autograd/checkpoint.ts";
export { compile } from "./compile/compile.ts";
export { customGradient, type CustomGradientFn } from "./ops/custom/custom_gradient.ts";
export { DisposedError, DTypeError, ShapeError } from "./core/errors.ts";
export { getFloat32Precision, setFloat32Precision } from "./ops/float32_precision.ts";
export { enableGrad, isGradEnabled, noGrad } from "./core/grad_mode.ts";
export { type BackwardOptions, grad } from "./autograd/autograd.ts";
export { manualSeed, type RandomState, randomState, setRandomState } from "./core/random_state.ts";
export {
  type RawElements,
  rawKernel,
  type RawKernelOptions,
  type RawOutput,
} from "./ops/custom/raw_kernel.ts";
export {
  type CheckpointParts,
  type JSONValue,
  loadCheckpoint,
  saveCheckpoint,
  type Stateful,
} from "./io/training_state.ts";
export { realizeAll } from "./execution/realization.ts";
export type { Axes } from "./ops/shaping/axes.ts";
export type { Conv2dOptions, ConvOptions, ConvTransposeOptions } from "./ops/images/convolution.ts";
export type { PoolOptions } from "./ops/images/pooling.ts";
export type { InterpolateOptions } from "./ops/images/resampling.ts";
export type { TensorLike } from "./ops/elementwise/elementwise.ts";
export type { CrossEntropyOptions } from "./ops/losses.ts";
export { einsum } from "./ops/einsum.ts";
export type { BincountOptions, HistogramOptions, Unique } from "./ops/indexing/counting.ts";
export type { MultinomialOptions } from "./ops/creation/random.ts";
export type { SearchOptions } from "./ops/indexing/searching.ts";
export type { Index, IndexPutOptions, RepeatOptions } from "./ops/indexing/selection.ts";
export type { MeshOptions } from "./ops/shaping/joining.ts";
export type { ReduceOptions, VarianceOptions } from "./ops/reductions.ts";
export type { SliceRange } from "./ops/shaping/slices.ts";
export type { DType, Float32Precision, Shape, TypedArray } from "../backend/internal.ts";
export * from "./data/mod.ts";
export * from "./io/mod.ts";
/** Layers, models, losses and initial values. */
export * as nn from "./nn.ts";
/** Optimizers, schedules of their learning rates, clipping. */
export * as optim from "./optim.ts";
/** Changes of images by chance, on the device. */
export * as transforms from "./data/transforms.ts";
/** Mixed precision. */
export * as amp from "./amp.ts";
/** Training on several devices and machines. */
export * as distributed from "./distributed/mod.ts";
