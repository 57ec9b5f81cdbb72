/**
 * Arguments and results of methods, beside tensors: the types that the signatures of the class
 * name. What they mean is checked where the operation is.
 */
import type {
  BackendName,
  DeviceHandle,
  DType,
  Shape,
  TypedArray,
} from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";

/** A tensor, or a number that stands for a tensor full of it. */
export type TensorLike = Tensor | number;

/** One axis or several; negative ones count from the last. */
export type Axes = number | readonly number[];

/** A size of windows, steps or images: one number for all axes, or one for each. */
export type Sizes = number | readonly number[];

/** As many tensors as a literal number says; an array of them for any other number. */
export type Tensors<N extends number, T extends Tensor[] = []> = number extends N ? Tensor[]
  : T["length"] extends N ? T
  : Tensors<N, [...T, Tensor]>;

/** A tensor for each part: a tuple where the number of parts is known. */
export type TensorsOf<Parts extends readonly unknown[]> = { -readonly [K in keyof Parts]: Tensor };

/** Numbers and truth values as nested arrays, one level per axis. */
export type NestedArray = number | boolean | NestedArray[];

/** Data on the host: a typed array, also over shared memory, a number, or nested arrays of numbers. */
export type HostData = TypedArray<ArrayBufferLike> | NestedArray;

/** Options of a new tensor. */
export interface TensorOptions {
  /** Its shape, where no argument is one: of `fromHost`; default: that of nested arrays, or one axis. */
  shape?: Shape;
  /** Its element type; default: that of the typed array, bool for booleans, else float32. */
  dtype?: DType;
  /** A selection string or handle; default: the active device. */
  device?: string | DeviceHandle;
  /** The device, by its backend alone: "cl" or "cpu"; default: as `device` says. */
  backend?: BackendName;
  /** True when `backward` computes its gradient; false by default. */
  requiresGrad?: boolean;
  /**
   * True to make the content in page-locked host memory first, which a device copies from by itself
   * while it computes; false by default. For data from the host; `memory.stats().pinned` counts it.
   */
  pinMemory?: boolean;
  /**
   * True to keep the value in the device's persistent pool, apart from what comes and goes with
   * each step: for weights; false by default. `memory.stats().persistent` counts it.
   */
  persistent?: boolean;
}

/** The array that holds the elements of a type on the host. */
export type HostArrayOf<D extends DType> = {
  float32: Float32Array<ArrayBuffer>;
  float16: Float16Array<ArrayBuffer>;
  bfloat16: Float32Array<ArrayBuffer>;
  float64: Float64Array<ArrayBuffer>;
  int32: Int32Array<ArrayBuffer>;
  int64: BigInt64Array<ArrayBuffer>;
  int16: Int16Array<ArrayBuffer>;
  int8: Int8Array<ArrayBuffer>;
  uint32: Uint32Array<ArrayBuffer>;
  uint8: Uint8Array<ArrayBuffer>;
  bool: Uint8Array<ArrayBuffer>;
}[D];

/** Options of `arange`. */
export interface ArangeOptions extends TensorOptions {
  /** The distance of neighbours: 1 by default; negative or a fraction, too, and not 0. */
  step?: number;
}

/** Options of `Tensor.exponential`. */
export interface ExponentialOptions extends TensorOptions {
  /** 1 over the mean; 1 by default. */
  rate?: number;
}

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** The largest first; by default the smallest. */
  descending?: boolean;
}

/** Options of `topk`. */
export interface TopkOptions {
  /** The largest elements (the default), or with false the smallest. */
  largest?: boolean;
}

/** Order of coordinates: the first one along rows ("ij"), or along columns ("xy"). */
export interface MeshOptions {
  /** "ij" (matrices, the default) or "xy" (plots: the first two axes are exchanged). */
  indexing?: "ij" | "xy";
}

/** Options of `multinomial`. */
export interface MultinomialOptions {
  /** True when a class may be drawn more than once; false by default, as in PyTorch. */
  replacement?: boolean;
}

/** Options of `print`. */
export interface PrintOptions {
  /** Receiver of the text; `console.log` by default. */
  log?: (text: string) => void;
}

/** Largest distance of elements that count as equal: `|a - b| <= atol + rtol * |b|`. */
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
  /**
   * True to keep what is needed to go backward again. By default `grad` keeps it, and `backward`
   * with `createGraph` alone.
   */
  retainGraph?: boolean;
  /** True to record the gradients themselves, for second derivatives; false by default. */
  createGraph?: boolean;
}

/** Looks at the gradient of a tensor, or gives another one for it. */
export type GradientHook = (gradient: Tensor) => Tensor | void;

