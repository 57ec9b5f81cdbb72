/** Making tensors: from host data, from buffers, from numbers, from chance. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  type DType,
  dtypes,
  formatShape,
  fromBfloat16Bits,
  manager,
  MOST_ON_HOST,
  Node,
  type Shape,
  sizeOf,
  toBfloat16Bits,
  type TypedArray,
} from "../../backend/internal.ts";
import type { Buffer } from "../../ffi/mod.ts";
import { Storage } from "../../memory/mod.ts";
import type { NestedArray } from "../core/base.ts";
import { DTypeError, ShapeError } from "../core/errors.ts";
import type { Tensor } from "../tensor.ts";
import { requireType, supportsType } from "../core/supported_types.ts";
import { checkOptions, deviceChoice, type Rules, shown, takes } from "../core/options.ts";
import { makeTensor, nodeOf } from "../core/tensor_state.ts";

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
  backend?: "cl" | "cpu";
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

/** What {@linkcode TensorOptions} may hold; types and shapes are checked where they are used. */
export const tensorRules: Rules<TensorOptions> = {
  shape: takes.anything,
  dtype: takes.text,
  device: deviceChoice,
  backend: takes.oneOf("cl", "cpu"),
  requiresGrad: takes.bool,
  pinMemory: takes.bool,
  persistent: takes.bool,
};

/** What `Tensor.fromBuffer` may be told. */
const wrapRules: Rules<{ shape: Shape; dtype?: DType; device?: string | DeviceHandle }> = {
  shape: takes.wholeNumbers,
  dtype: takes.text,
  device: deviceChoice,
};

/** The device that options name. */
export function deviceOf(options: TensorOptions = {}): DeviceHandle {
  if (options.device !== undefined) return manager.resolve(options.device);
  if (options.backend === undefined || manager.active.backend === options.backend) {
    return manager.active;
  }
  return manager.default(options.backend);
}

/** A tensor of a node, with what the options say beyond its value. */
export function made(node: Node, options: TensorOptions = {}): Tensor {
  const device = deviceOf(options);
  requireType(device, node.dtype);
  const tensor = makeTensor(options.persistent ? persisted(node, device) : node, device);
  if (options.requiresGrad) tensor.requiresGrad = true;
  return tensor;
}

/** The same value in the device's persistent pool. */
function persisted(node: Node, device: DeviceHandle): Node {
  const engine = backendOf(device);
  const nbytes = node.size * dtypes[node.dtype].bytes;
  const block = engine.memory.allocate(nbytes, { persistent: true });
  using computed = makeTensor(node, device).realize();
  engine.copy(nodeOf(computed).storage!.handle, block, nbytes);
  return Node.stored(new Storage(engine.memory, block), node.shape, node.dtype);
}

/** A shape that was checked to be one. */
export function checkedShape(op: string, shape: Shape): Shape {
  if (Array.isArray(shape) && shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    return [...shape];
  }
  throw new ShapeError(
    `Cannot ${op} a tensor of shape ${shown(shape)}: pass an array of whole numbers of at least 0`,
  );
}

/** A tensor full of one number. */
export function full(op: string, shape: Shape, value: number, options: TensorOptions = {}): Tensor {
  const dtype = options.dtype ?? "float32";
  const checked = checkedShape(op, shape);
  const node = new Node(
    { kind: "constant", value: elementOf(op, value, dtype) },
    [],
    checked,
    dtype,
  );
  return made(node, options);
}

/** What integer types hold. */
const ranges: Readonly<Partial<Record<DType, readonly [least: number, most: number]>>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  // The double before 2 ** 63.
  int64: [-(2 ** 63), 2 ** 63 - 1024],
  uint8: [0, 255],
  bool: [0, 1],
};

/** The nearest number of a floating type that is not JavaScript's own. */
const roundTo: Readonly<Partial<Record<DType, (value: number) => number>>> = {
  float32: Math.fround,
  float16: Math.f16round,
  bfloat16: (value) => fromBfloat16Bits(toBfloat16Bits(value)),
};

/** True where the type holds the number, but for its fraction. */
export function holds(dtype: DType, value: number): boolean {
  const range = ranges[dtype];
  return !range || Math.trunc(value) >= range[0] && Math.trunc(value) <= range[1];
}

/** The number that is nearest to `value` in the range of a type. */
export function nearestIn(dtype: DType, value: number): number {
  const range = ranges[dtype];
  return range ? Math.min(range[1], Math.max(range[0], value)) : value;
}

