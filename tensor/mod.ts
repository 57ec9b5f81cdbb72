/**
 * Tensors: lazy n-dimensional arrays with automatic differentiation, and what is built on them. It
 * knows the backends by their interface only.
 *
 * @module
 */
export { Tensor } from "./tensor.ts";
export { TensorBase } from "./base.ts";
export { BitwiseMethods } from "./bitwise_methods.ts";
export { ElementwiseMethods } from "./elementwise_methods.ts";
export type { GradientHook } from "./gradient_hooks.ts";
export { ImageMethods } from "./image_methods.ts";
export { ProductMethods } from "./product_methods.ts";
export { ReductionMethods } from "./reduction_methods.ts";
export { type CloseOptions, type PrintOptions, ReadingMethods } from "./reading_methods.ts";
export { ReversedMethods } from "./reversed_methods.ts";
export { SelectionMethods } from "./selection_methods.ts";
export { ShapeMethods } from "./shape_methods.ts";
export type { NestedArray } from "./base.ts";
export type { HostData, TensorOptions } from "./creation.ts";
export { AnomalyError, detectAnomaly, isAnomalyEnabled, setDetectAnomaly } from "./anomaly.ts";
export { checkpoint } from "./checkpoint.ts";
export { compile } from "./compile.ts";
export { customGradient, type CustomGradientFn } from "./custom_gradient.ts";
export { DisposedError, DTypeError, ShapeError } from "./errors.ts";
export { getFloat32Precision, setFloat32Precision } from "./float32_precision.ts";
export { enableGrad, isGradEnabled, noGrad } from "./grad_mode.ts";
export { type BackwardOptions, type Edge, grad, type GradientFn } from "./autograd.ts";
export { manualSeed, type RandomState, randomState, setRandomState } from "./random_state.ts";
export {
  type RawElements,
  rawKernel,
  type RawKernelOptions,
  type RawOutput,
} from "./raw_kernel.ts";
export {
  type CheckpointParts,
  type JSONValue,
  loadCheckpoint,
  saveCheckpoint,
  type Stateful,
} from "./training_state.ts";
export { realizeAll } from "./realization.ts";
export type { Axes } from "./ops/axes.ts";
export type { Conv2dOptions, ConvOptions, ConvTransposeOptions } from "./ops/convolution.ts";
export type { PoolOptions } from "./ops/pooling.ts";
export type { InterpolateOptions } from "./ops/resampling.ts";
export type { TensorLike } from "./ops/elementwise.ts";
export type { CrossEntropyOptions } from "./ops/losses.ts";
export { einsum } from "./ops/einsum.ts";
export type { BincountOptions, HistogramOptions, Unique } from "./ops/counting.ts";
export type { MultinomialOptions } from "./ops/draws.ts";
export type { SearchOptions } from "./ops/searching.ts";
export type { Index, IndexPutOptions, RepeatOptions } from "./ops/selection.ts";
export type { MeshOptions } from "./ops/pieces.ts";
export type { ReduceOptions } from "./ops/reductions.ts";
export type { Range } from "./ops/shaping.ts";
export type { DType, Float32Precision, Shape, TypedArray } from "../backend/engine.ts";
export * from "./data/mod.ts";
export * from "./io/mod.ts";
/** Layers, models, losses and initial values. */
export * as nn from "./nn/mod.ts";
/** Optimizers, schedules of their learning rates, clipping. */
export * as optim from "./optim/mod.ts";
/** Changes of images by chance, on the device. */
export * as transforms from "./data/transforms.ts";
/** Mixed precision. */
export * as amp from "./amp/mod.ts";
