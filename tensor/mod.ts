/**
 * Tensors: lazy n-dimensional arrays with automatic differentiation, and what is built on them. It
 * knows the backends by their interface only.
 *
 * This folder holds all that users compute with. It imports `backend/`, and of `memory/` and `ffi/`
 * types and errors only. Users call methods of `Tensor` (`class/tensor.ts`), which call functions of
 * `ops/`, `execution/` and `autograd/`; nodes go to `backend/` when a value is needed.
 *
 * @module
 */
export { Tensor } from "./class/tensor.ts";
export type { GradientHook, HookHandle } from "./core/arguments.ts";
export type { PrintOptions } from "./core/arguments.ts";
export type { CloseOptions } from "./core/arguments.ts";
export type { HostArrayOf, HostData, NestedArray, Tensors, TensorsOf } from "./core/arguments.ts";
export type { ArangeOptions, ExponentialOptions, TensorOptions } from "./core/arguments.ts";
export { AnomalyError } from "./autograd/anomaly.ts";
export { detectAnomaly, isAnomalyEnabled, setDetectAnomaly } from "./core/modes/grad_mode.ts";
export { checkpoint } from "./autograd/checkpoint.ts";
export { compile, type CompileOptions } from "./compile/compile.ts";
export { customGradient, type CustomGradientFn } from "./ops/custom/custom_gradient.ts";
export { DeviceError, DisposedError, DTypeError, ShapeError } from "./core/rules/errors.ts";
export { getFloat32Precision, setFloat32Precision } from "./ops/float32_precision.ts";
export { enableGrad, isGradEnabled, noGrad } from "./core/modes/grad_mode.ts";
export type { BackwardOptions } from "./core/arguments.ts";
export { grad } from "./autograd/autograd.ts";
export {
  isDeterministic,
  manualSeed,
  type RandomState,
  randomState,
  setDeterministic,
  setRandomState,
} from "./core/random_state.ts";
export {
  type RawElements,
  rawKernel,
  type RawKernelOptions,
  type RawOutput,
  type RawParts,
  type RawResult,
} from "./ops/custom/raw_kernel.ts";
export {
  type CheckpointParts,
  type JSONValue,
  loadCheckpoint,
  saveCheckpoint,
  type Stateful,
} from "./io/training_state.ts";
export { realizeAll } from "./execution/realization.ts";
export type { Axes, Sizes } from "./core/arguments.ts";
export type { Conv2dOptions, ConvOptions, ConvTransposeOptions } from "./core/image_options.ts";
export type { PoolOptions } from "./core/image_options.ts";
export type { InterpolateOptions } from "./core/image_options.ts";
export type { TensorLike } from "./core/arguments.ts";
export type { CrossEntropyOptions } from "./core/arguments.ts";
export { einsum } from "./ops/einsum.ts";
export {
  gradient,
  type GradientOptions,
  histogramdd,
  type HistogramddOptions,
  interp,
  percentile,
  type PercentileOptions,
  polyval,
} from "./ops/numeric.ts";
export type { BincountOptions, HistogramOptions, Unique } from "./core/arguments.ts";
export type { MultinomialOptions } from "./core/arguments.ts";
export type { ScatterReduceOptions, ScatterReduction } from "./core/arguments.ts";
export type { SearchOptions, SortOptions, TopkOptions } from "./core/arguments.ts";
export type { Index, IndexAddOptions, IndexPutOptions, RepeatOptions } from "./core/arguments.ts";
export type { MeshOptions } from "./core/arguments.ts";
export type {
  CovarianceOptions,
  DiffOptions,
  DistanceOptions,
  NanToNumOptions,
  QuantileOptions,
  TrapezoidOptions,
} from "./core/arguments.ts";
export type { ReduceOptions, VarianceOptions } from "./core/arguments.ts";
export type { SliceRange } from "./core/arguments.ts";
export type {
  BlockFormatName,
  DType,
  Float32Precision,
  Shape,
  TypedArray,
} from "../backend/internal.ts";
export * from "./data/mod.ts";
export * from "./io/mod.ts";
/** Layers, models, losses and initial values. */
export * as nn from "./nn/mod.ts";
/** Optimizers, schedules of their learning rates, clipping. */
export * as optim from "./optim/mod.ts";
/** Functions of tensors to functions of tensors: derivatives, batches. */
export * as func from "./func/mod.ts";
/** Random changes of images on the device. */
export * as transforms from "./data/transforms.ts";
/** Mixed precision. */
export * as amp from "./amp/mod.ts";
/** Training on several devices and machines. */
export * as distributed from "./distributed/mod.ts";
/** Linear algebra: factorizations, equations, determinants, singular values. */
export * as linalg from "./linalg/mod.ts";
/** Special functions: incomplete gamma functions, Bessel functions, the normal distribution's. */
export * as special from "./ops/special/mod.ts";
/** Distributions: numbers drawn, logarithms of densities, entropies, divergences. */
export * as distributions from "./distributions/mod.ts";
/** Fourier transforms and complex numbers. */
export * as fft from "./fft/mod.ts";
