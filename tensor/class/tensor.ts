/**
 * The page that users read: every method of tensors with its documentation, by category, and no logic.
 * Each is one call of a function of `ops/`, `execution/` or `autograd/`. The file is long because the
 * documentation of all methods is one page: interfaces merged with the class from other files would be
 * module augmentation, which the registry refuses, and parts mixed in would be pages of their own, on which
 * nobody looks for `add`.
 *
 * This folder (`class/`) has the class alone. It imports the folders whose functions its methods are, which
 * know it as a type only, and `core/`. What makes tensors of nothing (`nn`, `optim`, `data`, `io`) imports
 * the class.
 */
import type {
  BackendName,
  BlockFormatName,
  DeviceHandle,
  DType,
  Shape,
  TypedArray,
} from "../../backend/internal.ts";
import type { Buffer, CommandQueue, Context } from "../../ffi/mod.ts";
import type { BufferHandle } from "../../memory/mod.ts";
import { addGradientHook } from "../autograd/gradient_hooks.ts";
import type {
  ArangeOptions,
  Axes,
  BackwardOptions,
  BincountOptions,
  CloseOptions,
  CovarianceOptions,
  CrossEntropyOptions,
  DiffOptions,
  DistanceOptions,
  ExponentialOptions,
  GradientHook,
  HistogramOptions,
  HookHandle,
  HostArrayOf,
  HostData,
  Index,
  IndexAddOptions,
  IndexPutOptions,
  MeshOptions,
  MultinomialOptions,
  NanToNumOptions,
  NestedArray,
  PrintOptions,
  QuantileOptions,
  ReduceOptions,
  RepeatOptions,
  ScatterReduceOptions,
  SearchOptions,
  Sizes,
  SliceRange,
  SortOptions,
  TensorLike,
  TensorOptions,
  Tensors,
  TensorsOf,
  TopkOptions,
  TrapezoidOptions,
  Unique,
  VarianceOptions,
} from "../core/arguments.ts";
import { tellGradient } from "../core/calls.ts";
import type {
  Conv2dOptions,
  ConvOptions,
  ConvTransposeOptions,
  InterpolateOptions,
  PoolOptions,
} from "../core/image_options.ts";
import { provideTensors } from "../core/internals.ts";
import { makeLeaf } from "../core/repeated_leaves.ts";
import { act, compute, observedCall } from "../core/operations.ts";
import { phraseOf, shown } from "../core/rules/options.ts";
import { TensorState } from "../core/tensor_state.ts";
import * as assignment from "../execution/assignment.ts";
import { arrived, goBackward } from "../execution/realization.ts";
import { explain } from "../execution/explain.ts";
import { exportBlock } from "../execution/native_access.ts";
import * as printing from "../execution/printing.ts";
import * as reading from "../execution/reading.ts";
import * as blocks from "../ops/blocks.ts";
import * as contractions from "../ops/contractions.ts";
import * as hostData from "../ops/creation/host_data.ts";
import * as random from "../ops/creation/random.ts";
import * as samplers from "../ops/creation/samplers.ts";
import * as sequences from "../ops/creation/sequences.ts";
import * as activations from "../ops/elementwise/activations.ts";
import * as arithmetic from "../ops/elementwise/arithmetic.ts";
import * as bits from "../ops/elementwise/bits.ts";
import * as comparisons from "../ops/elementwise/comparisons.ts";
import {
  binaries,
  cast,
  logicalNot,
  maskedFill,
  select,
  unaries,
} from "../ops/elementwise/elementwise.ts";
import * as special from "../ops/elementwise/special.ts";
import * as convolution from "../ops/images/convolution.ts";
import * as padding from "../ops/images/edge_padding.ts";
import * as shuffling from "../ops/images/pixel_shuffle.ts";
import * as pooling from "../ops/images/pooling.ts";
import * as resampling from "../ops/images/resampling.ts";
import * as counting from "../ops/indexing/counting.ts";
import * as indexing from "../ops/indexing/indexing.ts";
import { scatterReduce } from "../ops/indexing/scatter_reduce.ts";
import * as searching from "../ops/indexing/searching.ts";
import * as selection from "../ops/indexing/selection.ts";
import * as losses from "../ops/losses.ts";
import * as reductions from "../ops/reductions.ts";
import * as scans from "../ops/scans.ts";
import * as windows from "../ops/shaping/im2col.ts";
import * as joining from "../ops/shaping/joining.ts";
import * as slices from "../ops/shaping/slices.ts";
import * as triangles from "../ops/shaping/triangles.ts";
import * as views from "../ops/shaping/views.ts";
import * as counts from "../ops/special/counts.ts";
import * as distances from "../ops/distances.ts";
import * as statistics from "../ops/statistics.ts";
import { to } from "../ops/transfer.ts";