/**
 * A number as an element of a type holds it: whole for integers, a truth value for bool, rounded for
 * floats; negative numbers wrap around in uint8, as in PyTorch.
 */
export function elementOf(op: string, value: number, dtype: DType): number {
  if (typeof value !== "number") {
    throw new TypeError(`Cannot ${op} with ${typeof value} "${value}": pass a number`);
  }
  if (dtype === "bool") return Number(value !== 0);
  const range = ranges[dtype];
  if (!range) return roundTo[dtype]?.(value) ?? value;
  const whole = Math.trunc(value);
  if (holds(dtype, value)) return whole;
  if (dtype === "uint8" && whole < 0 && whole >= -255) return whole & 255;
  throw new RangeError(
    `Cannot ${op} with ${value} in ${dtype}: pass a number from ${range[0]} to ${range[1]}, or ` +
      `cast to a type that holds it`,
  );
}

/** 0, 1, 2, ... in the given shape. */
export function iota(shape: Shape, dtype: DType, options: TensorOptions = {}): Tensor {
  return made(new Node({ kind: "iota" }, [], shape, dtype), options);
}

/** The dtype that a typed array has on its own. */
function naturalType(data: HostData): DType {
  if (data instanceof Float64Array) return "float64";
  if (data instanceof Float16Array) return "float16";
  if (data instanceof Int32Array) return "int32";
  if (data instanceof BigInt64Array) return "int64";
  if (data instanceof Uint8Array) return "uint8";
  return firstLeaf(data) === "boolean" ? "bool" : "float32";
}

function firstLeaf(data: HostData): string {
  let item: unknown = data;
  while (Array.isArray(item)) item = item[0];
  return typeof item;
}

/** Copies host data to the device. */
export function fromHost(data: HostData, options: TensorOptions = {}): Tensor {
  const device = deviceOf(options);
  const dtype = options.dtype ?? naturalType(data);
  requireType(device, dtype);
  const { values, shape } = flatten(data, options.shape, options.dtype !== undefined);
  const bytes = encode(values, dtype);
  const { pinMemory = false, persistent = false } = options;
  if (bytes.byteLength <= MOST_ON_HOST && !pinMemory && !persistent) {
    const kept = bytes.slice(); // the caller may change its array
    return made(new Node({ kind: "data", bytes: kept }, [], shape, dtype), { ...options, device });
  }
  const engine = backendOf(device);
  const block = engine.upload(bytes, { pinMemory, persistent });
  const node = Node.stored(new Storage(engine.memory, block), shape, dtype);
  return made(node, { ...options, device, persistent: false });
}

/**
 * `count` numbers of a formula, computed in doubles and rounded once: on the device, or on the host
 * where the device has no doubles.
 */
export function sequence(
  count: number,
  formula: { onDevice(index: Tensor): Tensor; onHost(index: number): number },
  options: TensorOptions = {},
): Tensor {
  const own = { ...options, requiresGrad: false };
  const values = supportsType(deviceOf(options), "float64")
    ? formula.onDevice(iota([count], "float64", own))
    : fromHost(Float32Array.from({ length: count }, (_, k) => formula.onHost(k)), {
      ...own,
      dtype: "float32",
    });
  return values.cast(options.dtype ?? "float32");
}

type Values = ArrayLike<number | bigint | boolean>;

function flatten(
  data: HostData,
  wanted: Shape | undefined,
  isTyped: boolean,
): { values: Values; shape: Shape } {
  const { values, shape } = ArrayBuffer.isView(data)
    ? { values: checkView(data, isTyped), shape: [data.length] }
    : flattenNested(data);
  if (wanted === undefined) return { values, shape };
  const checked = checkedShape("make", wanted);
  if (sizeOf(checked) === values.length) return { values, shape: checked };
  throw new ShapeError(
    `Cannot make a tensor of shape ${
      formatShape(checked)
    }: ${values.length} elements do not fill it`,
  );
}

/** The arrays that have an element type of their own. */
const natural = [
  Float64Array,
  Float32Array,
  Float16Array,
  Int32Array,
  BigInt64Array,
  Uint8Array,
];

function checkView(data: TypedArray, isTyped: boolean): TypedArray {
  const { name } = data.constructor;
  const hasType = natural.some((type) => data instanceof type);
  if ((data as ArrayBufferView) instanceof DataView || !hasType && !isTyped) {
    throw new DTypeError(
      `Cannot make a tensor of a ${name}: no element type is its own; name one that holds its ` +
        `numbers in { dtype }, or pass a ${natural.map((type) => type.name).join(", ")}`,
    );
  }
  if (data.buffer.detached) {
    throw new TypeError("Cannot make a tensor of a detached array: its memory was transferred");
  }
  return data;
}

