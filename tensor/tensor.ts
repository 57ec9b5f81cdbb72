/** The tensor: everything a user does with numbers goes through it. */
import { type DeviceHandle, type DType, manager, type Shape, sizeOf } from "../backend/internal.ts";
import type { Buffer, CommandQueue, Context } from "../ffi/mod.ts";
import type { BufferHandle } from "../memory/mod.ts";
import { backward, type BackwardOptions } from "./autograd/autograd.ts";
import {
  checkedShape,
  fromBuffer,
  fromHost,
  full,
  type HostData,
  iota,
  sequence,
  type TensorOptions,
  tensorRules,
} from "./ops/creation.ts";
import { select, type TensorLike } from "./ops/elementwise.ts";
import { meshgrid, type MeshOptions } from "./ops/indexing/pieces.ts";
import { concat, stack } from "./ops/shaping.ts";
import { observedBookkeeping, TensorBase } from "./core/base.ts";
import type { OperationKind } from "./core/calls.ts";
import { observed } from "./core/operations.ts";
import { TensorState } from "./core/tensor_state.ts";
import { lendBlock } from "./execution/native_access.ts";
import { BitwiseMethods } from "./bitwise_methods.ts";
import { ElementwiseMethods } from "./elementwise_methods.ts";
import { addGradientHook, type GradientHook } from "./autograd/gradient_hooks.ts";
import { ImageMethods } from "./image_methods.ts";
import { ProductMethods } from "./product_methods.ts";
import { observedReading, ReadingMethods } from "./reading_methods.ts";
import { ReversedMethods } from "./reversed_methods.ts";
import { ReductionMethods } from "./reduction_methods.ts";
import { SelectionMethods } from "./selection_methods.ts";
import { ShapeMethods } from "./shape_methods.ts";
import { positionType } from "./core/promotion.ts";
import * as random from "./ops/random.ts";
import { copyTo } from "./execution/transfer.ts";
import { checkOptions, checkValue, requireValue, shown, takes } from "./core/options.ts";

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
export class Tensor extends SelectionMethods {
  /**
   * Tensors are made by the static methods below, and by operations.
   *
   * @param state What is kept for it.
   * @throws {TypeError} When it gets values: `Tensor.fromHost` takes those.
   */
  constructor(state: TensorState) {
    super(requireState(state));
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
   */
  static fromHost(data: HostData, options?: TensorOptions): Tensor {
    checkOptions("make a tensor", options, tensorRules);
    return fromHost(data, options);
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
    return fromBuffer(buffer, options);
  }

  /** Zeros, float32 unless the options say otherwise. */
  static zeros(shape: Shape, options?: TensorOptions): Tensor {
    checkedShape("make", shape);
    checkOptions("make zeros", options, tensorRules);
    return full("make", shape, 0, options);
  }

  /** Ones, float32 unless the options say otherwise. */
  static ones(shape: Shape, options?: TensorOptions): Tensor {
    checkedShape("make", shape);
    checkOptions("make ones", options, tensorRules);
    return full("make", shape, 1, options);
  }

  /**
   * A tensor full of one number, float32 unless the options say otherwise.
   *
   * @throws {RangeError} When the type does not hold the number.
   */
  static full(shape: Shape, value: number, options?: TensorOptions): Tensor {
    checkOptions("fill", options, tensorRules);
    return full("fill", shape, value, options);
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
    requireValue("arange", "start", start, takes.number);
    checkValue("arange", "step", step, takes.number);
    if (typeof stop === "object") {
      throw new TypeError(
        `Cannot arange to ${shown(stop)}: options come last, after start, stop and step`,
      );
    }
    checkValue("arange", "stop", stop, takes.number);
    checkOptions("arange", options, tensorRules);
    const [from, to] = stop === undefined ? [0, start] : [start, stop];
    if (!Number.isFinite(step) || step === 0 || !Number.isFinite(from) || !Number.isFinite(to)) {
      throw new RangeError(
        `Cannot arange from ${from} to ${to} by ${step}: the step must lead there`,
      );
    }
    const count = Math.max(0, Math.ceil((to - from) / step));
    const dtype = options?.dtype ?? "float32";
    const isWhole = Number.isInteger(step) && Number.isInteger(from);
    const onDevice = (index: Tensor): Tensor => {
      const scaled = step === 1 ? index : index.mul(step);
      return from === 0 ? scaled : scaled.add(from);
    };
    const values = isWhole
      ? onDevice(iota([count], dtype, { ...options, requiresGrad: false }))
      : sequence(count, { onDevice, onHost: (k) => k * step + from }, options);
    return required(values, options);
  }

  /** `count` numbers from `start` to `stop`, both included, at equal distances. */
  static linspace(start: number, stop: number, count: number, options?: TensorOptions): Tensor {
    requireValue("linspace", "start", start, takes.finite);
    requireValue("linspace", "stop", stop, takes.finite);
    checkOptions("linspace", options, tensorRules);
    checkedShape("linspace", [count]);
    const step = count > 1 ? (stop - start) / (count - 1) : 0;
    // From the nearer end, so that both are exact.
    const formula = {
      onDevice: (index: Tensor) =>
        index.lt(count / 2).where(
          index.mul(step).add(start),
          index.sub(count - 1).mul(step).add(stop),
        ),
      onHost: (k: number) => k < count / 2 ? k * step + start : (k - count + 1) * step + stop,
    };
    return required(sequence(count, formula, options), options);
  }

  /** The identity matrix (n, n). */
  static eye(n: number, options?: TensorOptions): Tensor {
    checkOptions("eye", options, tensorRules);
    const index = iota(checkedShape("eye", [n]), "int32", { ...options, requiresGrad: false });
    return required(index.unsqueeze(1).eq(index).cast(options?.dtype ?? "float32"), options);
  }

  /**
   * Uniform random numbers in [0, 1): of one seed the same on every device, see
   * {@linkcode manualSeed}.
   *
   * @throws {DTypeError} When the type is not floating point.
   */
  static rand(shape: Shape, options?: TensorOptions): Tensor {
    checkedShape("rand", shape);
    checkOptions("rand", options, tensorRules);
    return required(random.uniform(shape, options), options);
  }

  /** Normal random numbers with mean 0 and variance 1. */
  static randn(shape: Shape, options?: TensorOptions): Tensor {
    checkedShape("randn", shape);
    checkOptions("randn", options, tensorRules);
    return required(random.normal(shape, options), options);
  }

  /**
   * Random whole numbers from `low` to before `high`, as int32 unless the options say otherwise.
   *
   * @throws {RangeError} When the bounds are not whole, or more than 2 ** 24 apart.
   */
  static randint(low: number, high: number, shape: Shape, options?: TensorOptions): Tensor {
    checkOptions("randint", options, tensorRules);
    return random.integers(low, high, shape, options);
  }

  /** A random order of 0 to `n - 1`, as int32. */
  static randperm(n: number, options?: TensorOptions): Tensor {
    checkOptions("randperm", options, tensorRules);
    const shape = checkedShape("randperm", [n]);
    return random.uniform(shape, { ...options, dtype: "float32" }).argsort();
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
    return concat(tensors, axis);
  }

  /**
   * Tensors of one shape side by side along a new axis (default in front).
   *
   * @throws {ShapeError} When the shapes differ, or there are no tensors.
   */
  static stack(tensors: Tensor[], axis?: number): Tensor {
    return stack(tensors, axis);
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
    return meshgrid(tensors, options);
  }

  /**
   * `a` where the condition holds, else `b`; all three broadcast.
   *
   * @throws {DTypeError} When the condition is not bool.
   */
  static where(condition: Tensor, a: TensorLike, b: TensorLike): Tensor {
    return select(condition, a, b);
  }

  /** A tensor of the same device and type full of `value`; of the same shape unless one is given. */
  fullLike(value: number, shape?: Shape): Tensor {
    return full("fill", shape ?? this.shape, value, { device: this.device, dtype: this.dtype });
  }

  /** Zeros of the same shape, device and type. */
  zerosLike(shape?: Shape): Tensor {
    return this.fullLike(0, shape);
  }

  /** Ones of the same shape, device and type. */
  onesLike(shape?: Shape): Tensor {
    return this.fullLike(1, shape);
  }

  /** Uniform random numbers in [0, 1) of the same shape, device and type. */
  randLike(): Tensor {
    return random.uniform(this.shape, { device: this.device, dtype: this.dtype });
  }

  /** Normal random numbers of the same shape, device and type. */
  randnLike(): Tensor {
    return random.normal(this.shape, { device: this.device, dtype: this.dtype });
  }

  /** 0, 1, 2, ... in row-major order on the same device, as int32; int64 where that is too small. */
  indexLike(shape: Shape): Tensor {
    const checked = checkedShape("count in", shape);
    return iota(checked, positionType(sizeOf(checked)), { device: this.device });
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
    return copyTo(this, manager.resolve(target));
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

  /**
   * Adds the gradient of this tensor to the `grad` of every leaf that requires one.
   *
   * @param gradient What to start from; may be left out for a single element.
   * @param options To go backward again, or to differentiate the gradients.
   * @throws {Error} When nothing that it was computed from requires a gradient, or its graph was let
   * go by an earlier `backward`.
   */
  backward(gradient?: Tensor, options?: BackwardOptions): void {
    backward(this, gradient, options);
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
    requireValue("register a hook", "hook", hook, takes.callback);
    if (this.requiresGrad) return addGradientHook(this, hook);
    throw new TypeError(
      `Cannot register a hook of ${this}: it requires no gradient; set requiresGrad, or what it is ` +
        `computed from`,
    );
  }
}

TensorBase.handle = Tensor;

/** `compile` is told of every call. */
observeMethods(Tensor, { fromHost: "leaf", fromBuffer: "leaf" }, "compute");
for (const holder of [ReversedMethods, SelectionMethods]) observeMethods(holder, {}, "compute");
const notCalls = { registerHook: null };
const layers = [
  Tensor,
  SelectionMethods,
  ProductMethods,
  ImageMethods,
  ShapeMethods,
  ReductionMethods,
  BitwiseMethods,
  ElementwiseMethods,
];
for (const { prototype } of layers) observeMethods(prototype, notCalls, "compute");
observeMethods(ReadingMethods.prototype, observedReading, null);
observeMethods(TensorBase.prototype, observedBookkeeping, null);

/** Has the calls of a class's methods observed; `kinds` names those that are not `others`, null for none. */
function observeMethods(
  holder: object,
  kinds: Readonly<Record<string, OperationKind | null>>,
  others: OperationKind | null,
): void {
  for (const name of Object.getOwnPropertyNames(holder)) {
    const property = Object.getOwnPropertyDescriptor(holder, name)!;
    const kind = Object.hasOwn(kinds, name) ? kinds[name] ?? null : others;
    if (kind === null || name === "constructor") continue;
    if (kind === "set" && property.set) property.set = observed(property.set, kind);
    else if (typeof property.value === "function") property.value = observed(property.value, kind);
    else continue;
    Object.defineProperty(holder, name, property);
  }
}

function requireState(state: TensorState): TensorState {
  if (state instanceof TensorState) return state;
  throw new TypeError(
    `Cannot construct a tensor of ${
      shown(state)
    }: write Tensor.fromHost(data), or one of the other ` +
      `static methods of Tensor such as zeros, full, arange`,
  );
}

function required(tensor: Tensor, options?: TensorOptions): Tensor {
  if (options?.requiresGrad) tensor.requiresGrad = true;
  return tensor;
}
