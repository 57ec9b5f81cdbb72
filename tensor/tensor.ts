/**
 * The page that users read: every method of tensors with its documentation, by category, and no logic.
 * Each delegates in one line to a plain function that takes the tensor, in `ops/`, `execution/` and
 * `autograd/`. The file is long because the documentation of all methods is one page. No other module imports it but as a type: see
 * `core/tensor_state.ts`.
 */
import type { BackendName, DeviceHandle, DType, Shape, TypedArray } from "../backend/internal.ts";
import type { Buffer, CommandQueue, Context } from "../ffi/mod.ts";
import type { BufferHandle } from "../memory/mod.ts";
import { backward, type BackwardOptions } from "./autograd/autograd.ts";
import { addGradientHook, type GradientHook } from "./autograd/gradient_hooks.ts";
import { tellGradient } from "./core/calls.ts";
import { act, compute, computeDistinct } from "./core/operations.ts";
import { shown } from "./core/options.ts";
import { provideTensor, TensorState } from "./core/tensor_state.ts";
import * as assignment from "./execution/assignment.ts";
import { explain } from "./execution/explain.ts";
import { lendBlock } from "./execution/native_access.ts";
import { describe, inspect, print, type PrintOptions, toPrimitive } from "./execution/printing.ts";
import * as reading from "./execution/reading.ts";
import * as activations from "./ops/elementwise/activations.ts";
import * as arithmetic from "./ops/elementwise/arithmetic.ts";
import type { Axes } from "./ops/shaping/axes.ts";
import * as bits from "./ops/elementwise/bits.ts";
import { type CloseOptions, isClose } from "./ops/elementwise/comparisons.ts";
import * as contractions from "./ops/contractions.ts";
import type { HostData, NestedArray } from "./ops/creation/host_data.ts";
import * as random from "./ops/creation/random.ts";
import type { MultinomialOptions } from "./ops/creation/random.ts";
import * as sequences from "./ops/creation/sequences.ts";
import type { TensorOptions } from "./ops/creation/tensor_options.ts";
import {
  binary,
  cast,
  logicalNot,
  select,
  type TensorLike,
  unary,
} from "./ops/elementwise/elementwise.ts";
import * as functional from "./ops/functional.ts";
import {
  conv,
  type Conv2dOptions,
  type ConvOptions,
  convTranspose,
  type ConvTransposeOptions,
} from "./ops/images/convolution.ts";
import { padReflect, padReplicate } from "./ops/images/edge_padding.ts";
import { pixelShuffle, pixelUnshuffle } from "./ops/images/pixel_shuffle.ts";
import * as pooling from "./ops/images/pooling.ts";
import type { PoolOptions } from "./ops/images/pooling.ts";
import { interpolate, type InterpolateOptions } from "./ops/images/resampling.ts";
import * as counting from "./ops/indexing/counting.ts";
import type { BincountOptions, HistogramOptions, Unique } from "./ops/indexing/counting.ts";
import * as indexing from "./ops/indexing/indexing.ts";
import { type SearchOptions, searchsorted } from "./ops/indexing/searching.ts";
import * as selection from "./ops/indexing/selection.ts";
import type { Index, IndexPutOptions, RepeatOptions } from "./ops/indexing/selection.ts";
import { crossEntropy, type CrossEntropyOptions } from "./ops/losses.ts";
import * as reductions from "./ops/reductions.ts";
import type { ReduceOptions, VarianceOptions } from "./ops/reductions.ts";
import * as scans from "./ops/scans.ts";
import * as joining from "./ops/shaping/joining.ts";
import type { MeshOptions } from "./ops/shaping/joining.ts";
import * as slices from "./ops/shaping/slices.ts";
import type { SliceRange } from "./ops/shaping/slices.ts";
import * as triangles from "./ops/shaping/triangles.ts";
import * as views from "./ops/shaping/views.ts";
import { copyTo } from "./ops/transfer.ts";

/**
 * An n-dimensional array of numbers on a device. Tensors are lazy: an operation says what to compute,
 * and nothing runs until a value is read (`toHost`, `item`), kept (`realize`) or stepped on by an
 * optimizer; then everything needed is fused into few kernels. Values never change; `assign` gives a
 * tensor another value.
 *
 * Operands broadcast by NumPy's rules, and meet in the type that PyTorch would choose: float32 and
 * int32 in float32, int32 and 0.5 in float32, uint8 and 2 in uint8; integers divide in float32. Axes
 * count from the front, or with negative numbers from the back. What does not fit throws at the call
 * ({@linkcode ShapeError}, {@linkcode DTypeError}); an index out of range throws at the next read.
 *
 * Memory is given back by `dispose()`, by `using`, or, late and counted, by the garbage collector.
 *
 * What there is, by what it is for:
 *
 * - **Creation**, from the host, from numbers: `Tensor.fromHost`, `Tensor.fromBuffer`, `Tensor.zeros`,
 *   `Tensor.ones`, `Tensor.full`, `Tensor.arange`, `Tensor.linspace`, `Tensor.eye`, `Tensor.meshgrid`,
 *   `fullLike`, `zerosLike`, `onesLike`, `indexLike`
 * - **Random numbers**, the same bits on every device, by {@linkcode manualSeed}: `Tensor.rand`,
 *   `Tensor.randn`, `Tensor.randint`, `Tensor.randperm`, `Tensor.normal`, `Tensor.permutation`,
 *   `randLike`, `randnLike`, `bernoulli`, `multinomial`
 * - **Properties**: `shape`, `dtype`, `size`, `ndim`, `device`, `backend`, `disposed`, `isRealized`
 * - **Reading**, computes what is read: `toHost`, `toHostSync`, `item`, `itemSync`, `toArray`,
 *   `toNumbers`, `isClose`, `allClose`, `equal`, `print`, `explain`, `toString`, `toJSON`
 * - **Lifetime**, when a value is computed, replaced, given back: `realize`, `assign`, `dispose`
 * - **Devices**, other devices, and the OpenCL objects behind a tensor: `to`, `buffer`, `poolHandle`,
 *   `queue`, `context`
 * - **Gradients**: `requiresGrad`, `grad`, `backward`, `registerHook`, `detach`
 * - **Arithmetic**, element by element, of two tensors or a tensor and a number: `add`, `sub`, `mul`,
 *   `div`, `pow`, `remainder`, `floorDivide`, `maximum`, `minimum`, `clamp`, `lerp`, `neg`, `abs`,
 *   `sign`, `square`, `reciprocal`, `frac`, `Tensor.sub`, `Tensor.div`, `Tensor.pow`,
 *   `Tensor.remainder`, `Tensor.floorDivide`
 * - **Functions**, of each element: `exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `sqrt`,
 *   `rsqrt`, `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `atan2`, `Tensor.atan2`, `sinh`, `cosh`,
 *   `tanh`, `asinh`, `acosh`, `atanh`, `erf`, `erfc`, `floor`, `ceil`, `round`, `trunc`, `cast`
 * - **Tests and choices**, truth values, and what is picked by them: `eq`, `ne`, `lt`, `le`, `gt`,
 *   `ge`, `isNaN`, `isInf`, `isFinite`, `logicalNot`, `logicalAnd`, `logicalOr`, `logicalXor`, `where`,
 *   `maskedFill`, `Tensor.where`
 * - **Bits**, of integers, two's complement, and of truth values; none has a gradient: `bitwiseAnd`,
 *   `bitwiseOr`, `bitwiseXor`, `bitwiseNot`, `bitwiseLeftShift`, `bitwiseRightShift`
 * - **Activations**: `relu`, `leakyRelu`, `prelu`, `elu`, `gelu`, `silu`, `sigmoid`, `logSigmoid`,
 *   `hardsigmoid`, `hardswish`, `mish`, `softplus`
 * - **Reductions**, over one axis, several, or (by default) all; reduced axes go, unless `keepDims`:
 *   `sum`, `mean`, `prod`, `max`, `min`, `argmax`, `argmin`, `maxWithIndices`, `minWithIndices`, `any`,
 *   `all`, `variance`, `std`, `norm`, `logSumExp`, `softmax`, `logSoftmax`
 * - **Scans**, running results along an axis: `cumsum`, `cumprod`, `cummax`, `cummin`
 * - **Shape**, views, which cost nothing by themselves and fuse into what reads them; axes may be
 *   negative: `reshape`, `flatten`, `permute`, `transpose`, `expand`, `squeeze`, `unsqueeze`, `flip`,
 *   `clone`, `contiguous`
 * - **Parts**, slices, padding, and tensors joined: `slice`, `sliceAssign`, `split`, `chunk`, `unbind`,
 *   `pad`, `padReflect`, `padReplicate`, `roll`, `repeat`, `diagonal`, `tril`, `triu`, `Tensor.concat`,
 *   `Tensor.stack`
 * - **Indexing**, by tensors of positions or truth values; where the size of a result depends on
 *   values, one number is read at once, which waits for the device and is refused in `compile`:
 *   `indexSelect`, `embedding`, `gather`, `scatter`, `scatterAdd`, `index`, `indexPut`, `maskedSelect`,
 *   `nonzero`, `oneHot`, `repeatInterleave`
 * - **Sorting and counting**: `argsort`, `sort`, `topk`, `searchsorted`, `unique`, `bincount`,
 *   `histogram`
 * - **Products**: `matmul`, `bmm`, `outer`
 * - **Images**, convolution, pooling and resampling of (batch, channels, ...): `conv1d`, `conv2d`,
 *   `conv3d`, `convTranspose1d`, `convTranspose2d`, `convTranspose3d`, `maxPool2d`, `avgPool2d`,
 *   `adaptiveMaxPool2d`, `adaptiveAvgPool2d`, `interpolate`, `pixelShuffle`, `pixelUnshuffle`
 * - **Losses**, others are in `nn`: `crossEntropy`
 *
 * @example
 * ```ts
 * import { Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * using m = Tensor.fromHost([[1, 2], [3, 4]]);
 * using y = m.matmul(m).add(1).relu();
 * assertEquals(await y.toArray(), [[8, 11], [16, 23]]);
 * ```
 *
 * @example Gradients
 * ```ts
 * import { Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const w = Tensor.fromHost([1, 2, 3], { requiresGrad: true });
 * w.square().sum().backward();
 * assertEquals(await w.grad!.toArray(), [2, 4, 6]);
 * ```
 */
