/** Tensors of values that the host has, and of OpenCL buffers that the user owns. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  type DType,
  dtypes,
  isFloat,
  MAX_HOST_DATA_BYTES,
  Node,
  type Shape,
  sizeOf,
  toBfloat16Bits,
  type TypedArray,
} from "../../../backend/internal.ts";
import type { Buffer } from "../../../ffi/mod.ts";
import { Storage } from "../../../memory/mod.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { checkOptions, deviceChoice, type Rules, shown, takes } from "../../core/rules/options.ts";
import { requireType } from "../../core/rules/supported_types.ts";
import { elementOf } from "../elementwise/elements.ts";
import { checkedShape, deviceOf, made, tensorRules } from "./tensor_options.ts";
import type { HostData, NestedArray, TensorOptions } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";

/** Options of `Tensor.fromBuffer`. */
const wrapRules: Rules<{ shape: Shape; dtype?: DType; device?: string | DeviceHandle }> = {
  shape: takes.wholeNumbers,
  dtype: takes.text,
  device: deviceChoice,
};

/** The dtype that a typed array has on its own. */
function naturalType(data: HostData): DType {
  if (data instanceof Float64Array) return "float64";
  if (data instanceof Float16Array) return "float16";
  if (data instanceof Int32Array) return "int32";
  if (data instanceof BigInt64Array) return "int64";
  if (data instanceof Int16Array) return "int16";
  if (data instanceof Int8Array) return "int8";
  if (data instanceof Uint32Array) return "uint32";
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
  checkOptions("make a tensor", options, tensorRules);
  const device = deviceOf(options);
  const dtype = options.dtype ?? naturalType(data);
  requireType(device, dtype);
  const { values, shape } = flatten(data, options.shape, options.dtype !== undefined);
  const bytes = encode(values, dtype);
  const { pinMemory = false, persistent = false } = options;
  if (bytes.byteLength <= MAX_HOST_DATA_BYTES && !pinMemory && !persistent) {
    const kept = bytes.slice(); // the caller may change its array
    return made(new Node({ kind: "data", bytes: kept }, [], shape, dtype), { ...options, device });
  }
  const backend = backendOf(device);
  const block = backend.upload(bytes, { pinMemory, persistent });
  const node = Node.uploaded(new Storage(backend.memory, block), shape, dtype, persistent);
  return made(node, { ...options, device, persistent: false });
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
  throw shapeError("fromHost")`
    Cannot make a tensor of shape ${checked}: ${values.length} elements do not fill it`;
}

/** The arrays that have an element type of their own. */
const natural = [
  Float64Array,
  Float32Array,
  Float16Array,
  Int32Array,
  BigInt64Array,
  Int16Array,
  Int8Array,
  Uint32Array,
  Uint8Array,
];

function checkView(
  data: TypedArray<ArrayBufferLike>,
  isTyped: boolean,
): TypedArray<ArrayBufferLike> {
  const { name } = data.constructor;
  const hasType = natural.some((type) => data instanceof type);
  if ((data as ArrayBufferView) instanceof DataView || !hasType && !isTyped) {
    throw dtypeError("fromHost")`
      Cannot make a tensor of a ${name}: no element type is its own; name one that holds its
      numbers in { dtype }, or pass a ${natural.map((type) => type.name).join(", ")}`;
  }
  if (data.buffer instanceof ArrayBuffer && data.buffer.detached) {
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
  const given = item === null || item === undefined ? `${item}` : `${typeof item} ${shown(item)}`;
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
      throw shapeError("fromHost", axis)`
        Cannot make a tensor of ragged arrays: axis ${axis} has ${
        isArray ? `${item.length} elements` : "a number"
      } where the first had
        ${axis < shape.length ? `${shape[axis]} elements` : "a number"}`;
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
  } else if (isFloat(dtype)) {
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
    throw shapeError("fromBuffer")`
      Cannot wrap a buffer of ${buffer.nbytes} bytes as ${dtype} of shape ${shape}: that takes
      ${nbytes}`;
  }
  const backend = backendOf(device);
  // The user's buffer as a block: no pool has it, and releasing it does nothing.
  const block: Block = {
    buffer,
    base: buffer,
    nbytes,
    offset: 0,
    bucketSize: nbytes,
    pool: null,
    release: () => {},
    [Symbol.dispose]: () => {},
  } as unknown as Block;
  return made(Node.stored(new Storage(backend.memory, block), shape, dtype), { device });
}