/**
 * An n-dimensional array of numbers on a device. Tensors are lazy: an operation says what to compute,
 * and nothing runs until a value is read (`toHost`, `item`), kept (`realize`) or stepped on by an
 * optimizer; then everything needed is fused into few kernels. Values never change; `assign` gives a
 * tensor another value.
 *
 * Operands broadcast by NumPy's rules, and meet in the type that PyTorch would choose: float32 and
 * int32 in float32, int32 and 0.5 in float32, uint8 and 2 in uint8; integers divide in float32. Axes
 * count from the front, or with negative numbers from the back. What does not fit throws at the call
 * ({@linkcode ShapeError}, {@linkcode DTypeError}, {@linkcode DeviceError}, with the operation, shapes,
 * types and devices as fields); an index out of range throws at the next read.
 *
 * Memory is given back by `dispose()`, by `using`, or, late and counted, by the garbage collector.
 *
 * What there is, by what it is for:
 *
 * - **Creation**, from the host, from numbers: `Tensor.fromHost`, `Tensor.fromBuffer`,
 *   `Tensor.fromBlocks`, `Tensor.zeros`, `Tensor.ones`, `Tensor.full`, `Tensor.arange`, `Tensor.linspace`, `Tensor.eye`, `Tensor.meshgrid`,
 *   `fullLike`, `zerosLike`, `onesLike`, `indexLike`
 * - **Random numbers**, the same bits on every device, by {@linkcode manualSeed}: `Tensor.rand`,
 *   `Tensor.randn`, `Tensor.randint`, `Tensor.randperm`, `Tensor.normal`, `Tensor.exponential`,
 *   `Tensor.gamma`, `Tensor.beta`, `Tensor.dirichlet`, `Tensor.logNormal`, `Tensor.laplace`,
 *   `Tensor.cauchy`, `Tensor.gumbel`, `Tensor.poisson`, `Tensor.binomial`, `Tensor.studentT`,
 *   `Tensor.truncatedNormal`, `Tensor.permutation`,
 *   `randLike`, `randnLike`, `bernoulli`, `multinomial`
 * - **Properties**: `shape`, `dtype`, `size`, `ndim`, `device`, `backend`, `disposed`, `isRealized`
 * - **Reading**, computes what is read: `toHost`, `toHostSync`, `toFloat32`, `item`, `itemSync`, `toArray`,
 *   `toNumbers`, `isClose`, `allClose`, `equal`, `print`, `explain`, `toString`, `toJSON`
 * - **Lifetime**, when a value is computed, replaced, given back: `realize`, `assign`, `dispose`
 * - **Devices**, other devices, and the OpenCL objects behind a tensor: `to`, `buffer`, `poolHandle`,
 *   `queue`, `context`
 * - **Gradients**: `requiresGrad`, `isLeaf`, `grad`, `backward`, `registerHook`, `detach`
 * - **Arithmetic**, element by element, of two tensors or a tensor and a number: `add`, `sub`, `mul`,
 *   `div`, `pow`, `remainder`, `floorDivide`, `maximum`, `minimum`, `clamp`, `lerp`, `neg`, `abs`,
 *   `sign`, `square`, `reciprocal`, `frac`, `gcd`, `lcm`, `Tensor.sub`, `Tensor.div`, `Tensor.pow`,
 *   `Tensor.remainder`, `Tensor.floorDivide`
 * - **Functions**, of each element: `exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `sqrt`,
 *   `rsqrt`, `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `atan2`, `Tensor.atan2`, `sinh`, `cosh`,
 *   `tanh`, `asinh`, `acosh`, `atanh`, `erf`, `erfc`, `floor`, `ceil`, `round`, `trunc`, `cast`
 * - **Special functions**: `lgamma`, `digamma`, `polygamma`, `erfinv`, `sinc`, `xlogy`, `logaddexp`,
 *   `hypot`
 * - **Tests and choices**, truth values, and what is picked by them: `eq`, `ne`, `lt`, `le`, `gt`,
 *   `ge`, `isNaN`, `isInf`, `isFinite`, `logicalNot`, `logicalAnd`, `logicalOr`, `logicalXor`, `where`,
 *   `maskedFill`, `Tensor.where`
 * - **Bits**, of integers, two's complement, and of truth values; none has a gradient: `bitwiseAnd`,
 *   `bitwiseOr`, `bitwiseXor`, `bitwiseNot`, `bitwiseLeftShift`, `bitwiseRightShift`
 * - **Blocks of few bits**, weights that are decoded where they are read: `decodeBlocks`
 * - **Activations**: `relu`, `leakyRelu`, `prelu`, `elu`, `gelu`, `silu`, `sigmoid`, `logSigmoid`,
 *   `hardsigmoid`, `hardswish`, `mish`, `softplus`
 * - **Reductions**, over one axis, several, or (by default) all; reduced axes go, unless `keepDims`:
 *   `sum`, `mean`, `prod`, `max`, `min`, `argmax`, `argmin`, `maxWithIndices`, `minWithIndices`, `any`,
 *   `all`, `variance`, `std`, `norm`, `logSumExp`, `softmax`, `logSoftmax`
 * - **Statistics**: `mode`, `median`, `nanmedian`, `quantile`, `nanquantile`, `nansum`, `nanmean`, `nanToNum`, `cov`,
 *   `corrcoef`, `diff`, `trapezoid`
 * - **Scans**, running results along an axis: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`
 * - **Shape**, views, which cost nothing by themselves and fuse into what reads them; axes may be
 *   negative: `reshape`, `flatten`, `permute`, `transpose`, `T`, `mT`, `unfold`, `expand`, `squeeze`,
 *   `unsqueeze`, `flip`, `clone`, `contiguous`
 * - **Parts**, slices, padding, and tensors joined: `slice`, `sliceAssign`, `split`, `chunk`, `unbind`,
 *   `pad`, `padReflect`, `padReplicate`, `roll`, `repeat`, `diagonal`, `tril`, `triu`, `Tensor.concat`,
 *   `Tensor.stack`
 * - **Indexing**, by tensors of positions or truth values; where the size of a result depends on
 *   values, one number is read on the way, which is refused in `compile`: `nonzero`, `unique` and
 *   `maskedSelectAsync` give promises, the others block the event loop meanwhile:
 *   `indexSelect`, `embedding`, `gather`, `scatter`, `scatterAdd`, `scatterReduce`, `indexAdd`, `index`, `indexPut`, `maskedSelect`,
 *   `maskedSelectAsync`, `nonzero`, `nonzeroSync`, `oneHot`, `repeatInterleave`
 * - **Sorting and counting**: `argsort`, `sort`, `topk`, `searchsorted`, `unique`, `uniqueSync`, `bincount`,
 *   `histogram`
 * - **Products**: `matmul`, `dot`, `bmm`, `outer`, `cdist`, `pdist`
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
  /** State that netcl keeps for it: see `core/tensor_state.ts`. */
  #state: TensorState;

  static {
    provideTensors({
      stateOf: (tensor) => tensor.#state,
      setState: (tensor, state) => void (tensor.#state = state),
      tensorOf: (state) => new Tensor(state),
      isTensor: (value): value is Tensor =>
        typeof value === "object" && value !== null && #state in value,
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
    return arrived(makeLeaf(hostData.fromHost, [data, options]));
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
    return makeLeaf(hostData.fromBuffer, [buffer, options]);
  }

  /**
   * The weights of a file that stores them in blocks of few bits, such as GGUF: uint8 with the bytes of all
   * blocks, each field's of all of them side by side, as kernels read them. {@linkcode decodeBlocks} gives
   * the numbers that they stand for.
   *
   * @param bytes Whole blocks in the order of the file.
   * @param format `"Q8_0"`, `"Q4_0"`, `"Q4_K"` and so on as files name them; `"int8"`, `"float8_e4m3"` and
   *   `"float8_e5m2"` for weights of one byte, whose scales are tensors of their own.
   * @param options Where; `persistent` for the pool of weights.
   * @throws {ShapeError} When the bytes are no whole blocks.
   */
  static fromBlocks(
    bytes: Uint8Array,
    format: BlockFormatName,
    options?: Pick<TensorOptions, "device" | "backend" | "persistent">,
  ): Tensor {
    return makeLeaf(blocks.fromBlocks, [bytes, format, options]);
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
    return compute(sequences.full, "make", shape, 0, options);
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
    return compute(sequences.full, "make", shape, 1, options);
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
    return compute(sequences.full, "fill", shape, value, options);
  }

  /**
   * `start, start + step, ...` before `stop`; with one number, 0 to before it. Whole numbers give int32
   * (int64 where that is too small), others float32, unless the options say otherwise: they may come after
   * one number or two, the step, 1 by default, among them.
   *
   * @throws {RangeError} When a bound is not finite, or the step is 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.arange(4).toArray(), [0, 1, 2, 3]);
   * assertEquals(await Tensor.arange(5, 0, { step: -2 }).toArray(), [5, 3, 1]);
   * assertEquals(await Tensor.arange(2, { dtype: "float32" }).div(4).toArray(), [0, 0.25]);
   * ```
   */
  static arange(stop: number, options?: ArangeOptions): Tensor;
  /** The same, from a number that is not 0. */
  static arange(start: number, stop: number, options?: ArangeOptions): Tensor;
  /** The same, with the step in its place. */
  static arange(start: number, stop?: number, step?: number, options?: TensorOptions): Tensor;
  static arange(
    start: number,
    stop?: number | ArangeOptions,
    step?: number | ArangeOptions,
    options?: TensorOptions,
  ): Tensor {
    return compute(sequences.arange, start, stop, step, options);
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
    return compute(sequences.linspace, start, stop, count, options);
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
    return compute(sequences.eye, n, options);
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
   * const [y, x] = Tensor.meshgrid([Tensor.arange(2), Tensor.arange(3)]);
   * assertEquals(await y.toArray(), [[0, 0, 0], [1, 1, 1]]);
   * assertEquals(await x.toArray(), [[0, 1, 2], [0, 1, 2]]);
   * ```
   */
  static meshgrid<const T extends readonly Tensor[]>(
    tensors: T,
    options?: MeshOptions,
  ): TensorsOf<T> {
    return compute(joining.meshgrid, tensors, options) as TensorsOf<T>;
  }

  /** A tensor of the same device and type full of `value`; of the same shape unless one is given. */
  fullLike(value: number, shape?: Shape): Tensor {
    return compute(sequences.fullLike, this, value, shape);
  }

  /** Zeros of the same shape, device and type. */
  zerosLike(shape?: Shape): Tensor {
    return compute(sequences.zerosLike, this, shape);
  }

  /** Ones of the same shape, device and type. */
  onesLike(shape?: Shape): Tensor {
    return compute(sequences.onesLike, this, shape);
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
    return compute(random.rand, shape, options);
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
    return compute(random.randn, shape, options);
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
    return compute(random.integers, low, high, shape, options);
  }

  /** A random order of 0 to `n - 1`, as int32. */
  static randperm(n: number, options?: TensorOptions): Tensor {
    return compute(random.randperm, n, options);
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
    return compute(random.normal, mean, std, shape, options);
  }

  /**
   * Exponential random numbers: times between events that come at a rate.
   *
   * @param shape The shape.
   * @param options The rate, 1 by default; type, device.
   * @throws {RangeError} When the rate is not positive.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * assert(Math.abs(await Tensor.exponential([10_000], { rate: 4 }).mean().item() - 0.25) < 0.02);
   * ```
   */
  static exponential(shape: Shape, options?: ExponentialOptions): Tensor {
    return compute(samplers.exponential, shape, options);
  }

  /**
   * Random numbers of gamma distributions of scale 1, which have the mean `alpha`. They have no gradient.
   *
   * @param alpha The shape parameter of the distribution, or those of several: positive.
   * @param shape The shape of the result; that of `alpha` by default, which broadcasts to it.
   * @param options Type, device.
   * @throws {RangeError} When a number is not positive; a tensor that is not gives NaN.
   * @throws {ShapeError} When the tensor does not broadcast to the shape.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * assert(Math.abs(await Tensor.gamma(3, [10_000]).mean().item() - 3) < 0.1);
   * ```
   */
  static gamma(alpha: TensorLike, shape?: Shape, options?: TensorOptions): Tensor {
    return compute(samplers.gamma, alpha, shape, options);
  }

  /**
   * Random numbers of beta distributions, which have the mean `a / (a + b)`. They have no gradient.
   *
   * @throws {RangeError} When a number is not positive.
   * @throws {ShapeError} When the tensors do not broadcast to the shape.
   */
  static beta(a: TensorLike, b: TensorLike, shape?: Shape, options?: TensorOptions): Tensor {
    return compute(samplers.beta, a, b, shape, options);
  }

  /**
   * Random shares that sum to 1 along the last axis, of Dirichlet distributions. They have no gradient.
   *
   * @param alpha How much each share weighs: positive.
   * @param shape The shape of the result; that of `alpha` by default, which broadcasts to it.
   * @param options Type, device.
   * @throws {ShapeError} When `alpha` does not broadcast to the shape.
   */
  static dirichlet(alpha: Tensor, shape?: Shape, options?: TensorOptions): Tensor {
    return compute(samplers.dirichlet, alpha, shape, options);
  }

  /**
   * Random numbers whose logarithms are normal, of this mean and deviation.
   *
   * @throws {RangeError} When the deviation is negative.
   */
  static logNormal(mean: number, std: number, shape: Shape, options?: TensorOptions): Tensor {
    return compute(samplers.logNormal, mean, std, shape, options);
  }

  /**
   * Random numbers of Laplace's distribution: exponential on both sides of the location.
   *
   * @throws {RangeError} When the scale is not positive.
   * @throws {DTypeError} When the type is no floating point type.
   */
  static laplace(
    location: number,
    scale: number,
    shape: Shape,
    options?: TensorOptions,
  ): Tensor {
    return compute(samplers.laplace, location, scale, shape, options);
  }

  /**
   * Random numbers of Cauchy's distribution, which has no mean: half of them are within the scale.
   *
   * @throws {RangeError} When the scale is not positive.
   * @throws {DTypeError} When the type is no floating point type.
   */
  static cauchy(
    location: number,
    scale: number,
    shape: Shape,
    options?: TensorOptions,
  ): Tensor {
    return compute(samplers.cauchy, location, scale, shape, options);
  }

  /**
   * Random numbers of Gumbel's distribution, that of the largest of many.
   *
   * @throws {RangeError} When the scale is not positive.
   * @throws {DTypeError} When the type is no floating point type.
   */
  static gumbel(
    location: number,
    scale: number,
    shape: Shape,
    options?: TensorOptions,
  ): Tensor {
    return compute(samplers.gumbel, location, scale, shape, options);
  }

  /**
   * Random numbers of events of which so many are expected: Poisson's distribution.
   *
   * @param rate The mean, or one for each number; NaN where it is negative.
   * @param shape The shape; by default that of the rates.
   * @throws {RangeError} When a rate that is a number is negative.
   */
  static poisson(rate: TensorLike, shape?: Shape, options?: TensorOptions): Tensor {
    return compute(counts.poisson, rate, shape, options);
  }

  /**
   * Random numbers of successes of `count` trials.
   *
   * @param count How many trials, or a number for each.
   * @param probability Of a success, from 0 to 1, or one for each; NaN where it is none.
   * @param shape The shape; by default that of the parameters.
   * @throws {RangeError} When a parameter that is a number is out of range.
   */
  static binomial(
    count: TensorLike,
    probability: TensorLike,
    shape?: Shape,
    options?: TensorOptions,
  ): Tensor {
    return compute(counts.binomial, count, probability, shape, options);
  }

  /**
   * Random numbers of Student's distribution, with more far from 0 than normal ones.
   *
   * @param freedom Degrees of freedom, above 0, or one for each number.
   * @param shape The shape; by default that of the degrees.
   * @throws {RangeError} When a number of degrees is not positive.
   */
  static studentT(freedom: TensorLike, shape?: Shape, options?: TensorOptions): Tensor {
    return compute(counts.studentT, freedom, shape, options);
  }

  /**
   * Standard normal random numbers between two ends.
   *
   * @throws {RangeError} When `high` is not above `low`.
   */
  static truncatedNormal(
    low: number,
    high: number,
    shape: Shape,
    options?: TensorOptions,
  ): Tensor {
    return compute(counts.truncatedNormal, low, high, shape, options);
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
  static permutation(x: TensorLike, axis?: number): Tensor {
    return compute(random.permutation, x, axis);
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
    this.#state.markCarried();
    return this.#state.node.shape;
  }

  /** The element type. */
  get dtype(): DType {
    return this.#state.node.dtype;
  }

  /** The number of elements. */
  get size(): number {
    this.#state.markCarried();
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
   * Float16Array, Float64Array, Int32Array, Int16Array, Int8Array, Uint32Array, BigInt64Array for int64,
   * Uint8Array for uint8 and bool. What was read is kept: reading it again, or a view of it, computes nothing.
   *
   * @param into The type that the tensor has: then the array has that type for TypeScript, too. Or an
   * array of that kind to read into instead: a new one costs more than the transfer when it is large.
   * @throws {DTypeError} When the tensor has another type than the one that is named.
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
   * const values = await Tensor.fromHost([1, 2]).mul(3).toHost("float32");
   * assertEquals(values, new Float32Array([3, 6]));
   * ```
   */
  toHost<D extends DType>(dtype: D): Promise<HostArrayOf<D>>;
  /** The same, into an array of the caller's. */
  toHost<A extends TypedArray>(into: A): Promise<A>;
  /** The same, in a new array of the tensor's type. */
  toHost(into?: TypedArray | DType): Promise<TypedArray>;
  toHost(into?: TypedArray | DType): Promise<TypedArray> {
    return act("read", reading.toHost, this, into);
  }

  /** The elements as {@linkcode Tensor.toHost} gives them, blocking the event loop. */
  toHostSync<D extends DType>(dtype: D): HostArrayOf<D>;
  /** The same, into an array of the caller's. */
  toHostSync<A extends TypedArray>(into: A): A;
  /** The same, in a new array. */
  toHostSync(into?: TypedArray | DType): TypedArray;
  toHostSync(into?: TypedArray | DType): TypedArray {
    return act("read", reading.toHostSync, this, into);
  }

  /**
   * The elements, row-major, as float32 numbers: converted where the tensor has another type, int64 and
   * float64 rounded. Throws as {@linkcode Tensor.toHost} does.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const counts = await Tensor.fromHost([3, 1, 2], { dtype: "int64" }).toFloat32();
   * assertEquals(counts.map((n) => n / 2), new Float32Array([1.5, 0.5, 1]));
   * ```
   */
  toFloat32(): Promise<Float32Array<ArrayBuffer>> {
    return act("read", reading.toFloat32, this);
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

  /** The one element as {@linkcode Tensor.item} gives it, blocking the event loop. */
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
  isClose(b: Tensor, options?: CloseOptions): Tensor {
    return compute(comparisons.isClose, this, b, options);
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
  print(options?: PrintOptions): Promise<string> {
    return act("read", printing.print, this, options);
  }

  /**
   * Plan of its computation now: the kernels with what they read, write and run, as text.
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
    return printing.describe(this);
  }

  /** Text for `JSON.stringify`, without the elements: those are in `await tensor.toArray()`. */
  toJSON(): string {
    return printing.describe(this);
  }

  /**
   * Text where a string is wanted; a number never: JavaScript's operators do not reach tensors.
   *
   * @throws {TypeError} In arithmetic and comparisons.
   */
  [Symbol.toPrimitive](hint: string): string {
    return printing.toPrimitive(this, hint);
  }

  /** Text for `console.log`: values that the host has; it computes and waits for nothing. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return printing.inspect(this);
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
   * This tensor on another device, or in another element type, as {@linkcode Tensor.cast} makes it. A
   * value that has not changed is copied once, however often it is moved.
   *
   * @param target A selection string, a handle or an element type.
   * @returns This tensor itself where it is there already.
   * @throws {RangeError} When it is neither a type nor a device.
   */
  to(target: string | DeviceHandle): Tensor {
    return to(this, target);
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
    return exportBlock("buffer", this).buffer;
  }

  /**
   * The pool's handle of the value, under the conditions of {@linkcode Tensor.buffer}; the tensor
   * releases it.
   *
   * @throws {TypeError} On the built-in backend.
   */
  get poolHandle(): BufferHandle {
    return exportBlock("pool's handle", this);
  }

  /**
   * The queue that computes it, null on the built-in backend. Reading it enqueues what the value is
   * computed by: what is enqueued there next comes after it.
   */
  get queue(): CommandQueue | null {
    if (this.backend === "cl") exportBlock("queue", this);
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
   * True when `backward` adds up a gradient in `grad`; may be set on leaves.
   *
   * @throws {TypeError} On a tensor that was computed from others (detach it first), or one that
   * does not hold floating point numbers.
   */
  set requiresGrad(value: boolean) {
    act("set", assignment.setRequiresGrad, this, value);
  }

  /**
   * True when no operation is recorded of which it is the result: `requiresGrad` may be set, and
   * `backward` adds up its `grad` where it is. What is computed of tensors that require no gradient,
   * or within `noGrad`, is a leaf, too.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const w = Tensor.fromHost([1, 2], { requiresGrad: true });
   * assertEquals([w.isLeaf, w.mul(2).isLeaf, w.mul(2).detach().isLeaf], [true, false, true]);
   * ```
   */
  get isLeaf(): boolean {
    return this.#state.gradFn === null;
  }

  /**
   * The gradient that `backward` has added up, null before. What is got here stays what it is, whatever
   * takes its place: another `backward`, `zeroGrad`, clipping.
   */
  get grad(): Tensor | null {
    const { grad } = this.#state;
    tellGradient(this, grad);
    if (grad !== null) grad.#state.isShared = true;
    return grad;
  }

  /**
   * Replaces the gradient; the former one is the caller's to dispose of.
   *
   * @throws {TypeError} When it is neither a tensor on this device nor null.
   * @throws {ShapeError} When it has another shape.
   */
  set grad(gradient: Tensor | null) {
    assignment.setGrad(this, gradient);
  }

  /**
   * Adds the gradient of this tensor to the `grad` of every leaf that requires one.
   *
   * @param options To go backward again, or to differentiate the gradients. With a gradient to start
   * from, which may be left out for a single element, they stand behind it.
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
  backward(options?: BackwardOptions): void;
  /** The same, from a gradient of this tensor. */
  backward(gradient: Tensor | undefined, options?: BackwardOptions): void;
  backward(first?: Tensor | BackwardOptions, options?: BackwardOptions): void {
    goBackward(this, first, options);
  }

  /**
   * Has a function called with this tensor's gradient whenever `backward` has summed it up; what it
   * returns goes on in the gradient's place: another tensor of its shape. It acts once, on the whole
   * gradient, under `checkpoint()` and in compiled functions, too, where it must not read values.
   *
   * @param hook Gets the gradient, of this tensor's shape.
   * @returns Takes the hook away: by `remove()`, or at the end of a block with `using`.
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
  registerHook(hook: GradientHook): HookHandle {
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
    return compute(binaries.add, this, b);
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
    return compute(binaries.sub, this, b);
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
    return compute(binaries.mul, this, b);
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
    return compute(binaries.div, this, b);
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
    return compute(binaries.remainder, this, b);
  }

  /** The quotient rounded down; 0 for integers divided by 0. */
  floorDivide(b: TensorLike): Tensor {
    return compute(binaries.floorDivide, this, b);
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
    return compute(binaries.maximum, this, b);
  }

  /** The smaller of both; NaN wins. */
  minimum(b: TensorLike): Tensor {
    return compute(binaries.minimum, this, b);
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
    return compute(arithmetic.clamp, this, min, max);
  }

  /** `this + weight * (end - this)`: this at weight 0, `end` at 1, from whichever is nearer. */
  lerp(end: Tensor, weight: TensorLike): Tensor {
    return compute(arithmetic.lerp, this, end, weight);
  }

  /** The negative. */
  neg(): Tensor {
    return compute(unaries.neg, this);
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
    return compute(unaries.abs, this);
  }

  /** -1, 0 or 1; NaN for NaN. */
  sign(): Tensor {
    return compute(unaries.sign, this);
  }

  /** `x * x`. */
  square(): Tensor {
    return compute(arithmetic.square, this);
  }

  /** `1 / x`. */
  reciprocal(): Tensor {
    return compute(unaries.reciprocal, this);
  }

  /** The part behind the point, with the sign of `x`. */
  frac(): Tensor {
    return compute(arithmetic.frac, this);
  }

  /**
   * The greatest common divisor of whole numbers; of two zeros 0.
   *
   * @throws {DTypeError} Of floats.
   */
  gcd(b: TensorLike): Tensor {
    return compute(arithmetic.gcd, this, b);
  }

  /**
   * The least common multiple of whole numbers; 0 where one is 0.
   *
   * @throws {DTypeError} Of floats.
   */
  lcm(b: TensorLike): Tensor {
    return compute(arithmetic.lcm, this, b);
  }

  /** `a - b`. */
  static sub(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.sub, a, b);
  }

  /** `a / b`; of integers in float32. */
  static div(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.div, a, b);
  }

  /** `a` to the power of `b`. */
  static pow(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.pow, a, b);
  }

  /** Remainder of `a` divided by `b`, with the sign of `b`. */
  static remainder(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.remainder, a, b);
  }

  /** `a / b`, rounded down. */
  static floorDivide(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.floorDivide, a, b);
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
    return compute(unaries.exp, this);
  }

  /** `2 ** x`. */
  exp2(): Tensor {
    return compute(unaries.exp2, this);
  }

  /** `e ** x - 1`, exact for small `x`. */
  expm1(): Tensor {
    return compute(unaries.expm1, this);
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
    return compute(unaries.log, this);
  }

  /** The logarithm to base 2. */
  log2(): Tensor {
    return compute(unaries.log2, this);
  }

  /** The logarithm to base 10. */
  log10(): Tensor {
    return compute(unaries.log10, this);
  }

  /** `log(1 + x)`, exact for small `x`. */
  log1p(): Tensor {
    return compute(unaries.log1p, this);
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
    return compute(unaries.sqrt, this);
  }

  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor {
    return compute(unaries.rsqrt, this);
  }

  /** The sine; `x` in radians. */
  sin(): Tensor {
    return compute(unaries.sin, this);
  }

  /** The cosine; `x` in radians. */
  cos(): Tensor {
    return compute(unaries.cos, this);
  }

  /** The tangent; `x` in radians. */
  tan(): Tensor {
    return compute(unaries.tan, this);
  }

  /** The inverse sine, in radians. */
  asin(): Tensor {
    return compute(unaries.asin, this);
  }

  /** The inverse cosine, in radians. */
  acos(): Tensor {
    return compute(unaries.acos, this);
  }

  /** The inverse tangent, in radians. */
  atan(): Tensor {
    return compute(unaries.atan, this);
  }

  /** The angle of the point (b, a), in radians. */
  atan2(b: TensorLike): Tensor {
    return compute(binaries.atan2, this, b);
  }

  /** The angle of the point (`b`, `a`), in radians from -pi to pi. */
  static atan2(a: TensorLike, b: TensorLike): Tensor {
    return compute(binaries.atan2, a, b);
  }

  /** The hyperbolic sine. */
  sinh(): Tensor {
    return compute(unaries.sinh, this);
  }

  /** The hyperbolic cosine. */
  cosh(): Tensor {
    return compute(unaries.cosh, this);
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
    return compute(unaries.tanh, this);
  }

  /** The inverse hyperbolic sine. */
  asinh(): Tensor {
    return compute(unaries.asinh, this);
  }

  /** The inverse hyperbolic cosine. */
  acosh(): Tensor {
    return compute(unaries.acosh, this);
  }

  /** The inverse hyperbolic tangent. */
  atanh(): Tensor {
    return compute(unaries.atanh, this);
  }

  /** The error function. */
  erf(): Tensor {
    return compute(unaries.erf, this);
  }

  /** `1 - erf(x)`, exact also where it is small. */
  erfc(): Tensor {
    return compute(unaries.erfc, this);
  }

  /** The next whole number below; no gradient. */
  floor(): Tensor {
    return compute(unaries.floor, this);
  }

  /** The next whole number above; no gradient. */
  ceil(): Tensor {
    return compute(unaries.ceil, this);
  }

  /** The nearest whole number, halves to even; no gradient. */
  round(): Tensor {
    return compute(unaries.round, this);
  }

  /** The whole part; no gradient. */
  trunc(): Tensor {
    return compute(unaries.trunc, this);
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
    return dtype === this.dtype ? this : compute(cast, this, dtype);
  }

  // ---- special functions

  /** The logarithm of the absolute value of the gamma function. */
  lgamma(): Tensor {
    return compute(special.lgamma, this);
  }

  /** The derivative of {@linkcode Tensor.lgamma}; NaN at negative whole numbers. */
  digamma(): Tensor {
    return compute(special.digamma, this);
  }

  /**
   * The derivative of {@linkcode Tensor.digamma} of some order: 1 is the trigamma function.
   *
   * @throws {RangeError} When the order is no whole number of at least 0.
   */
  polygamma(order: number): Tensor {
    return compute(special.polygamma, this, order);
  }

  /** The inverse of {@linkcode Tensor.erf}: infinite at 1 and -1, NaN beyond. */
  erfinv(): Tensor {
    return compute(special.erfinv, this);
  }

  /** `sin(pi * x) / (pi * x)`, 1 at 0. */
  sinc(): Tensor {
    return compute(special.sinc, this);
  }

  /**
   * `x * log(y)`, and 0 where `x` is 0 whatever the logarithm is.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const p = Tensor.fromHost([0, 1]);
   * assertEquals(await p.xlogy(p).toArray(), [0, 0]);
   * ```
   */
  xlogy(y: TensorLike): Tensor {
    return compute(special.xlogy, this, y);
  }

  /** `log(exp(a) + exp(b))`, without overflow. */
  logaddexp(b: TensorLike): Tensor {
    return compute(special.logaddexp, this, b);
  }

  /** `sqrt(a ** 2 + b ** 2)`, without overflow. */
  hypot(b: TensorLike): Tensor {
    return compute(special.hypot, this, b);
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
    return compute(binaries.eq, this, b);
  }

  /** True where different. */
  ne(b: TensorLike): Tensor {
    return compute(binaries.ne, this, b);
  }

  /** True where `a < b`. */
  lt(b: TensorLike): Tensor {
    return compute(binaries.lt, this, b);
  }

  /** True where `a <= b`. */
  le(b: TensorLike): Tensor {
    return compute(binaries.le, this, b);
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
    return compute(binaries.gt, this, b);
  }

  /** True where `a >= b`. */
  ge(b: TensorLike): Tensor {
    return compute(binaries.ge, this, b);
  }

  /** True where the element is NaN. */
  isNaN(): Tensor {
    return compute(unaries.isNaN, this);
  }

  /** True where the element is infinite. */
  isInf(): Tensor {
    return compute(unaries.isInf, this);
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
    return compute(binaries.logicalAnd, this, b);
  }

  /** True where one is not zero. */
  logicalOr(b: TensorLike): Tensor {
    return compute(binaries.logicalOr, this, b);
  }

  /** True where exactly one is not zero. */
  logicalXor(b: TensorLike): Tensor {
    return compute(binaries.logicalXor, this, b);
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
    return compute(maskedFill, this, mask, value);
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
    return compute(select, condition, a, b);
  }

  // ---- bits

  /**
   * The bits that both have.
   *
   * @throws {DTypeError} Of floats.
   */
  bitwiseAnd(b: TensorLike): Tensor {
    return compute(binaries.bitwiseAnd, this, b);
  }

  /**
   * The bits that one has, at least.
   *
   * @throws {DTypeError} Of floats.
   */
  bitwiseOr(b: TensorLike): Tensor {
    return compute(binaries.bitwiseOr, this, b);
  }

  /**
   * The bits that one has alone.
   *
   * @throws {DTypeError} Of floats.
   */
  bitwiseXor(b: TensorLike): Tensor {
    return compute(binaries.bitwiseXor, this, b);
  }

  /**
   * The bits that it has not; of truth values `logicalNot`.
   *
   * @throws {DTypeError} Of floats.
   */
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

  // ---- blocks of few bits

  /**
   * The numbers that blocks of few bits stand for. Nothing is decoded by itself: a product of up to 8 rows
   * reads the blocks, `embedding` the rows that it picks; a product of more rows decodes a copy first. The
   * blocks have no gradient; what they are multiplied with has its own.
   *
   * @param format The format of the blocks.
   * @param shape The shape of the numbers; blocks lie along the last axis.
   * @param dtype A floating type; default: float32.
   * @throws {ShapeError} When the blocks do not fill the shape.
   * @throws {DTypeError} Unless the tensor is uint8 and the type is a floating one.
   *
   * @example A product with weights of 8 bits
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const block = new Uint8Array(34); // a scale of 0.5, as float16, and 32 times the number 3
   * block.set([0x00, 0x38]);
   * block.fill(3, 2);
   * const blocks = Tensor.fromBlocks(block, "Q8_0"), x = Tensor.ones([1, 32]);
   * const weight = blocks.decodeBlocks("Q8_0", [1, 32]);
   * assertEquals(await x.matmul(weight.transpose()).toArray(), [[48]]);
   * ```
   */
  decodeBlocks(format: BlockFormatName, shape: Shape, dtype?: DType): Tensor {
    return compute(blocks.decodeBlocks, this, format, shape, dtype);
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
    return compute(activations.relu, this);
  }

  /** `x` where positive, else `slope * x`; the slope is 0.01 by default. */
  leakyRelu(slope?: number): Tensor {
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

  /** `x` where positive, else `alpha * (exp(x) - 1)`; alpha is 1 by default. */
  elu(alpha?: number): Tensor {
    return compute(activations.elu, this, alpha);
  }

  /**
   * The Gaussian error linear unit, `x * P(X <= x)`.
   *
   * @param approximate "none" (default) by the error function, "tanh" by the usual approximation (D. Hendrycks,
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
  gelu(approximate?: "none" | "tanh"): Tensor {
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
    return compute(unaries.sigmoid, this);
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
    return compute(reductions.sum, this, axes, options);
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
    return compute(reductions.prod, this, axes, options);
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
    return compute(reductions.max, this, axes, options);
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
    return compute(reductions.min, this, axes, options);
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
    return compute(reductions.any, this, axes, options);
  }

  /** True where no element is zero. */
  all(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(reductions.all, this, axes, options);
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
    return compute(reductions.softmax, this, axis);
  }

  /** `log(softmax(x))` along an axis (default the last), without overflow. */
  logSoftmax(axis?: number): Tensor {
    return compute(reductions.logSoftmax, this, axis);
  }

  // ---- statistics

  /**
   * The most frequent element of an axis, the last one by default, and where it is last; of several that
   * are as frequent the smallest.
   *
   * @throws {ShapeError} Of an empty axis.
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   *
   * console.assert(await Tensor.fromHost([2, 1, 2]).mode().values.item() === 2);
   * ```
   */
  mode(axis?: number, options?: ReduceOptions): { values: Tensor; indices: Tensor } {
    return compute(statistics.mode, this, axis, options);
  }

  /**
   * The element in the middle of an axis, by default of all elements: of an even number the lower one, as in
   * PyTorch; `quantile(0.5)` has the mean of both. NaN where there is one.
   *
   * @throws {ShapeError} When the axis is empty, or there is no such axis.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([3, 1, 4, 1]).median().item(), 1);
   * ```
   */
  median(axis?: number, options?: ReduceOptions): Tensor {
    return compute(statistics.median, this, axis, options);
  }

  /** The median of what is not NaN; NaN where there is nothing else. */
  nanmedian(axis?: number, options?: ReduceOptions): Tensor {
    return compute(statistics.nanmedian, this, axis, options);
  }

  /**
   * The number below which a share of the elements of an axis lies, by default of all elements; NaN where
   * there is one.
   *
   * @param q The share, from 0 to 1; of a list or a vector of them the results are along a new first axis.
   * @param axis Along which axis.
   * @param options What is taken between two elements.
   * @throws {RangeError} When a share is not from 0 to 1; one in a tensor gives NaN.
   * @throws {ShapeError} When a tensor of shares is neither one number nor a vector.
   * @throws {ShapeError} When the axis is empty, or there is no such axis.
   * @throws {DTypeError} When the elements are integers.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2, 3, 4]);
   * assertEquals(await x.quantile([0, 0.5, 1]).toArray(), [1, 2.5, 4]);
   * ```
   */
  quantile(
    q: number | readonly number[] | Tensor,
    axis?: number,
    options?: QuantileOptions,
  ): Tensor {
    return compute(statistics.quantile, this, q, axis, options);
  }

  /**
   * {@linkcode Tensor.quantile} of what is not NaN; NaN where there is nothing else.
   *
   * @param q The share, from 0 to 1; of a list or a vector of them the results are along a new first axis.
   * @param axis Along which axis.
   * @param options What is taken between two elements.
   */
  nanquantile(
    q: number | readonly number[] | Tensor,
    axis?: number,
    options?: QuantileOptions,
  ): Tensor {
    return compute(statistics.nanquantile, this, q, axis, options);
  }

  /** The sum of what is not NaN. */
  nansum(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(statistics.nansum, this, axes, options);
  }

  /**
   * The mean of what is not NaN; NaN where there is nothing else.
   *
   * @throws {DTypeError} When the elements are integers.
   */
  nanmean(axes?: Axes, options?: ReduceOptions): Tensor {
    return compute(statistics.nanmean, this, axes, options);
  }

  /** The elements with numbers in place of NaN and the infinities, which have no gradient. */
  nanToNum(options?: NanToNumOptions): Tensor {
    return compute(statistics.nanToNum, this, options);
  }

  /**
   * Covariances of variables: (variables, observations) give (variables, variables), a vector its
   * variance.
   *
   * @throws {ShapeError} When there are more than two axes.
   * @throws {DTypeError} When the elements are integers.
   */
  cov(options?: CovarianceOptions): Tensor {
    return compute(statistics.cov, this, options);
  }

  /**
   * The covariances of {@linkcode Tensor.cov} divided by both deviations: Pearson's correlations.
   *
   * @throws {ShapeError} When there are more than two axes.
   * @throws {DTypeError} When the elements are integers.
   */
  corrcoef(): Tensor {
    return compute(statistics.corrcoef, this);
  }

  /**
   * The differences of neighbours along an axis, which gets shorter by one each time.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([1, 4, 9]).diff().toArray(), [3, 5]);
   * ```
   */
  diff(options?: DiffOptions): Tensor {
    return compute(statistics.diff, this, options);
  }

  /**
   * The integral along an axis by the trapezoidal rule.
   *
   * @throws {ShapeError} When the places do not fit the values.
   * @throws {TypeError} When places and a distance are given.
   */
  trapezoid(options?: TrapezoidOptions): Tensor {
    return compute(statistics.trapezoid, this, options);
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
   * The logarithm of running sums of exponentials along an axis, without overflow.
   *
   * @throws {DTypeError} Of integers and truth values.
   */
  logcumsumexp(axis: number): Tensor {
    return compute(scans.logcumsumexp, this, axis);
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
    return compute(scans.cummax, this, axis);
  }

  /** The smallest element up to each one, and where it is, as {@linkcode Tensor.cummax}. */
  cummin(axis: number): { values: Tensor; indices: Tensor } {
    return compute(scans.cummin, this, axis);
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
    return compute(views.reshape, this, shape);
  }

  /**
   * The axes from `start` to `end` (by default all), both included, joined to one; a scalar becomes [1].
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.zeros([8, 3, 4]).flatten(1).shape, [8, 12]);
   * ```
   */
  flatten(start?: number, end?: number): Tensor {
    return compute(views.flatten, this, start, end);
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
    return compute(views.permute, this, axes);
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
  transpose(a?: number, b?: number): Tensor {
    return compute(views.transpose, this, a, b);
  }

  /** The axes in reverse order: the transpose of a matrix. */
  get T(): Tensor {
    return compute(views.permute, this, this.shape.map((_, axis) => this.ndim - 1 - axis));
  }

  /** Matrices transposed: the last two axes exchanged. */
  get mT(): Tensor {
    return compute(views.transpose, this, -1, -2);
  }

  /**
   * Windows along an axis, of `size` elements each and `step` apart: their number stands in the axis' place,
   * their elements along a further last axis.
   *
   * @throws {ShapeError} When no window fits.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([0, 1, 2, 3, 4]);
   * assertEquals(await x.unfold(0, 3, 2).toArray(), [[0, 1, 2], [2, 3, 4]]);
   * ```
   */
  unfold(axis: number, size: number, step: number): Tensor {
    return compute(windows.unfold, this, axis, size, step);
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
    return compute(views.expand, this, shape);
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
    return compute(views.squeeze, this, axis);
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
    return compute(views.unsqueeze, this, axis);
  }

  /** The elements along axes in reverse order. */
  flip(axes: Axes): Tensor {
    if (arguments.length > 1) refuseAxes("flip", [...arguments]);
    return compute(slices.flip, this, axes);
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
    return compute(slices.slice, this, ranges);
  }

  /**
   * A copy of this tensor in which `value` (broadcast) stands in the part that `ranges` names.
   *
   * @param ranges As {@linkcode Tensor.slice} takes them.
   * @param value What to put there.
   */
  sliceAssign(ranges: readonly SliceRange[], value: Tensor | number): Tensor {
    return compute(slices.sliceAssign, this, ranges, value);
  }

  /**
   * Parts of `size` along an axis (default the first), or of the given sizes, one each; the last part of
   * `size` may be shorter.
   *
   * @throws {ShapeError} When the sizes do not add up to the axis.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [a, b] = Tensor.arange(4).split([1, 3]);
   * assertEquals([await a.toArray(), await b.toArray()], [[0], [1, 2, 3]]);
   * assertEquals(Tensor.arange(4).split(2).length, 2);
   * ```
   */
  split<const S extends readonly number[]>(sizes: S, axis?: number): TensorsOf<S>;
  /** The same, in parts of one size. */
  split(size: number | readonly number[], axis?: number): Tensor[];
  split(size: number | readonly number[], axis?: number): Tensor[] {
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
   * const [query, key, value] = Tensor.arange(6).chunk(3);
   * assertEquals(await query.toArray(), [0, 1]);
   * assertEquals([key.shape, value.shape], [[2], [2]]);
   * ```
   */
  chunk<const N extends number>(count: N, axis?: number): Tensors<N> {
    return compute(joining.chunk, this, count, axis) as Tensors<N>;
  }

  /**
   * The slices along an axis (default the first), each without it: rows of a matrix. Their number, where
   * the program knows it, may be told to TypeScript: `unbind<2>(1)`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [x, y] = Tensor.fromHost([[1, 2], [3, 4]]).unbind<2>(1);
   * assertEquals([await x.toArray(), await y.toArray()], [[1, 3], [2, 4]]);
   * ```
   */
  unbind<N extends number = number>(axis?: number): Tensors<N> {
    return compute(joining.unbind, this, axis) as Tensors<N>;
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
    return compute(slices.pad, this, widths, value);
  }

  /**
   * The last axes, mirrored at their first and last elements, which are not repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When a width reaches the length of its axis.
   */
  padReflect(widths: readonly (readonly [number, number])[]): Tensor {
    return compute(padding.padReflect, this, widths);
  }

  /**
   * The last axes, with their first and last elements repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When an axis to be padded is empty.
   */
  padReplicate(widths: readonly (readonly [number, number])[]): Tensor {
    return compute(padding.padReplicate, this, widths);
  }

  /**
   * The elements along an axis moved by `shift`; what leaves at the end comes back at the front. Without
   * an axis they are moved in row-major order, as in PyTorch.
   */
  roll(shift: number, axis?: number): Tensor {
    return compute(joining.roll, this, shift, axis);
  }

  /**
   * The whole tensor repeated along each axis, as often as `times` says; more numbers than axes add
   * axes in front.
   */
  repeat(times: readonly number[]): Tensor {
    return compute(joining.repeat, this, times);
  }

  /** The diagonal of the last two axes, or of a vector the matrix that has it. */
  diagonal(): Tensor {
    return compute(triangles.diagonal, this);
  }

  /**
   * The lower triangle of the last two axes, zeros above the given diagonal (default 0, the main one).
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
  tril(diagonal?: number): Tensor {
    return compute(triangles.tril, this, diagonal);
  }

  /** The upper triangle of the last two axes, zeros below the given diagonal (default 0, the main one). */
  triu(diagonal?: number): Tensor {
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
    return compute(joining.concat, tensors, axis);
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
    return compute(joining.stack, tensors, axis);
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
    return compute(indexing.embedding, this, indices);
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
    return compute(indexing.scatter, this, axis, indices, source);
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
   * A copy in which what is stored at an index is the sum, the product, the mean, the largest or the
   * smallest of all that `indices` bring there; equal extremes share the gradient.
   *
   * @param axis The axis that `indices` count along, as for {@linkcode Tensor.scatterAdd}.
   * @param indices Whole numbers; their shape is that of the source.
   * @param source What is stored.
   * @param options What becomes of elements that meet, and whether what was there is one of them.
   * @throws {RangeError} At the next read, when an index is out of range.
   * @throws {DTypeError} Of a mean of integers.
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const ids = Tensor.fromHost(new Int32Array([0, 2, 2]));
   * const most = Tensor.zeros([3]).scatterReduce(0, ids, Tensor.fromHost([1, 5, 3]), { reduce: "amax" });
   * assertEquals(await most.toArray(), [1, 0, 5]);
   * ```
   */
  scatterReduce(
    axis: number,
    indices: Tensor,
    source: Tensor,
    options: ScatterReduceOptions,
  ): Tensor {
    const args = [this, axis, indices, source, options];
    return observedCall("compute", scatterReduce, undefined, args) as Tensor;
  }

  /**
   * A copy with slices of `source` added at positions along an axis; equal positions add up.
   *
   * @param axis Along which axis.
   * @param indices A vector of positions, integers.
   * @param source A slice for each, of the shape of this tensor's.
   * @param options A factor of the slices.
   * @throws {ShapeError} When there is not a slice for each position.
   * @throws {RangeError} At the next read, when a position is out of range.
   */
  indexAdd(axis: number, indices: Tensor, source: Tensor, options?: IndexAddOptions): Tensor {
    const args = [this, axis, indices, source, options];
    return observedCall("compute", indexing.indexAdd, undefined, args) as Tensor;
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
   * The elements where the mask is true, in row-major order, as a vector; both broadcast. Waits for the
   * number of them, and blocks the event loop meanwhile; {@linkcode Tensor.maskedSelectAsync} does not.
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
    return selection.maskedSelect(this, mask);
  }

  /**
   * The elements where the mask is true, as {@linkcode Tensor.maskedSelect} gives them, once their
   * number is known.
   *
   * @throws {DTypeError} When the mask is not bool.
   * @throws {Error} In `compile`: the result's size depends on values.
   */
  maskedSelectAsync(mask: Tensor): Promise<Tensor> {
    return selection.maskedSelectAsync(this, mask);
  }

  /**
   * The coordinates of the elements that are not zero, in row-major order: (count, axes), int32, once
   * their number is known.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const places = await Tensor.eye(2).nonzero();
   * assertEquals(await places.toArray(), [[0, 0], [1, 1]]);
   * ```
   */
  nonzero(): Promise<Tensor> {
    return selection.nonzero(this);
  }

  /**
   * The coordinates that {@linkcode Tensor.nonzero} gives, blocking the event loop until their
   * number is known.
   */
  nonzeroSync(): Tensor {
    return selection.nonzeroSync(this);
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
  argsort(axis?: number, options?: SortOptions): Tensor {
    return compute(indexing.argsort, this, axis, options);
  }

  /**
   * The elements of an axis (default the last) in order, and where they were, as int32; stable, NaN
   * last. Computes the order at once.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([3, 1, 2]).sort(0, { descending: true });
   * assertEquals(await values.toArray(), [3, 2, 1]);
   * assertEquals(await indices.toArray(), [0, 2, 1]);
   * ```
   */
  sort(axis?: number, options?: SortOptions): { values: Tensor; indices: Tensor } {
    return compute(indexing.sort, this, axis, options);
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
  topk(k: number, axis?: number, options?: TopkOptions): { values: Tensor; indices: Tensor } {
    return compute(indexing.topk, this, k, axis, options);
  }

  /**
   * Positions of values in this sorted sequence, as int32: the number of elements before them.
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
    return compute(searching.searchsorted, this, values, options);
  }

  /**
   * The distinct values in ascending order, where the elements' values stand among them (of the
   * tensor's shape), and how often each occurs, once their number is known. The gradient of a value
   * goes to its first element; each NaN is a value of its own.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, inverse, counts } = await Tensor.fromHost([3, 1, 3]).unique();
   * assertEquals(await values.toArray(), [1, 3]);
   * assertEquals(await inverse.toArray(), [1, 0, 1]);
   * assertEquals(await counts.toArray(), [1, 2]);
   * ```
   */
  unique(): Promise<Unique> {
    return counting.unique(this);
  }

  /**
   * The values that {@linkcode Tensor.unique} gives, blocking the event loop until their number is
   * known.
   */
  uniqueSync(): Unique {
    return counting.uniqueSync(this);
  }

  /**
   * Counts of 0, 1, 2, ... in a vector of integers, as int32; or the sums of `weights`, in their
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
   * Counts of elements in bins, as floats, and the edges of the bins, one more. A bin holds its
   * lower edge, the last one both. NaN, and what lies outside, counts for nothing. Gradients go to the
   * weights alone.
   *
   * @param bins How many bins of equal width, or a vector of their edges, ascending.
   * @param options The range that bins of equal width divide, weights, density.
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
   * are rows on the left and columns on the right. Products of integers add up in their own type and
   * wrap, as PyTorch's do: `x.cast("int32")` before those of uint8.
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
   * The sum of the products of two vectors.
   *
   * @throws {ShapeError} Unless both are vectors of one length.
   */
  dot(b: Tensor): Tensor {
    return compute(contractions.dot, this, b);
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

  /**
   * The distance of each row to each of `b`: (..., m, k) and (..., n, k) give (..., m, n). The gradient where
   * rows are equal is 0, as in PyTorch.
   *
   * @param b The other rows.
   * @param options The norm, by default Euclid's.
   * @throws {ShapeError} When they have not as many features.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.fromHost([[0, 0], [3, 4]]), b = Tensor.zeros([1, 2]);
   * assertEquals(await a.cdist(b).toArray(), [[0], [5]]);
   * ```
   */
  cdist(b: Tensor, options?: DistanceOptions): Tensor {
    return compute(distances.cdist, this, b, options);
  }

  /**
   * The distances of all pairs of rows, (n, k) to a vector of n (n - 1) / 2: row 0 to those after it, row 1
   * to those after it, ...
   *
   * @param options The norm.
   * @throws {ShapeError} When there are not two axes.
   * @throws {DTypeError} When the elements are integers.
   */
  pdist(options?: DistanceOptions): Tensor {
    return compute(distances.pdist, this, options);
  }

  // ---- images

  /**
   * {@linkcode Tensor.conv2d} along one axis: sequences (N, C, L) with (O, C / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv1d(weight: Tensor, options?: ConvOptions): Tensor {
    return compute(convolution.conv1d, this, weight, options);
  }

  /**
   * 2-D convolution (cross-correlation, as everywhere in deep learning) of images (N, C, H, W) with
   * `weight` (O, C / groups, KH, KW): (N, O, OH, OW) with
   * `OH = floor((H + 2 * padding - dilation * (KH - 1) - 1) / stride) + 1`.
   *
   * Large float32 convolutions of 3x3 and stride 1 take Winograd's minimal filtering: F(2x2, 3x3)
   * on OpenCL processors, F(4x4, 3x3) on the built-in backend, where the mean error is about 2.5
   * times that of a direct sum. It computes those directly whose results are not finite, or whose
   * image holds a number of 128 times the mean.
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
    return compute(convolution.conv2d, this, weight, options);
  }

  /**
   * {@linkcode Tensor.conv2d} along three axes: volumes (N, C, D, H, W) with
   * (O, C / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv3d(weight: Tensor, options?: ConvOptions): Tensor {
    return compute(convolution.conv3d, this, weight, options);
  }

  /**
   * {@linkcode Tensor.convTranspose2d} along one axis: (N, C, L) with (C, O / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose1d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convolution.convTranspose1d, this, weight, options);
  }

  /**
   * The transposed convolution of images (N, C, H, W) with `weight` (C, O / groups, KH, KW), the
   * gradient of {@linkcode Tensor.conv2d} by its image: (N, O, OH, OW) with
   * `OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + outputPadding + 1`.
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose2d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convolution.convTranspose2d, this, weight, options);
  }

  /**
   * {@linkcode Tensor.convTranspose2d} along three axes: (N, C, D, H, W) with
   * (C, O / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose3d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return compute(convolution.convTranspose3d, this, weight, options);
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
  maxPool2d(kernel: Sizes, options?: PoolOptions): Tensor {
    return compute(pooling.maxPool2d, this, kernel, options);
  }

  /**
   * The mean of each window of images (N, C, H, W); padding counts as zeros, unless
   * `countIncludePad` is false. Shapes as of {@linkcode Tensor.maxPool2d}.
   */
  avgPool2d(kernel: Sizes, options?: PoolOptions): Tensor {
    return compute(pooling.avgPool2d, this, kernel, options);
  }

  /** The largest element of regions that divide images (N, C, H, W) into the given parts. */
  adaptiveMaxPool2d(size: Sizes): Tensor {
    return compute(pooling.adaptiveMaxPool2d, this, size);
  }

  /** Images (N, C, H, W) averaged to the given size, (N, C, height, width). */
  adaptiveAvgPool2d(size: Sizes): Tensor {
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
    return compute(resampling.interpolate, this, options);
  }

  /**
   * Channels become pixels: (..., C * factor ** 2, H, W) gives (..., C, H * factor, W * factor)
   * (W. Shi et al., Real-Time Single Image and Video Super-Resolution, 2016).
   *
   * @throws {ShapeError} When the channels do not divide by the square of the factor.
   */
  pixelShuffle(factor: number): Tensor {
    return compute(shuffling.pixelShuffle, this, factor);
  }

  /**
   * The inverse of {@linkcode Tensor.pixelShuffle}: (..., C, H * factor, W * factor) gives
   * (..., C * factor ** 2, H, W).
   *
   * @throws {ShapeError} When height or width do not divide by the factor.
   */
  pixelUnshuffle(factor: number): Tensor {
    return compute(shuffling.pixelUnshuffle, this, factor);
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
    return compute(losses.crossEntropy, this, labels, options);
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
  throw new TypeError(`Cannot ${phraseOf(op)} by ${shown(axes)}: pass several axes as an array`);
}