/** A hook that was registered; `using` takes it away at the end of a block. */
export interface HookHandle extends Disposable {
  /** Takes the hook away; a second call does nothing. */
  remove(): void;
}

/** Options of reductions. */
export interface ReduceOptions {
  /** True to keep the reduced axes, with size 1; false by default. */
  keepDims?: boolean;
}

/** Options of the variance and the standard deviation. */
export interface VarianceOptions extends ReduceOptions {
  /** Number taken off the count: 1 by default, Bessel's. */
  correction?: number;
}

/** Options of `quantile`. */
export interface QuantileOptions extends ReduceOptions {
  /** The value between two elements: a share of both (default), one of them, their mean. */
  interpolation?: "linear" | "lower" | "higher" | "midpoint" | "nearest";
}

/** Result of elements that meet at an index. */
export type ScatterReduction = "sum" | "prod" | "mean" | "amax" | "amin";

/** Options of `scatterReduce`. */
export interface ScatterReduceOptions {
  /** Result of elements that meet. */
  reduce: ScatterReduction;
  /** False when an element that something is stored at does not count itself; true by default. */
  includeSelf?: boolean;
}

/** Options of `indexAdd`. */
export interface IndexAddOptions {
  /** Factor of the slices; 1 by default. */
  alpha?: number;
}

/** Options of `cdist` and `pdist`. */
export interface DistanceOptions {
  /** The norm: 2 by default, 1 the sum of distances, Infinity the largest, 0 how many features differ. */
  p?: number;
}

/** Options of `cov`. */
export interface CovarianceOptions {
  /** Number taken off that of observations: 1 by default, Bessel's. */
  correction?: number;
}

/** Options of `nanToNum`. */
export interface NanToNumOptions {
  /** In place of NaN; 0 by default. */
  nan?: number;
  /** In place of infinity; the largest finite number of the type by default. */
  posinf?: number;
  /** In place of its negative; the negative of the largest by default. */
  neginf?: number;
}

/** Options of `diff`. */
export interface DiffOptions {
  /** The number of times that differences are taken; once by default. */
  n?: number;
  /** Along which axis; the last by default. */
  axis?: number;
}

/** Options of `trapezoid`. */
export interface TrapezoidOptions {
  /** Places of the values: a vector, or a tensor of their shape. */
  x?: Tensor;
  /** The distance of neighbours, where it is one; 1 by default. */
  dx?: number;
  /** Along which axis; the last by default. */
  axis?: number;
}

/** Argument of `slice` for one axis: an index, a range [start, stop, step], or all of it. */
export type SliceRange = number | readonly [number | null, (number | null)?, number?] | null;

/** Argument of `index` for an axis: whole numbers, truth values over axes, or all of it. */
export type Index = Tensor | null;

/** Options of `indexPut`. */
export interface IndexPutOptions {
  /** Values are added to what is there, and equal indices add up; otherwise the last one stays. */
  accumulate?: boolean;
}

/** Options of `repeatInterleave`. */
export interface RepeatOptions {
  /**
   * Number of elements along the axis, where `repeats` is a tensor; without it the sum of the
   * repeats is read.
   */
  outputSize?: number;
}

/** Options of `searchsorted`. */
export interface SearchOptions {
  /** True for positions behind equal elements; by default they are in front of them. */
  right?: boolean;
}

/** The distinct values of a tensor. */
export interface Unique {
  /** Ascending. */
  values: Tensor;
  /** For each element of the tensor the place of its value, int32. */
  inverse: Tensor;
  /** Counts of each value, int32. */
  counts: Tensor;
}

/** Options of `bincount`. */
export interface BincountOptions {
  /** Weight of each element, instead of 1. */
  weights?: Tensor;
  /** The least number of elements of the result; 0 by default. */
  minLength?: number;
}

/** Options of `histogram`. */
export interface HistogramOptions {
  /** The outer edges; those of the finite elements by default. What lies outside counts for nothing. */
  range?: readonly [low: number, high: number];
  /** Weight of each element, instead of 1. */
  weights?: Tensor;
  /**
   * True to divide the counts by their sum and by the widths, so that their integral is 1; false by
   * default.
   */
  density?: boolean;
}

/** Options of the cross-entropy. */
export interface CrossEntropyOptions {
  /** Weight of each class, (C); the mean of labels is weighted by them. It does not learn. */
  weight?: Tensor;
  /** Share of the target that is spread evenly over all classes, 0 (default) to 1. */
  labelSmoothing?: number;
  /**
   * Samples with this label count for nothing, whatever their logits are. Without it each label must
   * be a class: PyTorch's default, -100, would cost every step a kernel that counts the samples.
   */
  ignoreIndex?: number;
  /** Mean over samples (default), their sum, or one loss per sample. */
  reduction?: "mean" | "sum" | "none";
}
