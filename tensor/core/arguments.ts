/**
 * What methods of tensors take and give, beside tensors: the types that the signatures of the class
 * name. What they mean is checked where the operation is.
 */
import type {
  BackendName,
  DeviceHandle,
  DType,
  Shape,
  TypedArray,
} from "../../backend/internal.ts";
import type { Tensor } from "./tensor.ts";

/** A tensor, or a number that stands for a tensor full of it. */
export type TensorLike = Tensor | number;

/** One axis or several; negative ones count from the last. */
export type Axes = number | readonly number[];

/** Numbers and truth values as nested arrays, one level per axis. */
export type NestedArray = number | boolean | NestedArray[];

/** Data on the host: a typed array, a number, or nested arrays of numbers. */
export type HostData = TypedArray | NestedArray;

/** What may be said about a new tensor. */
export interface TensorOptions {
  /** Its shape; default: that of nested arrays, or one axis. */
  shape?: Shape;
  /** Its element type; default: that of the typed array, bool for booleans, else float32. */
  dtype?: DType;
  /** A selection string or handle; default: the active device. */
  device?: string | DeviceHandle;
  /** The same, by backend alone. */
  backend?: BackendName;
  /** Whether `backward` computes its gradient. */
  requiresGrad?: boolean;
  /**
   * Makes the content in page-locked host memory first, which a device copies from by itself while
   * it computes. For data from the host; `memory.stats().pinned` counts it.
   */
  pinMemory?: boolean;
  /**
   * Keeps the value in the device's persistent pool, apart from what comes and goes with each step:
   * for weights. `memory.stats().persistent` counts it.
   */
  persistent?: boolean;
}

/** How coordinates are ordered: the first one along rows ("ij"), or along columns ("xy"). */
export interface MeshOptions {
  /** "ij" (matrices, the default) or "xy" (plots: the first two axes are exchanged). */
  indexing?: "ij" | "xy";
}

/** Options of `multinomial`. */
export interface MultinomialOptions {
  /** A class may be drawn more than once. */
  replacement?: boolean;
}

/** What `print` may be told. */
export interface PrintOptions {
  /** What gets the text; `console.log` by default. */
  log?: (text: string) => void;
}

/** How far apart elements may be that count as equal: `|a - b| <= atol + rtol * |b|`. */
export interface CloseOptions {
  /** The share of `|b|`; 1e-5 by default. */
  rtol?: number;
  /** The absolute part; 1e-8 by default. */
  atol?: number;
  /** NaN counts as equal to NaN; not by default. */
  equalNan?: boolean;
}

/** Options of `backward` and `grad`. */
export interface BackwardOptions {
  /** Keep what is needed to call `backward` again. */
  retainGraph?: boolean;
  /** Record the gradients themselves, for second derivatives. */
  createGraph?: boolean;
}

/** Looks at the gradient of a tensor, or gives another one for it. */
export type GradientHook = (gradient: Tensor) => Tensor | void;

/** Options of reductions. */
export interface ReduceOptions {
  /** The reduced axes stay, with size 1. */
  keepDims?: boolean;
}

/** Options of the variance and the standard deviation. */
export interface VarianceOptions extends ReduceOptions {
  /** What is taken off the count: 1 by default, Bessel's. */
  correction?: number;
}

/** What `slice` takes for one axis: an index, a range [start, stop, step], or all of it. */
export type SliceRange = number | readonly [number | null, (number | null)?, number?] | null;

/** What `index` takes for an axis: whole numbers, truth values over one axis or more, or all of it. */
export type Index = Tensor | null;

/** Options of `indexPut`. */
export interface IndexPutOptions {
  /** Values are added to what is there, and equal indices add up; otherwise the last one stays. */
  accumulate?: boolean;
}

/** Options of `repeatInterleave`. */
export interface RepeatOptions {
  /** How many elements there will be along the axis, where `repeats` is a tensor: saves reading it. */
  outputSize?: number;
}

/** Options of `searchsorted`. */
export interface SearchOptions {
  /** Behind equal elements instead of in front of them. */
  right?: boolean;
}

/** The distinct values of a tensor. */
export interface Unique {
  /** Ascending. */
  values: Tensor;
  /** For each element of the tensor the place of its value, int32. */
  inverse: Tensor;
  /** How often each value occurs, int32. */
  counts: Tensor;
}

/** Options of `bincount`. */
export interface BincountOptions {
  /** What each element counts for, instead of 1. */
  weights?: Tensor;
  /** The result has this many elements at least. */
  minLength?: number;
}

/** Options of `histogram`. */
export interface HistogramOptions {
  /** The outer edges; those of the finite elements by default. What lies outside counts for nothing. */
  range?: readonly [low: number, high: number];
  /** What each element counts for, instead of 1. */
  weights?: Tensor;
  /** The counts are divided by their sum and by the widths: their integral is 1. */
  density?: boolean;
}

/** Options of the cross-entropy. */
export interface CrossEntropyOptions {
  /** How much each class counts, (C); the mean of labels is weighted by them. It does not learn. */
  weight?: Tensor;
  /** How much of the target is spread evenly over all classes, 0 to 1. */
  labelSmoothing?: number;
  /**
   * Samples with this label count for nothing, whatever their logits are. Without it each label must
   * be a class: PyTorch's default, -100, would cost every step a kernel that counts the samples.
   */
  ignoreIndex?: number;
  /** Mean over samples (default), their sum, or one loss per sample. */
  reduction?: "mean" | "sum" | "none";
}