export class Tensor implements Disposable {
  /** What netcl keeps for it: see `core/tensor_state.ts`. */
  #state: TensorState;

  static {
    provideTensor({
      stateOf: (tensor) => tensor.#state,
      isTensor: (value): value is Tensor =>
        typeof value === "object" && value !== null && #state in value,
      handleOf: (state) => new Tensor(state),
      setState: (tensor, state) => void (tensor.#state = state),
    });
  }

  /**
   * Tensors are made by the static methods, and by operations.
   *
   * @param state Not for users.
   * @throws {TypeError} When it gets values: `Tensor.fromHost` takes those.
   */
  protected constructor(state: object) {
    this.#state = requireState(state);
  }

  // ---- creation

  /**
   * A tensor with a copy of host data.
   *
   * @param data A typed array (it keeps its type), a number, or nested arrays (float32, or bool).
   * @param options Shape, type, device.
   * @throws {ShapeError} When arrays are ragged, or the elements do not fill the shape.
   * @throws {DTypeError} When the array has no element type of ours and none is named.
   * @throws {RangeError} When an integer type does not hold one of the numbers.
   *
   * @example From arrays
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]), labels = Tensor.fromHost(new Int32Array([2, 0]));
   * assertEquals([x.shape, x.dtype], [[2, 2], "float32"]);
   * assertEquals([labels.shape, labels.dtype], [[2], "int32"]);
   * ```
   */
  static fromHost(data: HostData, options?: TensorOptions): Tensor {
    return functional.fromHost(data, options);
  }

  /**
   * A tensor over an OpenCL buffer that the caller owns and keeps alive.
   *
   * @param buffer A buffer of the device's context.
   * @param options Its shape, type (default float32) and device.
   * @throws {ShapeError} When the buffer is too small.
   */
  static fromBuffer(
    buffer: Buffer,
    options: { shape: Shape; dtype?: DType; device?: string | DeviceHandle },
  ): Tensor {
    return functional.fromBuffer(buffer, options);
  }

  /**
   * Zeros, float32 unless the options say otherwise.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([2, 2]).toArray(), [[0, 0], [0, 0]]);
   * ```
   */
  static zeros(shape: Shape, options?: TensorOptions): Tensor {
    return functional.zeros(shape, options);
  }

  /**
   * Ones, float32 unless the options say otherwise.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.ones([3], { dtype: "int32" }).toArray(), [1, 1, 1]);
   * ```
   */
  static ones(shape: Shape, options?: TensorOptions): Tensor {
    return functional.ones(shape, options);
  }

  /**
   * A tensor full of one number, float32 unless the options say otherwise.
   *
   * @throws {RangeError} When the type does not hold the number.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.full([2], 7).toArray(), [7, 7]);
   * ```
   */
  static full(shape: Shape, value: number, options?: TensorOptions): Tensor {
    return functional.full(shape, value, options);
  }

  /**
   * `start, start + step, ...` before `stop`; with one number, 0 to before it. float32 unless the
   * options say otherwise. The step may be negative or a fraction.
   *
   * @throws {RangeError} When a bound is not finite, or the step is 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.arange(4).toArray(), [0, 1, 2, 3]);
   * assertEquals(await Tensor.arange(5, 0, -2).toArray(), [5, 3, 1]);
   * ```
   */
  static arange(start: number, stop?: number, step = 1, options?: TensorOptions): Tensor {
    return functional.arange(start, stop, step, options);
  }

  /**
   * `count` numbers from `start` to `stop`, both included, at equal distances.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.linspace(0, 1, 5).toArray(), [0, 0.25, 0.5, 0.75, 1]);
   * ```
   */
  static linspace(start: number, stop: number, count: number, options?: TensorOptions): Tensor {
    return functional.linspace(start, stop, count, options);
  }

  /**
   * The identity matrix (n, n).
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2).toArray(), [[1, 0], [0, 1]]);
   * ```
   */
  static eye(n: number, options?: TensorOptions): Tensor {
    return functional.eye(n, options);
  }

  /**
   * Grids of coordinates: of `k` vectors, `k` tensors over the grid that they span.
   *
   * @param tensors Vectors, or scalars.
   * @param options "ij" has the first one along axis 0, "xy" (plots) along axis 1.
   * @throws {ShapeError} When one is no vector.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [y, x] = Tensor.meshgrid([Tensor.arange(2), Tensor.arange(3)]) as [Tensor, Tensor];
   * assertEquals(await y.toArray(), [[0, 0, 0], [1, 1, 1]]);
   * assertEquals(await x.toArray(), [[0, 1, 2], [0, 1, 2]]);
   * ```
   */
  static meshgrid(tensors: Tensor[], options?: MeshOptions): Tensor[] {
    return functional.meshgrid(tensors, options);
  }

  /** A tensor of the same device and type full of `value`; of the same shape unless one is given. */
  fullLike(value: number, shape?: Shape): Tensor {
    return compute(sequences.fullLike, this, value, shape);
  }

  /** Zeros of the same shape, device and type. */
  zerosLike(shape?: Shape): Tensor {
    return compute(sequences.fullLike, this, 0, shape);
  }

  /** Ones of the same shape, device and type. */
  onesLike(shape?: Shape): Tensor {
    return compute(sequences.fullLike, this, 1, shape);
  }

  /** 0, 1, 2, ... in row-major order on the same device, as int32; int64 where that is too small. */
  indexLike(shape: Shape): Tensor {
    return compute(sequences.indexLike, this, shape);
  }

  // ---- random numbers

  /**
   * Uniform random numbers in [0, 1): of one seed the same on every device, see
   * {@linkcode manualSeed}.
   *
   * @throws {DTypeError} When the type is not floating point.
   *
   * @example The same numbers for the same seed
   * ```ts
   * import { manualSeed, Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * manualSeed(1);
   * const a = await Tensor.rand([4]).toArray();
   * manualSeed(1);
   * assertEquals(await Tensor.rand([4]).toArray(), a);
   * ```
   */
  static rand(shape: Shape, options?: TensorOptions): Tensor {
    return functional.rand(shape, options);
  }

  /**
   * Normal random numbers with mean 0 and variance 1.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const x = Tensor.randn([10_000]);
   * assert(Math.abs(await x.mean().item()) < 0.1);
   * assert(Math.abs(await x.std().item() - 1) < 0.1);
   * ```
   */
  static randn(shape: Shape, options?: TensorOptions): Tensor {
    return functional.randn(shape, options);
  }

  /**
   * Random whole numbers from `low` to before `high`, as int32 unless the options say otherwise.
   *
   * @throws {RangeError} When the bounds are not whole, or more than 2 ** 24 apart.
   *
   * @example A die
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const throws = await Tensor.randint(1, 7, [100]).toNumbers();
   * assert(throws.every((n) => n >= 1 && n <= 6));
   * ```
   */
  static randint(low: number, high: number, shape: Shape, options?: TensorOptions): Tensor {
    return functional.randint(low, high, shape, options);
  }

  /** A random order of 0 to `n - 1`, as int32. */
  static randperm(n: number, options?: TensorOptions): Tensor {
    return functional.randperm(n, options);
  }

  /**
   * Normal random numbers of a mean and a deviation, which may be tensors that broadcast: gradients go
   * to both.
   *
   * @param mean The means.
   * @param std The standard deviations.
   * @param shape The shape; that of the tensors by default.
   * @throws {ShapeError} When the tensors do not broadcast to the shape.
   * @throws {DTypeError} When one is not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.normal(5, 0.1, [2, 3]).shape, [2, 3]);
   * assertEquals(await Tensor.normal(Tensor.fromHost([1, 2]), 0).toArray(), [1, 2]);
   * ```
   */
  static normal(
    mean: TensorLike,
    std: TensorLike,
    shape?: Shape,
    options?: TensorOptions,
  ): Tensor {
    return functional.normal(mean, std, shape, options);
  }

  /**
   * A random order: of 0 to `x - 1` for a number, of the slices along an axis (default the first) for
   * a tensor.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const rows = Tensor.permutation(Tensor.eye(3));
   * assertEquals(await rows.sum(0).toArray(), [1, 1, 1]);
   * assertEquals(await Tensor.permutation(4).sum().item(), 6);
   * ```
   */
  static permutation(x: TensorLike, axis = 0): Tensor {
    return functional.permutation(x, axis);
  }

  /** Uniform random numbers in [0, 1) of the same shape, device and type. */
  randLike(): Tensor {
    return compute(random.randLike, this);
  }

  /** Normal random numbers of the same shape, device and type. */
  randnLike(): Tensor {
    return compute(random.randnLike, this);
  }

  /**
   * 1 with the probability that each element is, else 0, in this type.
   *
   * @throws {DTypeError} When the probabilities are not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([0, 1]).bernoulli().toArray(), [0, 1]);
   * ```
   */
  bernoulli(): Tensor {
    return compute(random.bernoulli, this);
  }

  /**
   * Classes drawn with these weights, as int32: of (classes) `count` of them, of (rows, classes) as
   * many for each row. Weights need not add up to 1. The same seed draws the same everywhere.
   *
   * @param count How many.
   * @param options Whether a class may be drawn again; by default it may not.
   * @throws {ShapeError} When the weights have not one or two axes.
   * @throws {RangeError} When there are fewer classes than draws; at the next read, when a weight is
   * negative or not finite, or too few are not 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const drawn = Tensor.fromHost([0, 0, 1, 0]).multinomial(3, { replacement: true });
   * assertEquals(await drawn.toArray(), [2, 2, 2]);
   * ```
   */
  multinomial(count: number, options?: MultinomialOptions): Tensor {
    return compute(random.multinomial, this, count, options);
  }

  // ---- properties

  /** The size of each axis; `[]` for a scalar. */
  get shape(): Shape {
    return this.#state.node.shape;
  }

  /** The element type. */
  get dtype(): DType {
    return this.#state.node.dtype;
  }

  /** The number of elements. */
  get size(): number {
    return this.#state.node.size;
  }

  /** The number of axes. */
  get ndim(): number {
    return this.#state.node.shape.length;
  }

  /** The device that it lives on. */
  get device(): DeviceHandle {
    return this.#state.device;
  }

  /** "cl" or "cpu": which backend computes it. */
  get backend(): BackendName {
    return this.device.backend;
  }

  /** True after `dispose()`. */
  get disposed(): boolean {
    return this.#state.lifecycle === "disposed";
  }

  /** True when the value is in memory; false while it is only a promise. */
  get isRealized(): boolean {
    return this.#state.lifecycle !== "disposed" && this.#state.node.isLeaf;
  }

  // ---- reading

  /**
   * The elements, row-major, in a new typed array: Float32Array for float32 and bfloat16,
   * Float16Array, Float64Array, Int32Array, BigInt64Array for int64, Uint8Array for uint8 and bool.
   * What was read is kept: reading it again, or a view of it, computes nothing.
   *
   * @param into An array of that kind to read into instead: a new one costs more than the transfer
   * when it is large.
   * @throws {DisposedError} When it was disposed of, or is a result on the way of a former step.
   * @throws {RangeError} When an index that was used on the way is out of range.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   * @throws {TypeError} When `into` has another type or size.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const values = await Tensor.fromHost([1, 2]).mul(3).toHost();
   * assertEquals(values, new Float32Array([3, 6]));
   * ```
   */
  toHost(into?: TypedArray): Promise<TypedArray> {
    return act("read", reading.toHost, this, into);
  }

  /** The same, blocking the event loop. */
  toHostSync(into?: TypedArray): TypedArray {
    return act("read", reading.toHostSync, this, into);
  }

  /**
   * The one element as a number; an int64 beyond 2 ** 53 is rounded, `toHost` gives it whole.
   *
   * @throws {ShapeError} When there is not exactly one.
   * @throws {DisposedError} When it, or what it is computed from, was disposed.
   * @throws {RangeError} When an index that was used on the way is out of range.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2, 3]).sum().item(), 6);
   * ```
   */
  item(): Promise<number> {
    return act("read", reading.item, this);
  }

  /** The same, blocking the event loop. */
  itemSync(): number {
    return act("read", reading.itemSync, this);
  }

  /**
   * The elements as nested arrays, one level per axis; truth values as booleans, int64 as numbers. Throws
   * as {@linkcode Tensor.toHost} does.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2).toArray(), [[1, 0], [0, 1]]);
   * ```
   */
  toArray(): Promise<NestedArray> {
    return act("read", reading.toArray, this);
  }

  /**
   * The elements, row-major, as plain numbers: of every type, int64 beyond 2 ** 53 rounded, truth
   * values as 0 and 1. Throws as {@linkcode Tensor.toHost} does.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2, { dtype: "int64" }).toNumbers(), [1, 0, 0, 1]);
   * ```
   */
  toNumbers(): Promise<number[]> {
    return act("read", reading.toNumbers, this);
  }

  /**
   * True for each element that is as near to that of `b` as the options say; infinite ones are where
   * they are equal. Shapes broadcast, types meet.
   */
  isClose(b: Tensor, options: CloseOptions = {}): Tensor {
    return compute(isClose, this, b, options);
  }

  /**
   * True when all elements are as near to those of `b` as the options say; shapes broadcast. Reads
   * one truth value; `isClose(b).all()` is the tensor of it.
   *
   * @throws {ShapeError} When the shapes do not broadcast.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2, 3]);
   * assert(await x.allClose(x.add(1e-7)));
   * assert(!await x.allClose(x.add(1e-3)));
   * assert(await x.allClose(x.add(1e-3), { atol: 0.01 }));
   * ```
   */
  allClose(b: Tensor, options?: CloseOptions): Promise<boolean> {
    return act("read", reading.allClose, this, b, options);
  }

  /**
   * True when `b` has the same shape and equal elements; NaN equals nothing. The types may differ.
   *
   * @throws {TypeError} When `b` is on another device.
   */
  equal(b: Tensor): Promise<boolean> {
    return act("read", reading.equal, this, b);
  }

  /**
   * Prints values, shape, type and backend as NumPy does; of more than 1000 elements the ends of each
   * axis. Throws as {@linkcode Tensor.toHost} does.
   *
   * @param options What gets the text, by default `console.log`.
   * @returns The text.
   *
   * @example
   * ```ts
   * import { Tensor, withDevice } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2.5], [-3, 4]], { device: "cpu" });
   * const text = await x.print({ log: () => {} });
   * assertEquals(text, "Tensor([[ 1.0,  2.5],\n        [-3.0,  4.0]], shape [2, 2], float32, cpu)");
   * ```
   */
  print(options: PrintOptions = {}): Promise<string> {
    return act("read", print, this, options);
  }

  /**
   * How it would be computed now: the kernels with what they read, write and run, as text.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   *
   * console.log(Tensor.ones([8]).add(1).relu().explain());
   * ```
   */
  explain(): string {
    return explain(this);
  }

  /** `Tensor([2, 3], float32, cl)`. */
  toString(): string {
    return describe(this);
  }

  /** What `JSON.stringify` writes, without the elements: those are in `await tensor.toArray()`. */
  toJSON(): string {
    return describe(this);
  }

  /**
   * Text where a string is wanted; a number never: JavaScript's operators do not reach tensors.
   *
   * @throws {TypeError} In arithmetic and comparisons.
   */
  [Symbol.toPrimitive](hint: string): string {
    return toPrimitive(this, hint);
  }

  /** What `console.log` prints: values where the host has them; it computes and waits for nothing. */
  [Symbol.for("Deno.customInspect")](): string {
    return inspect(this);
  }

  // ---- lifetime

  /**
   * Computes the value and keeps it in memory; nothing happens if it is there already.
   *
   * @returns This tensor.
   * @throws {DisposedError} When something that it is computed from was disposed.
   * @throws {OutOfMemoryError} When its memory does not fit.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const x = Tensor.ones([3]).add(1);
   * assert(!x.isRealized);
   * assert(x.realize().isRealized);
   * ```
   */
  realize(): this {
    return act("realize", assignment.realize, this) as this;
  }

  /**
   * Gives this tensor another value of the same shape; others that were computed from the former
   * value keep it. Not recorded for `backward`. A value that is not computed yet is, with whatever is
   * computed next on the device.
   *
   * One limit keeps training steps free of copies: a result on the way of a graph that `backward` went
   * through can be read until the second assignment after it. Read it, or `realize()` it, before.
   *
   * @param value The new value; it is cast to this tensor's type.
   * @returns This tensor.
   * @throws {ShapeError} When the shapes differ.
   * @throws {TypeError} On a tensor that was computed from others and is recorded for `backward`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.zeros([2]), before = x.add(1);
   * x.assign(Tensor.fromHost([5, 6]));
   * assertEquals(await x.toArray(), [5, 6]);
   * assertEquals(await before.toArray(), [1, 1]); // keeps what it was computed from
   * ```
   */
  assign(value: Tensor): this {
    return act("assign", assignment.assign, this, value) as this;
  }

  /**
   * Ends this tensor: its further use is a {@linkcode DisposedError}. Idempotent. Its memory comes back at
   * once, unless something else needs the value: a view, a tensor that was computed from it and may be
   * read yet, a pending read, a `backward` that has not run.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.full([3], 2).realize();
   * const b = a.mul(3);
   * a.dispose();
   * assertEquals(await b.toArray(), [6, 6, 6]);
   * ```
   */
  dispose(): void {
    act("dispose", assignment.dispose, this);
  }

  /** {@linkcode Tensor.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  // ---- devices

  /**
   * This tensor on another device. A value that has not changed is copied once, however often it is
   * moved.
   *
   * @param target A selection string or handle.
   * @returns This tensor itself where it is there already.
   */
  to(target: string | DeviceHandle): Tensor {
    return compute(copyTo, this, target);
  }

  /**
   * The value as an OpenCL buffer, for kernels that are enqueued by hand: contiguous elements in
   * row-major order. Reading it computes the value. It is valid until this tensor is disposed of; after
   * an `assign` it is that of the former value. Values never change: write to buffers of your own, and
   * see {@linkcode Tensor.fromBuffer} for the other way.
   *
   * @throws {TypeError} On the built-in backend.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { isOpenCLAvailable } from "@netcl/netcl/ffi";
   * import { assertEquals } from "@std/assert";
   *
   * if (isOpenCLAvailable()) {
   *   const x = Tensor.fromHost([1, 2, 3], { backend: "cl" }).mul(2);
   *   const found = new Float32Array(3);
   *   x.queue!.read(x.buffer, found, { blocking: true });
   *   assertEquals([...found], [2, 4, 6]);
   * }
   * ```
   */
  get buffer(): Buffer {
    return lendBlock("buffer", this).buffer;
  }

  /**
   * The pool's handle of the value, under the conditions of {@linkcode Tensor.buffer}; the tensor
   * releases it.
   *
   * @throws {TypeError} On the built-in backend.
   */
  get poolHandle(): BufferHandle {
    return lendBlock("pool's handle", this);
  }

  /**
   * The queue that computes it, null on the built-in backend. Reading it enqueues what the value is
   * computed by: what is enqueued there next comes after it.
   */
  get queue(): CommandQueue | null {
    if (this.backend === "cl") lendBlock("queue", this);
    return this.device.queue;
  }

  /** The OpenCL context of its memory, null on the built-in backend. */
  get context(): Context | null {
    return this.device.context;
  }

  // ---- gradients

  /** True when `backward` computes a gradient for it, or for something that it was made from. */
  get requiresGrad(): boolean {
    return this.#state.needsGrad;
  }

  /**
   * Whether `backward` adds up a gradient in `grad`; may be set on leaves.
   *
   * @throws {TypeError} On a tensor that was computed from others (detach it first), or one that
   * does not hold floating point numbers.
   */
  set requiresGrad(value: boolean) {
    act("set", assignment.setRequiresGrad, this, value);
  }

  /** The gradient that `backward` has added up, null before. */
  get grad(): Tensor | null {
    tellGradient(this, this.#state.grad);
    return this.#state.grad;
  }

  /** Replaces the gradient; the former one is the caller's to dispose of. */
  set grad(gradient: Tensor | null) {
    tellGradient(this, this.#state.grad, gradient);
    this.#state.grad = gradient;
  }

  /**
   * Adds the gradient of this tensor to the `grad` of every leaf that requires one.
   *
   * @param gradient What to start from; may be left out for a single element.
   * @param options To go backward again, or to differentiate the gradients.
   * @throws {Error} When nothing that it was computed from requires a gradient, or its graph was let
   * go by an earlier `backward`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2, 3], { requiresGrad: true });
   * x.square().sum().backward();
   * assertEquals(await x.grad!.toArray(), [2, 4, 6]);
   * ```
   */
  backward(gradient?: Tensor, options?: BackwardOptions): void {
    compute(backward, this, gradient, options);
  }

  /**
   * Has a function called with this tensor's gradient whenever `backward` has summed it up; what it
   * returns goes on in the gradient's place. Inside `compile` it is called while a step is recorded.
   *
   * @param hook Gets the gradient, of this tensor's shape.
   * @returns Takes the hook away when it is disposed of.
   * @throws {TypeError} When the tensor requires no gradient.
   *
   * @example A gradient that is clipped on its way
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2], { requiresGrad: true });
   * const y = x.mul(10);
   * using _ = y.registerHook((gradient) => gradient.clamp(-1, 1));
   * y.square().sum().backward();
   * assertEquals(await x.grad!.toArray(), [10, 10]);
   * ```
   */
  registerHook(hook: GradientHook): Disposable {
    return addGradientHook(this, hook);
  }

  /**
   * The same value, cut off from `backward`. It stays what it is when this tensor is assigned another
   * one, or is disposed of.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.ones([2], { requiresGrad: true });
   * x.mul(x.detach()).sum().backward();
   * assertEquals(await x.grad!.toArray(), [1, 1]);
   * ```
   */
  detach(): Tensor {
    return compute(views.detach, this);
  }

  // ---- arithmetic

  /**
   * `a + b`; of truth values, or.
   *
   * @example A row to each row
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.add(Tensor.fromHost([10, 20])).toArray(), [[11, 22], [13, 24]]);
   * ```
   */
  add(b: TensorLike): Tensor {
    return compute(binary, "add", this, b);
  }

  /**
   * `a - b`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([5, 7]).sub(2).toArray(), [3, 5]);
   * ```
   */
  sub(b: TensorLike): Tensor {
    return compute(binary, "sub", this, b);
  }

  /**
   * `a * b`; of truth values, and.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2]).mul(Tensor.fromHost([3, 4])).toArray(), [3, 8]);
   * ```
   */
  mul(b: TensorLike): Tensor {
    return compute(binary, "mul", this, b);
  }

  /**
   * `a / b`; of integers in float32, as in PyTorch. See {@linkcode Tensor.floorDivide}.
   *
   * @example Integers meet in float32
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost(new Int32Array([1, 3]));
   * assertEquals(await x.div(2).toArray(), [0.5, 1.5]);
   * ```
   */
  div(b: TensorLike): Tensor {
    return compute(binary, "div", this, b);
  }

  /**
   * `a ** b`; of integers whole, and 0 where `b` is negative and `a` is not 1 or -1.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2, 3]).pow(2).toArray(), [1, 4, 9]);
   * ```
   */
  pow(b: TensorLike): Tensor {
    return compute(arithmetic.pow, this, b);
  }

  /** The remainder with the sign of `b`, as Python's `%`; 0 for integers divided by 0. */
  remainder(b: TensorLike): Tensor {
    return compute(binary, "remainder", this, b);
  }

  /** The quotient rounded down; 0 for integers divided by 0. */
  floorDivide(b: TensorLike): Tensor {
    return compute(binary, "floorDivide", this, b);
  }

  /**
   * The larger of both; NaN wins.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 5]).maximum(3).toArray(), [3, 5]);
   * ```
   */
  maximum(b: TensorLike): Tensor {
    return compute(binary, "maximum", this, b);
  }

  /** The smaller of both; NaN wins. */
  minimum(b: TensorLike): Tensor {
    return compute(binary, "minimum", this, b);
  }

  /**
   * At least `min`, at most `max`, either of which may be left out; NaN stays.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([-2, 0.5, 9]).clamp(0, 1).toArray(), [0, 0.5, 1]);
   * ```
   */
  clamp(min?: number, max?: number): Tensor {
    return computeDistinct(arithmetic.clamp, this, min, max);
  }

  /** `this + weight * (end - this)`: this at weight 0, `end` at 1, from whichever is nearer. */
  lerp(end: Tensor, weight: TensorLike): Tensor {
    return compute(arithmetic.lerp, this, end, weight);
  }

  /** The negative. */
  neg(): Tensor {
    return compute(unary, "neg", this);
  }

  /**
   * The absolute value.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([-2, 3]).abs().toArray(), [2, 3]);
   * ```
   */
  abs(): Tensor {
    return compute(unary, "abs", this);
  }

  /** -1, 0 or 1; NaN for NaN. */
  sign(): Tensor {
    return compute(unary, "sign", this);
  }

  /** `x * x`. */
  square(): Tensor {
    return compute(arithmetic.square, this);
  }

  /** `1 / x`. */
  reciprocal(): Tensor {
    return compute(unary, "reciprocal", this);
  }

  /** The part behind the point, with the sign of `x`. */
  frac(): Tensor {
    return compute(arithmetic.frac, this);
  }

  /** `a - b`. */
  static sub(a: TensorLike, b: TensorLike): Tensor {
    return functional.sub(a, b);
  }

  /** `a / b`; of integers in float32. */
  static div(a: TensorLike, b: TensorLike): Tensor {
    return functional.div(a, b);
  }

  /** `a` to the power of `b`. */
  static pow(a: TensorLike, b: TensorLike): Tensor {
    return functional.pow(a, b);
  }

  /** What is left of `a` when it is divided by `b`, with the sign of `b`. */
  static remainder(a: TensorLike, b: TensorLike): Tensor {
    return functional.remainder(a, b);
  }

  /** `a / b`, rounded down. */
  static floorDivide(a: TensorLike, b: TensorLike): Tensor {
    return functional.floorDivide(a, b);
  }

  // ---- functions

  /**
   * `e ** x`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([2]).exp().toArray(), [1, 1]);
   * ```
   */
  exp(): Tensor {
    return compute(unary, "exp", this);
  }

  /** `2 ** x`. */
  exp2(): Tensor {
    return compute(unary, "exp2", this);
  }

  /** `e ** x - 1`, exact for small `x`. */
  expm1(): Tensor {
    return compute(unary, "expm1", this);
  }

  /**
   * The natural logarithm.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 0]).log().toArray(), [0, -Infinity]);
   * ```
   */
  log(): Tensor {
    return compute(unary, "log", this);
  }

  /** The logarithm to base 2. */
  log2(): Tensor {
    return compute(unary, "log2", this);
  }

  /** The logarithm to base 10. */
  log10(): Tensor {
    return compute(unary, "log10", this);
  }

  /** `log(1 + x)`, exact for small `x`. */
  log1p(): Tensor {
    return compute(unary, "log1p", this);
  }

  /**
   * The square root.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([4, 9]).sqrt().toArray(), [2, 3]);
   * ```
   */
  sqrt(): Tensor {
    return compute(unary, "sqrt", this);
  }

  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor {
    return compute(unary, "rsqrt", this);
  }

  /** The sine; `x` in radians. */
  sin(): Tensor {
    return compute(unary, "sin", this);
  }

  /** The cosine; `x` in radians. */
  cos(): Tensor {
    return compute(unary, "cos", this);
  }

  /** The tangent; `x` in radians. */
  tan(): Tensor {
    return compute(unary, "tan", this);
  }

  /** The inverse sine, in radians. */
  asin(): Tensor {
    return compute(unary, "asin", this);
  }

  /** The inverse cosine, in radians. */
  acos(): Tensor {
    return compute(unary, "acos", this);
  }

  /** The inverse tangent, in radians. */
  atan(): Tensor {
    return compute(unary, "atan", this);
  }

  /** The angle of the point (b, a), in radians. */
  atan2(b: TensorLike): Tensor {
    return compute(binary, "atan2", this, b);
  }

  /** The angle of the point (`b`, `a`), in radians from -pi to pi. */
  static atan2(a: TensorLike, b: TensorLike): Tensor {
    return functional.atan2(a, b);
  }

  /** The hyperbolic sine. */
  sinh(): Tensor {
    return compute(unary, "sinh", this);
  }

  /** The hyperbolic cosine. */
  cosh(): Tensor {
    return compute(unary, "cosh", this);
  }

  /**
   * The hyperbolic tangent.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([1]).tanh().toArray(), [0]);
   * ```
   */
  tanh(): Tensor {
    return compute(unary, "tanh", this);
  }

  /** The inverse hyperbolic sine. */
  asinh(): Tensor {
    return compute(unary, "asinh", this);
  }

  /** The inverse hyperbolic cosine. */
  acosh(): Tensor {
    return compute(unary, "acosh", this);
  }

  /** The inverse hyperbolic tangent. */
  atanh(): Tensor {
    return compute(unary, "atanh", this);
  }

  /** The error function. */
  erf(): Tensor {
    return compute(unary, "erf", this);
  }

  /** `1 - erf(x)`, exact also where it is small. */
  erfc(): Tensor {
    return compute(unary, "erfc", this);
  }

  /** The next whole number below; no gradient. */
  floor(): Tensor {
    return compute(unary, "floor", this);
  }

  /** The next whole number above; no gradient. */
  ceil(): Tensor {
    return compute(unary, "ceil", this);
  }

  /** The nearest whole number, halves to even; no gradient. */
  round(): Tensor {
    return compute(unary, "round", this);
  }

  /** The whole part; no gradient. */
  trunc(): Tensor {
    return compute(unary, "trunc", this);
  }

  /**
   * The elements in another type: floats to integers towards zero (beyond the range the nearest, NaN
   * is 0), numbers to bool by `!= 0`, floats to shorter ones to the nearest, ties to even. Gradients go
   * through casts between floating types. Half types are computed in float32: what is computed on the
   * way to a stored value is rounded by casts only.
   *
   * @returns This tensor itself where it has that type already.
   * @throws {DTypeError} When there is no such type.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1.7, -1.7]).cast("int32");
   * assertEquals(await x.toArray(), [1, -1]);
   * ```
   */
  cast(dtype: DType): Tensor {
    return compute(cast, this, dtype);
  }

  // ---- tests and choices

  /**
   * True where equal.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2]).eq(2).toArray(), [false, true]);
   * ```
   */
  eq(b: TensorLike): Tensor {
    return compute(binary, "eq", this, b);
  }

  /** True where different. */
  ne(b: TensorLike): Tensor {
    return compute(binary, "ne", this, b);
  }

  /** True where `a < b`. */
  lt(b: TensorLike): Tensor {
    return compute(binary, "lt", this, b);
  }

  /** True where `a <= b`. */
  le(b: TensorLike): Tensor {
    return compute(binary, "le", this, b);
  }

  /**
   * True where `a > b`.
   *
   * @example How many are positive
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([-1, 2, 3]).gt(0).sum().item(), 2);
   * ```
   */
  gt(b: TensorLike): Tensor {
    return compute(binary, "gt", this, b);
  }

  /** True where `a >= b`. */
  ge(b: TensorLike): Tensor {
    return compute(binary, "ge", this, b);
  }

  /** True where the element is NaN. */
  isNaN(): Tensor {
    return compute(unary, "isNaN", this);
  }

  /** True where the element is infinite. */
  isInf(): Tensor {
    return compute(unary, "isInf", this);
  }

  /** True where the element is neither infinite nor NaN. */
  isFinite(): Tensor {
    return compute(arithmetic.isFinite, this);
  }

  /** True where the element is zero. */
  logicalNot(): Tensor {
    return compute(logicalNot, this);
  }

  /** True where both are not zero. */
  logicalAnd(b: TensorLike): Tensor {
    return compute(binary, "logicalAnd", this, b);
  }

  /** True where one is not zero. */
  logicalOr(b: TensorLike): Tensor {
    return compute(binary, "logicalOr", this, b);
  }

  /** True where exactly one is not zero. */
  logicalXor(b: TensorLike): Tensor {
    return compute(binary, "logicalXor", this, b);
  }

  /**
   * `a` where this tensor of truth values is true, else `b`.
   *
   * @throws {DTypeError} When this tensor is not bool.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([-2, 3]);
   * assertEquals(await x.gt(0).where(x, 0).toArray(), [0, 3]);
   * ```
   */
  where(a: TensorLike, b: TensorLike): Tensor {
    return compute(select, this, a, b);
  }

  /**
   * `value` where the mask is true, else this tensor's element.
   *
   * @param mask Truth values that broadcast with this tensor.
   * @param value What takes the place.
   * @throws {DTypeError} When the mask is not bool.
   *
   * @example Attention that does not look ahead
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const ahead = Tensor.ones([2, 2]).triu(1).ne(0);
   * const scores = Tensor.zeros([2, 2]).maskedFill(ahead, -Infinity).softmax();
   * assertEquals(await scores.toArray(), [[1, 0], [0.5, 0.5]]);
   * ```
   */
  maskedFill(mask: Tensor, value: TensorLike): Tensor {
    return compute(select, mask, value, this);
  }

  /**
   * `a` where the condition holds, else `b`; all three broadcast.
   *
   * @throws {DTypeError} When the condition is not bool.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([-2, 3]);
   * assertEquals(await Tensor.where(x.gt(0), x, 0).toArray(), [0, 3]);
   * ```
   */
  static where(condition: Tensor, a: TensorLike, b: TensorLike): Tensor {
    return functional.where(condition, a, b);
  }

  // ---- bits

  /** The bits that both have. @throws {DTypeError} Of floats. */
  bitwiseAnd(b: TensorLike): Tensor {
    return compute(binary, "bitwiseAnd", this, b);
  }

  /** The bits that one has, at least. @throws {DTypeError} Of floats. */
  bitwiseOr(b: TensorLike): Tensor {
    return compute(binary, "bitwiseOr", this, b);
  }

  /** The bits that one has alone. @throws {DTypeError} Of floats. */
  bitwiseXor(b: TensorLike): Tensor {
    return compute(binary, "bitwiseXor", this, b);
  }

  /** The bits that it has not; of truth values `logicalNot`. @throws {DTypeError} Of floats. */
  bitwiseNot(): Tensor {
    return compute(bits.bitwiseNot, this);
  }

  /**
   * The bits moved up by `b` places; by as many as the type has, or more, or fewer than 0, nothing is
   * left: 0.
   *
   * @throws {DTypeError} Of floats and truth values.
   */
  bitwiseLeftShift(b: TensorLike): Tensor {
    return compute(bits.bitwiseLeftShift, this, b);
  }

  /**
   * The bits moved down by `b` places, the sign stays; by as many as the type has, or more, or fewer
   * than 0, the sign alone is left: -1 or 0.
   *
   * @throws {DTypeError} Of floats and truth values.
   */
  bitwiseRightShift(b: TensorLike): Tensor {
    return compute(bits.bitwiseRightShift, this, b);
  }

  // ---- activations

  /**
   * `max(x, 0)`; NaN stays.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([-1, 2]).relu().toArray(), [0, 2]);
   * ```
   */
  relu(): Tensor {
    return compute(binary, "relu", this, 0);
  }

  /** `x` where positive, else `slope * x`. */
  leakyRelu(slope = 0.01): Tensor {
    return compute(activations.leakyRelu, this, slope);
  }

  /**
   * `x` where positive, else `weight * x`, with a weight that is learned: one number, or one for each
   * channel of (N, C, ...).
   *
   * @throws {ShapeError} When the weight has neither one element nor one for each channel.
   */
  prelu(weight: Tensor): Tensor {
    return compute(activations.prelu, this, weight);
  }

  /** `x` where positive, else `alpha * (exp(x) - 1)`. */
  elu(alpha = 1): Tensor {
    return compute(activations.elu, this, alpha);
  }

  /**
   * The Gaussian error linear unit, `x * P(X <= x)`.
   *
   * @param approximate "none" by the error function, "tanh" by the usual approximation (D. Hendrycks,
   * K. Gimpel, Gaussian Error Linear Units, 2016).
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([1]).gelu().toArray(), [0]);
   * ```
   */
  gelu(approximate: "none" | "tanh" = "none"): Tensor {
    return compute(activations.gelu, this, approximate);
  }

  /** `x * sigmoid(x)`. */
  silu(): Tensor {
    return compute(activations.silu, this);
  }

  /**
   * `1 / (1 + exp(-x))`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([1]).sigmoid().toArray(), [0.5]);
   * ```
   */
  sigmoid(): Tensor {
    return compute(unary, "sigmoid", this);
  }

  /** `log(sigmoid(x))`, without overflow. */
  logSigmoid(): Tensor {
    return compute(activations.logSigmoid, this);
  }

  /** `clamp(x + 3, 0, 6) / 6`. */
  hardsigmoid(): Tensor {
    return compute(activations.hardsigmoid, this);
  }

  /** `x * clamp(x + 3, 0, 6) / 6` (A. Howard et al., Searching for MobileNetV3, 2019). */
  hardswish(): Tensor {
    return compute(activations.hardswish, this);
  }

  /** `x * tanh(log(1 + exp(x)))` (D. Misra, Mish, 2019). */
  mish(): Tensor {
    return compute(activations.mish, this);
  }

  /** `log(1 + exp(x))`, without overflow. */
  softplus(): Tensor {
    return compute(activations.softplus, this);
  }

  // ---- reductions

  /**
   * The sum; of integers and truth values in int64.
   *
   * @example Of all, of columns, of rows
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.sum().item(), 10);
   * assertEquals(await x.sum(0).toArray(), [4, 6]);
   * assertEquals(await x.sum(1, { keepDims: true }).toArray(), [[3], [7]]);
   * ```
   */
  sum(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.sum, this, axes, options);
  }

  /**
   * The mean.
   *
   * @throws {DTypeError} When the elements are not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.mean(1).toArray(), [1.5, 3.5]);
   * ```
   */
  mean(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(reductions.mean, this, axes, options);
  }

  /** The product; of integers and truth values in int64. */
  prod(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.prod, this, axes, options);
  }

  /**
   * The largest element; equal ones share the gradient.
   *
   * @throws {ShapeError} When an axis is empty.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.max(0).toArray(), [3, 4]);
   * ```
   */
  max(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.max, this, axes, options);
  }