function notData(item: unknown): TypeError {
  const remedy = typeof item === "bigint"
    ? "pass a BigInt64Array"
    : item instanceof ArrayBuffer
    ? "pass a typed array over it, such as new Float32Array(buffer)"
    : "pass a typed array, or numbers or booleans, by themselves or in nested arrays";
  const given = item === null || item === undefined ? `${item}` : `${typeof item} "${item}"`;
  return new TypeError(`Cannot make a tensor of ${given}: ${remedy}`);
}

function flattenNested(data: NestedArray): { values: Values; shape: number[] } {
  const shape: number[] = [];
  for (let item: NestedArray | undefined = data; Array.isArray(item); item = item[0]) {
    shape.push(item.length);
  }
  const values: (number | boolean)[] = [];
  const visit = (item: NestedArray, axis: number): void => {
    const isArray = Array.isArray(item);
    if (isArray !== axis < shape.length || isArray && item.length !== shape[axis]) {
      throw new ShapeError(
        `Cannot make a tensor of ragged arrays: axis ${axis} has ${
          isArray ? `${item.length} elements` : "a number"
        } where the first had ${axis < shape.length ? `${shape[axis]} elements` : "a number"}`,
      );
    }
    if (isArray) { for (const part of item) visit(part, axis + 1); }
    else if (typeof item === "number" || typeof item === "boolean") values.push(item);
    else throw notData(item);
  };
  visit(data, 0);
  return { values, shape };
}

/** The bytes of values in an element type: those of the array itself, where it has that type. */
export function encode(values: Values, dtype: DType): Uint8Array<ArrayBuffer> {
  const { view, bytes } = dtypes[dtype];
  if (isEncoded(values, dtype)) {
    return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  }
  const out = new Uint8Array(values.length * bytes);
  const target = view(out.buffer, 0, values.length);
  if (target instanceof BigInt64Array) {
    for (let k = 0; k < values.length; k++) target[k] = wholeOf(values[k]!);
  } else if (dtype === "bfloat16") {
    for (let k = 0; k < values.length; k++) target[k] = toBfloat16Bits(Number(values[k]));
  } else if (dtypes[dtype].kind === "float") {
    for (let k = 0; k < values.length; k++) target[k] = Number(values[k]);
  } else {
    for (let k = 0; k < values.length; k++) {
      target[k] = elementOf("make a tensor", Number(values[k]), dtype);
    }
  }
  return out;
}

function wholeOf(value: number | bigint | boolean): bigint {
  return BigInt(typeof value === "number" ? elementOf("make a tensor", value, "int64") : value);
}

/** True when a typed array holds just the bytes that the type wants. */
function isEncoded(values: Values, dtype: DType): values is Float32Array<ArrayBuffer> {
  return ArrayBuffer.isView(values) && dtype !== "bool" && dtype !== "bfloat16" &&
    values.constructor === dtypes[dtype].view(new ArrayBuffer(0), 0, 0).constructor;
}

/** Wraps a cl_mem that the caller owns and keeps alive. */
export function fromBuffer(
  buffer: Buffer,
  options: { shape: Shape; dtype?: DType; device?: string | DeviceHandle },
): Tensor {
  checkOptions("wrap a buffer", options, wrapRules, ["shape"]);
  const device = deviceOf(
    options.device === undefined ? { backend: "cl" } : { device: options.device },
  );
  const shape = checkedShape("wrap", options.shape), dtype = options.dtype ?? "float32";
  const nbytes = sizeOf(shape) * dtypes[dtype].bytes;
  if (device.backend !== "cl") {
    throw new TypeError(`Cannot wrap an OpenCL buffer on ${device}: name an OpenCL device`);
  }
  if (buffer.nbytes < nbytes) {
    throw new ShapeError(
      `Cannot wrap a buffer of ${buffer.nbytes} bytes as ${dtype} of shape ${
        formatShape(shape)
      }: that takes ${nbytes}`,
    );
  }
  const engine = backendOf(device);
  const borrowed: Block = {
    buffer,
    base: buffer,
    nbytes,
    offset: 0,
    bucketSize: nbytes,
    pool: null,
    release: () => {},
    [Symbol.dispose]: () => {},
  } as unknown as Block;
  return made(Node.stored(new Storage(engine.memory, borrowed), shape, dtype), { device });
}