  /**
   * The smallest element; equal ones share the gradient.
   *
   * @throws {ShapeError} When an axis is empty.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.min().item(), 1);
   * ```
   */
  min(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.min, this, axes, options);
  }

  /**
   * The position of the first largest element along an axis (default: of all), as int32, or int64
   * where that is too small.
   *
   * @example The class with the largest score
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const scores = Tensor.fromHost([[0.1, 0.7, 0.2], [0.9, 0, 0.1]]);
   * assertEquals(await scores.argmax(1).toArray(), [1, 0]);
   * ```
   */
  argmax(axis?: number, options?: ReduceOptions): Tensor {
    return compute(reductions.argmax, this, axis, options);
  }

  /**
   * The position of the first smallest element along an axis (default: of all), as int32, or int64
   * where that is too small.
   */
  argmin(axis?: number, options?: ReduceOptions): Tensor {
    return compute(reductions.argmin, this, axis, options);
  }

  /**
   * The largest element along an axis (default: of all) and the position of the first such one, as
   * `argmax` gives it. The gradient goes to that one alone.
   *
   * @throws {ShapeError} When the axis is empty.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([[3, 9], [7, 1]]).maxWithIndices(1);
   * assertEquals(await values.toArray(), [9, 7]);
   * assertEquals(await indices.toArray(), [1, 0]);
   * ```
   */
  maxWithIndices(axis?: number, options?: ReduceOptions): { values: Tensor; indices: Tensor } {
    return compute(reductions.maxWithIndices, this, axis, options);
  }

  /** The smallest element and its position, as {@linkcode Tensor.maxWithIndices}. */
  minWithIndices(axis?: number, options?: ReduceOptions): { values: Tensor; indices: Tensor } {
    return compute(reductions.minWithIndices, this, axis, options);
  }

  /** True where any element is not zero. */
  any(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.any, this, axes, options);
  }

  /** True where no element is zero. */
  all(axes?: Axes, options?: ReduceOptions): Tensor {
    return computeDistinct(reductions.all, this, axes, options);
  }

  /**
   * The variance; `correction` (default 1, Bessel's) is taken off the count. NaN where nothing is
   * left of it.
   *
   * @throws {DTypeError} When the elements are not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2, 3]).variance().item(), 1);
   * ```
   */
  variance(axes?: Axes, options?: VarianceOptions): Tensor {
    return compute(reductions.variance, this, axes, options);
  }

  /**
   * The standard deviation; `correction` as in {@linkcode Tensor.variance}.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2, 3]).std().item(), 1);
   * ```
   */
  std(axes?: Axes, options?: VarianceOptions): Tensor {
    return compute(reductions.std, this, axes, options);
  }

  /** The Euclidean norm, `sqrt(sum(x * x))`. */
  norm(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(reductions.norm, this, axes, options);
  }

  /** `log(sum(exp(x)))`, without overflow; -Infinity of nothing. */
  logSumExp(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(reductions.logSumExp, this, axes, options);
  }

  /**
   * `exp(x) / sum(exp(x))` along an axis (default the last), without overflow.
   *
   * @throws {DTypeError} When the elements are not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.zeros([1, 4]).softmax(-1).toArray(), [[0.25, 0.25, 0.25, 0.25]]);
   * ```
   */
  softmax(axis?: number): Tensor {
    return computeDistinct(reductions.softmax, this, axis);
  }

  /** `log(softmax(x))` along an axis (default the last), without overflow. */
  logSoftmax(axis?: number): Tensor {
    return computeDistinct(reductions.logSoftmax, this, axis);
  }

  // ---- scans

  /**
   * Running sums along an axis; of integers and truth values in int64.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 2, 3]).cumsum(0).toArray(), [1, 3, 6]);
   * ```
   */
  cumsum(axis: number): Tensor {
    return compute(scans.cumsum, this, axis);
  }

  /**
   * Running products along an axis; of integers and truth values in int64.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([2, 3, 4]).cumprod(0).toArray(), [2, 6, 24]);
   * ```
   */
  cumprod(axis: number): Tensor {
    return compute(scans.cumprod, this, axis);
  }

  /**
   * The largest element up to each one along an axis, and where it is, as int32: the last of equal
   * ones. From a NaN on all are NaN.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([1, 3, 2]).cummax(0);
   * assertEquals(await values.toArray(), [1, 3, 3]);
   * assertEquals(await indices.toArray(), [0, 1, 1]);
   * ```
   */
  cummax(axis: number): { values: Tensor; indices: Tensor } {
    return compute(scans.cumulativeExtreme, "max", this, axis);
  }

  /** The smallest element up to each one, and where it is, as {@linkcode Tensor.cummax}. */
  cummin(axis: number): { values: Tensor; indices: Tensor } {
    return compute(scans.cumulativeExtreme, "min", this, axis);
  }

  // ---- shape

  /**
   * The same elements in another shape; one axis may be -1 and is computed.
   *
   * @throws {ShapeError} When the elements do not fill it.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.arange(6).reshape([2, -1]);
   * assertEquals(await x.toArray(), [[0, 1, 2], [3, 4, 5]]);
   * ```
   */
  reshape(shape: Shape): Tensor {
    return computeDistinct(views.reshape, this, shape);
  }

  /**
   * The axes from `start` to `end`, both included, joined to one; a scalar becomes [1].
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.zeros([8, 3, 4]).flatten(1).shape, [8, 12]);
   * ```
   */
  flatten(start = 0, end = -1): Tensor {
    return computeDistinct(views.flatten, this, start, end);
  }

  /**
   * The axes in another order.
   *
   * @throws {ShapeError} When an axis is missing or named twice.
   *
   * @example Channels last
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.zeros([8, 3, 28, 20]).permute([0, 2, 3, 1]).shape, [8, 28, 20, 3]);
   * ```
   */
  permute(axes: readonly number[]): Tensor {
    return computeDistinct(views.permute, this, axes);
  }

  /**
   * Two axes exchanged; by default the last two.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.transpose().toArray(), [[1, 3], [2, 4]]);
   * ```
   */
  transpose(a = -2, b = -1): Tensor {
    return computeDistinct(views.transpose, this, a, b);
  }

  /**
   * Axes of size 1 repeated without copying; -1 keeps an axis, leading axes may be added.
   *
   * @throws {ShapeError} When another axis would change its size.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1], [2]]).expand([2, 3]);
   * assertEquals(await x.toArray(), [[1, 1, 1], [2, 2, 2]]);
   * ```
   */
  expand(shape: Shape): Tensor {
    return computeDistinct(views.expand, this, shape);
  }

  /**
   * Without its axes of size 1, or without one of them.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.zeros([1, 3, 1]).squeeze().shape, [3]);
   * ```
   */
  squeeze(axis?: number): Tensor {
    return computeDistinct(views.squeeze, this, axis);
  }

  /**
   * With a new axis of size 1 in front of axis `axis`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.zeros([3]).unsqueeze(0).shape, [1, 3]);
   * ```
   */
  unsqueeze(axis: number): Tensor {
    return computeDistinct(views.unsqueeze, this, axis);
  }

  /** The elements along axes in reverse order. */
  flip(axes: Axes): Tensor {
    if (arguments.length > 1) refuseAxes("flip", [...arguments]);
    return computeDistinct(slices.flip, this, axes);
  }

  /** The same value in a tensor of its own, in memory of its own; differentiable. */
  clone(): Tensor {
    return compute(views.clone, this);
  }

  /**
   * The same value, held in memory while a schedule runs: what reads it loads it instead of computing
   * it again.
   */
  contiguous(): Tensor {
    return compute(views.contiguous, this);
  }

  // ---- parts

  /**
   * Basic indexing, one entry an axis: a number picks (and drops the axis), [start, stop, step?]
   * slices, null keeps all. Negative positions count from the end, steps may be negative. Behind the
   * last axis there are axes of size 1.
   *
   * @throws {RangeError} When a picked position is out of range, or a step is 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const m = Tensor.arange(6).reshape([2, 3]);
   * assertEquals(await m.slice(null, [null, null, 2]).toArray(), [[0, 2], [3, 5]]);
   * assertEquals(await m.slice(-1).toArray(), [3, 4, 5]);
   * ```
   */
  slice(...ranges: SliceRange[]): Tensor {
    return computeDistinct(slices.slice, this, ranges);
  }

  /**
   * A copy of this tensor in which `value` (broadcast) stands in the part that `ranges` names.
   *
   * @param ranges As {@linkcode Tensor.slice} takes them.
   * @param value What to put there.
   */
  sliceAssign(ranges: readonly SliceRange[], value: Tensor | number): Tensor {
    return computeDistinct(slices.sliceAssign, this, ranges, value);
  }

  /**
   * Parts of `size` along an axis (the last may be shorter), or of the given sizes.
   *
   * @throws {ShapeError} When the sizes do not add up to the axis.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [a, b] = Tensor.arange(4).split(2);
   * assertEquals([await a!.toArray(), await b!.toArray()], [[0, 1], [2, 3]]);
   * ```
   */
  split(size: number | readonly number[], axis = 0): Tensor[] {
    return compute(joining.split, this, size, axis);
  }

  /**
   * At most `count` parts of equal size along an axis; the last may be shorter. As `torch.chunk`, it
   * gives fewer where the axis does not divide into as many.
   *
   * @throws {RangeError} When the count is not a whole number of at least 1.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [query, key, value] = Tensor.arange(6).chunk(3) as [Tensor, Tensor, Tensor];
   * assertEquals(await query.toArray(), [0, 1]);
   * assertEquals([key.shape, value.shape], [[2], [2]]);
   * ```
   */
  chunk(count: number, axis?: number): Tensor[] {
    return compute(joining.chunk, this, count, axis);
  }

  /**
   * The slices along an axis (default the first), each without it: rows of a matrix.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [x, y] = Tensor.fromHost([[1, 2], [3, 4]]).unbind(1) as [Tensor, Tensor];
   * assertEquals([await x.toArray(), await y.toArray()], [[1, 3], [2, 4]]);
   * ```
   */
  unbind(axis?: number): Tensor[] {
    return compute(joining.unbind, this, axis);
  }

  /**
   * `value` (default 0) put around the elements, [before, after] for each axis; negative widths cut
   * off.
   *
   * @throws {ShapeError} When there is not one pair an axis, or more is cut off than there is.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.ones([2]).pad([[1, 2]]).toArray(), [0, 1, 1, 0, 0]);
   * ```
   */
  pad(widths: readonly (readonly [number, number])[], value?: number): Tensor {
    return computeDistinct(slices.pad, this, widths, value);
  }

  /**
   * The last axes, mirrored at their first and last elements, which are not repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When a width reaches the length of its axis.
   */
  padReflect(widths: readonly (readonly [number, number])[]): Tensor {
    return computeDistinct(padReflect, this, widths);
  }

  /**
   * The last axes, with their first and last elements repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When an axis to be padded is empty.
   */
  padReplicate(widths: readonly (readonly [number, number])[]): Tensor {
    return computeDistinct(padReplicate, this, widths);
  }

  /** The elements along an axis moved by `shift`; what leaves at the end comes back at the front. */
  roll(shift: number, axis = 0): Tensor {
    return computeDistinct(joining.roll, this, shift, axis);
  }

  /**
   * The whole tensor repeated along each axis, as often as `times` says; more numbers than axes add
   * axes in front.
   */
  repeat(times: readonly number[]): Tensor {
    return computeDistinct(joining.repeat, this, times);
  }

  /** The diagonal of the last two axes, or of a vector the matrix that has it. */
  diagonal(): Tensor {
    return compute(triangles.diagonal, this);
  }

  /**
   * The lower triangle of the last two axes, zeros above the given diagonal.
   *
   * @example A causal mask
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const mask = Tensor.ones([2, 2], { dtype: "bool" }).tril();
   * assertEquals(await mask.toArray(), [[true, false], [true, true]]);
   * ```
   */
  tril(diagonal = 0): Tensor {
    return compute(triangles.tril, this, diagonal);
  }

  /** The upper triangle of the last two axes, zeros below the given diagonal. */
  triu(diagonal = 0): Tensor {
    return compute(triangles.triu, this, diagonal);
  }

  /**
   * Tensors one behind the other along an axis (default the first); their other axes are of equal
   * size, their types meet.
   *
   * @throws {ShapeError} When the shapes do not fit, or there are no tensors.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [a, b] = [Tensor.ones([2, 3]), Tensor.zeros([2, 1])];
   * assertEquals(Tensor.concat([a, b], 1).shape, [2, 4]);
   * assertEquals(Tensor.stack([a, a]).shape, [2, 2, 3]);
   * ```
   */
  static concat(tensors: Tensor[], axis?: number): Tensor {
    return functional.concat(tensors, axis);
  }

  /**
   * Tensors of one shape side by side along a new axis (default in front).
   *
   * @throws {ShapeError} When the shapes differ, or there are no tensors.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.ones([2]), b = Tensor.zeros([2]);
   * assertEquals(await Tensor.stack([a, b]).toArray(), [[1, 1], [0, 0]]);
   * ```
   */
  static stack(tensors: Tensor[], axis?: number): Tensor {
    return functional.stack(tensors, axis);
  }

  // ---- indexing

  /**
   * Rows (or columns, ...) in the order of `indices`, whose shape replaces the axis.
   *
   * @throws {DTypeError} When the indices are not integers.
   * @throws {RangeError} At the next read, when one is out of range.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.indexSelect(0, Tensor.fromHost(new Int32Array([1, 1]))).toArray(), [[3, 4], [3, 4]]);
   * ```
   */
  indexSelect(axis: number, indices: Tensor): Tensor {
    return compute(indexing.indexSelect, this, axis, indices);
  }

  /**
   * The rows of this table (count, features) that `indices` (...) name: (..., features).
   *
   * @throws {DTypeError} When the indices are not integers.
   * @throws {RangeError} At the next read, when one is out of range.
   */
  embedding(indices: Tensor): Tensor {
    return compute(indexing.indexSelect, this, 0, indices, "embedding");
  }

  /**
   * `out[i][j] = x[indices[i][j]][j]` for axis 0 of a matrix, and so on, as `torch.gather`: the
   * result has the shape of `indices`.
   *
   * @throws {RangeError} At the next read, when an index is out of range.
   *
   * @example The score of each row's label
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * const labels = Tensor.fromHost(new Int32Array([1, 0])).unsqueeze(1);
   * assertEquals(await x.gather(1, labels).toArray(), [[2], [3]]);
   * ```
   */
  gather(axis: number, indices: Tensor): Tensor {
    return compute(indexing.gather, this, axis, indices);
  }

  /** A copy with `source` stored at `indices` along an axis; of equal indices the last wins. */
  scatter(axis: number, indices: Tensor, source: Tensor): Tensor {
    return compute(indexing.scatterSet, this, axis, indices, source);
  }

  /**
   * A copy with `source` added at `indices` along an axis: for axis 0 of a matrix
   * `out[indices[i][j]][j] += source[i][j]`. Equal indices add up, in order, the same in every run.
   *
   * @throws {RangeError} At the next read, when an index is out of range.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const counts = Tensor.zeros([3]);
   * const ids = Tensor.fromHost(new Int32Array([0, 2, 2]));
   * assertEquals(await counts.scatterAdd(0, ids, Tensor.ones([3])).toArray(), [1, 0, 2]);
   * ```
   */
  scatterAdd(axis: number, indices: Tensor, source: Tensor): Tensor {
    return compute(indexing.scatterAdd, this, axis, indices, source);
  }

  /**
   * The elements at coordinates, NumPy's advanced indexing: one entry an axis, integer tensors that
   * broadcast together, null for all of an axis; negative ones count from the end. A bool tensor
   * stands for the coordinates of what is true in it, on as many axes as it has. The axes of the
   * indices replace the indexed ones, or come first where those do not lie side by side.
   *
   * @throws {ShapeError} When indices do not broadcast, or are more than the axes.
   * @throws {DTypeError} When an index is a float.
   * @throws {RangeError} At the next read, when an index is out of range.
   * @throws {Error} In `compile`, with a mask.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.arange(6).reshape([2, 3]);
   * const rows = Tensor.fromHost(Int32Array.of(0, 1)), columns = Tensor.fromHost(Int32Array.of(2, -3));
   * assertEquals(await x.index([rows, columns]).toArray(), [2, 3]);
   * assertEquals(await x.index([null, columns]).toArray(), [[2, 0], [5, 3]]);
   * assertEquals(await x.index([x.gt(3)]).toArray(), [4, 5]);
   * ```
   */
  index(indices: readonly Index[]): Tensor {
    return compute(selection.index, this, indices);
  }

  /**
   * A copy with `values`, which broadcast, where {@linkcode Tensor.index} would read. Of
   * equal indices the last value stays; with `accumulate` they add up, in order, to what is there.
   *
   * @throws {ShapeError} As `index`, and when the values do not broadcast.
   * @throws {RangeError} At the next read, when an index is out of range.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.zeros([2, 2]), at = Tensor.fromHost(Int32Array.of(1, 1));
   * assertEquals(await x.indexPut([at, at], 5).toArray(), [[0, 0], [0, 5]]);
   * const summed = x.indexPut([at, at], 5, { accumulate: true });
   * assertEquals(await summed.toArray(), [[0, 0], [0, 10]]);
   * ```
   */
  indexPut(
    indices: readonly Index[],
    values: Tensor | number,
    options?: IndexPutOptions,
  ): Tensor {
    return compute(selection.indexPut, this, indices, values, options);
  }

  /**
   * The elements where the mask is true, in row-major order, as a vector; both broadcast. Reads the
   * number of them.
   *
   * @throws {DTypeError} When the mask is not bool.
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, -2], [-3, 4]], { requiresGrad: true });
   * const positive = x.maskedSelect(x.gt(0));
   * assertEquals(await positive.toArray(), [1, 4]);
   * positive.sum().backward();
   * assertEquals(await x.grad!.toArray(), [[1, 0], [0, 1]]);
   * ```
   */
  maskedSelect(mask: Tensor): Tensor {
    return compute(selection.maskedSelect, this, mask);
  }

  /**
   * The coordinates of the elements that are not zero, in row-major order: (count, axes), int32. Reads
   * the number of them.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2).nonzero().toArray(), [[0, 0], [1, 1]]);
   * ```
   */
  nonzero(): Tensor {
    return compute(selection.nonzero, this);
  }

  /**
   * 1 where the class is, else 0, along a new last axis, as int32.
   *
   * @throws {RangeError} At the next read, when an element is not one of the classes.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const labels = Tensor.fromHost(new Int32Array([2, 0]));
   * assertEquals(await labels.oneHot(3).cast("float32").toArray(), [[0, 0, 1], [1, 0, 0]]);
   * ```
   */
  oneHot(classes: number): Tensor {
    return compute(indexing.oneHot, this, classes);
  }

  /**
   * Every element along an axis several times in a row; of the flattened tensor without an axis.
   *
   * @param repeats How often: a number, or an integer tensor with one for each element.
   * @param axis Along which axis.
   * @param options With `outputSize`, the sum of a tensor of repeats is not read.
   * @throws {Error} In `compile`, with a tensor of repeats and no `outputSize`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2]);
   * assertEquals(await x.repeatInterleave(2).toArray(), [1, 1, 2, 2]);
   * const times = Tensor.fromHost(Int32Array.of(0, 3));
   * assertEquals(await x.repeatInterleave(times, 0).toArray(), [2, 2, 2]);
   * ```
   */
  repeatInterleave(repeats: Tensor | number, axis?: number, options?: RepeatOptions): Tensor {
    return compute(selection.repeatInterleave, this, repeats, axis, options);
  }

  // ---- sorting and counting

  /**
   * The positions that sort an axis, as int32; stable, NaN last.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([3, 1, 2]).argsort().toArray(), [1, 2, 0]);
   * ```
   */
  argsort(axis?: number, descending?: boolean): Tensor {
    return compute(indexing.argsort, this, axis, descending);
  }

  /**
   * The elements of an axis (default the last) in order, and where they were, as int32; stable, NaN
   * last. Computes the order at once.
   */
  sort(axis?: number, descending?: boolean): { values: Tensor; indices: Tensor } {
    return compute(indexing.sort, this, axis, descending);
  }

  /**
   * The `k` largest (or smallest) elements of an axis (default the last) in order, and where they
   * were, as int32. Computes the order at once.
   *
   * @throws {RangeError} When the axis has fewer elements.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([3, 9, 1, 7]).topk(2);
   * assertEquals(await values.toArray(), [9, 7]);
   * assertEquals(await indices.toArray(), [1, 3]);
   * ```
   */
  topk(k: number, axis?: number, largest?: boolean): { values: Tensor; indices: Tensor } {
    return compute(indexing.topk, this, k, axis, largest);
  }

  /**
   * Where values would stand in this sorted sequence, as int32: the number of elements before them.
   * Of several sequences (..., n) each is searched for its own row of values (..., m).
   *
   * @param values A number, or a tensor: of any shape for a vector of elements.
   * @param options With `right`, behind equal elements.
   * @throws {ShapeError} When there is not one row of values for each sequence.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const sorted = Tensor.fromHost([1, 3, 3, 5]), values = Tensor.fromHost([0, 3, 9]);
   * assertEquals(await sorted.searchsorted(values).toArray(), [0, 1, 4]);
   * assertEquals(await sorted.searchsorted(values, { right: true }).toArray(), [0, 3, 4]);
   * ```
   */
  searchsorted(values: Tensor | number, options?: SearchOptions): Tensor {
    return compute(searchsorted, this, values, options);
  }

  /**
   * The distinct values in ascending order, where the elements' values stand among them (of the
   * tensor's shape), and how often each occurs. Reads the number of them. The gradient of a value goes
   * to its first element; each NaN is a value of its own.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, inverse, counts } = Tensor.fromHost([3, 1, 3]).unique();
   * assertEquals(await values.toArray(), [1, 3]);
   * assertEquals(await inverse.toArray(), [1, 0, 1]);
   * assertEquals(await counts.toArray(), [1, 2]);
   * ```
   */
  unique(): Unique {
    return compute(counting.unique, this);
  }

  /**
   * How often 0, 1, 2, ... occur in a vector of integers, as int32; or the sums of `weights`, in their
   * type. Reads the largest.
   *
   * @throws {DTypeError} When the elements are not integers.
   * @throws {RangeError} At the next read, when one is negative.
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const labels = Tensor.fromHost(Int32Array.of(2, 0, 2));
   * assertEquals(await labels.bincount({ minLength: 4 }).toArray(), [1, 0, 2, 0]);
   * ```
   */
  bincount(options?: BincountOptions): Tensor {
    return compute(counting.bincount, this, options);
  }

  /**
   * How many elements lie in each bin, as floats, and the edges of the bins, one more. A bin holds its
   * lower edge, the last one both. NaN, and what lies outside, counts for nothing. Gradients go to the
   * weights alone.
   *
   * @param bins How many bins of equal width, or a vector of their edges, ascending.
   * @param options SliceRange of bins of equal width, weights, density.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { counts, edges } = Tensor.fromHost([0, 1, 1, 2, 4]).histogram(2);
   * assertEquals(await counts.toArray(), [3, 2]);
   * assertEquals(await edges.toArray(), [0, 2, 4]);
   * ```
   */
  histogram(
    bins: number | Tensor,
    options?: HistogramOptions,
  ): { counts: Tensor; edges: Tensor } {
    return compute(counting.histogram, this, bins, options);
  }

  // ---- products

  /**
   * The matrix product: (..., m, k) by (..., k, n) gives (..., m, n); leading axes broadcast, vectors
   * are rows on the left and columns on the right.
   *
   * @throws {ShapeError} When the inner sizes differ.
   * @throws {DTypeError} When one is a float and the other an integer.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2], [3, 4]]);
   * assertEquals(await x.matmul(Tensor.eye(2)).toArray(), [[1, 2], [3, 4]]);
   * assertEquals(Tensor.zeros([8, 2, 3]).matmul(Tensor.zeros([3, 5])).shape, [8, 2, 5]);
   * ```
   */
  matmul(b: Tensor): Tensor {
    return compute(contractions.matmul, this, b);
  }

  /**
   * The products of matrices one by one: (b, m, k) by (b, k, n) gives (b, m, n). Nothing broadcasts:
   * `matmul` does that.
   *
   * @throws {ShapeError} When one has not three axes, or the sizes differ.
   * @throws {DTypeError} When one is a float and the other an integer.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.fromHost([[[1, 2]], [[3, 4]]]), b = Tensor.ones([2, 2, 3]);
   * assertEquals(await a.bmm(b).toArray(), [[[3, 3, 3]], [[7, 7, 7]]]);
   * ```
   */
  bmm(b: Tensor): Tensor {
    return compute(contractions.bmm, this, b);
  }

  /**
   * The outer product of vectors (m) and (n), every element by every element: (m, n). Types meet as
   * in `mul`.
   *
   * @throws {ShapeError} When one is no vector.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const table = Tensor.fromHost([1, 2]).outer(Tensor.fromHost([1, 10]));
   * assertEquals(await table.toArray(), [[1, 10], [2, 20]]);
   * ```
   */
  outer(b: Tensor): Tensor {
    return compute(contractions.outer, this, b);
  }

  // ---- images

  /**
   * {@linkcode Tensor.conv2d} along one axis: sequences (N, C, L) with (O, C / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv1d(weight: Tensor, options?: ConvOptions): Tensor {
    return compute(conv, 1, this, weight, options);
  }

  /**
   * 2-D convolution (cross-correlation, as everywhere in deep learning) of images (N, C, H, W) with
   * `weight` (O, C / groups, KH, KW): (N, O, OH, OW) with
   * `OH = floor((H + 2 * padding - dilation * (KH - 1) - 1) / stride) + 1`.
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const images = Tensor.zeros([8, 3, 28, 28]), kernel = Tensor.zeros([16, 3, 3, 3]);
   * assertEquals(images.conv2d(kernel, { padding: 1 }).shape, [8, 16, 28, 28]);
   * ```
   */
  conv2d(weight: Tensor, options?: Conv2dOptions): Tensor {
    return compute(conv, 2, this, weight, options);
  }

  /**
   * {@linkcode Tensor.conv2d} along three axes: volumes (N, C, D, H, W) with
   * (O, C / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv3d(weight: Tensor, options?: ConvOptions): Tensor {
    return compute(conv, 3, this, weight, options);
  }

  /**
   * {@linkcode Tensor.convTranspose2d} along one axis: (N, C, L) with (C, O / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose1d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convTranspose, 1, this, weight, options);
  }

  /**
   * The transposed convolution of images (N, C, H, W) with `weight` (C, O / groups, KH, KW), the
   * gradient of {@linkcode Tensor.conv2d} by its image: (N, O, OH, OW) with
   * `OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + outputPadding + 1`.
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose2d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convTranspose, 2, this, weight, options);
  }

  /**
   * {@linkcode Tensor.convTranspose2d} along three axes: (N, C, D, H, W) with
   * (C, O / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose3d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convTranspose, 3, this, weight, options);
  }

  /**
   * The largest element of each window of images (N, C, H, W): (N, C, OH, OW) with
   * `OH = floor((H + 2 * padding - kernel) / stride) + 1`.
   *
   * @throws {ShapeError} When a window is larger than the image, or may hold padding only.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.arange(16).reshape([1, 1, 4, 4]);
   * assertEquals(await x.maxPool2d(2).toArray(), [[[[5, 7], [13, 15]]]]);
   * ```
   */
  maxPool2d(kernel: Axes, options?: PoolOptions): Tensor {
    return compute(pooling.maxPool2d, this, kernel, options);
  }

  /**
   * The mean of each window of images (N, C, H, W); padding counts as zeros, unless
   * `countIncludePad` is false. Shapes as of {@linkcode Tensor.maxPool2d}.
   */
  avgPool2d(kernel: Axes, options?: PoolOptions): Tensor {
    return compute(pooling.avgPool2d, this, kernel, options);
  }

  /** The largest element of regions that divide images (N, C, H, W) into the given parts. */
  adaptiveMaxPool2d(size: Axes): Tensor {
    return compute(pooling.adaptiveMaxPool2d, this, size);
  }

  /** Images (N, C, H, W) averaged to the given size, (N, C, height, width). */
  adaptiveAvgPool2d(size: Axes): Tensor {
    return compute(pooling.adaptiveAvgPool2d, this, size);
  }

  /**
   * Images (N, C, H, W) in another size; "nearest" also takes (N, C, L) and (N, C, D, H, W).
   *
   * @param options `size`, or `scaleFactor`; `mode` "nearest" (default) or "bilinear".
   * @throws {ShapeError} When the axes do not fit the mode, or the size is empty.
   * @throws {TypeError} Unless one of `size` and `scaleFactor` is given.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const row = Tensor.fromHost([[[[0, 4]]]]);
   * const wide = row.interpolate({ size: [1, 4], mode: "bilinear" });
   * assertEquals(await wide.toArray(), [[[[0, 1, 3, 4]]]]);
   * ```
   */
  interpolate(options: InterpolateOptions): Tensor {
    return computeDistinct(interpolate, this, options);
  }

  /**
   * Channels become pixels: (..., C * factor ** 2, H, W) gives (..., C, H * factor, W * factor)
   * (W. Shi et al., Real-Time Single Image and Video Super-Resolution, 2016).
   *
   * @throws {ShapeError} When the channels do not divide by the square of the factor.
   */
  pixelShuffle(factor: number): Tensor {
    return computeDistinct(pixelShuffle, this, factor);
  }

  /**
   * The inverse of {@linkcode Tensor.pixelShuffle}: (..., C, H * factor, W * factor) gives
   * (..., C * factor ** 2, H, W).
   *
   * @throws {ShapeError} When height or width do not divide by the factor.
   */
  pixelUnshuffle(factor: number): Tensor {
    return computeDistinct(pixelUnshuffle, this, factor);
  }

  // ---- losses

  /**
   * The loss of a classifier, `-log(softmax(logits)[label])`, averaged over samples: logits (N, C)
   * with integer labels (N), or (N, C, d1, ...) with (N, d1, ...). Samples labelled `ignoreIndex`
   * count for nothing; there is no such label by default. Floating labels of the logits' shape are
   * probabilities: `-sum(probability * log(softmax(logits)))`.
   *
   * @param labels The class of each sample, or the probabilities of its classes.
   * @param options Weights of the classes, label smoothing, a label to ignore, another reduction than
   * the mean.
   * @throws {ShapeError} When the labels do not have the shape of the logits without their axis 1, or
   * the weight not one number for each class.
   * @throws {DTypeError} When the logits are integers.
   * @throws {RangeError} At the next read, when a label is not a class.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const logits = Tensor.zeros([2, 4]), labels = Tensor.fromHost(new Int32Array([0, 3]));
   * const loss = await logits.crossEntropy(labels).item();
   * assert(Math.abs(loss - Math.log(4)) < 1e-6);
   * ```
   */
  crossEntropy(labels: Tensor, options?: CrossEntropyOptions): Tensor {
    return compute(crossEntropy, this, labels, options);
  }
}

function requireState(state: object): TensorState {
  if (state instanceof TensorState) return state;
  throw new TypeError(
    `Cannot construct a tensor of ${
      shown(state)
    }: write Tensor.fromHost(data), or one of the other ` +
      `static methods of Tensor such as zeros, full, arange`,
  );
}

function refuseAxes(op: string, axes: unknown[]): never {
  throw new TypeError(`Cannot ${op} by ${shown(axes)}: pass several axes as an array`);
}
