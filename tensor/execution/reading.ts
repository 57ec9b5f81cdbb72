/** Reading tensors: elements on the host, as typed arrays, numbers and nested arrays. */
import {
  backendOf,
  type DType,
  dtypes,
  formatShape,
  fromBfloat16Bits,
  GoneError,
  MAX_HOST_DATA_BYTES,
  type Node,
  readNode,
  readNodeSync,
  sameShape,
  type Shape,
  type TypedArray,
} from "../../backend/internal.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import type { CloseOptions, HostArrayOf, NestedArray } from "../core/arguments.ts";
import type { Tensor } from "../core/mod.ts";
import { realizeForRead } from "./realization.ts";

/** Memory of the host for a tensor that is read. */
function hostBytes(shape: Shape, nbytes: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(nbytes);
  } catch (cause) {
    throw new RangeError(
      `Cannot read a tensor of shape ${formatShape(shape)}: the host has no array of ${nbytes} ` +
        "bytes; read it in slices",
      { cause },
    );
  }
}

/** Destination of a read: an array to read into, or the type that the tensor must have. */
type Into = TypedArray | DType | undefined;

/** Memory for the elements: the caller's, where it has the size and the type. */
function bytesFor(x: Tensor, into: Into): Uint8Array<ArrayBuffer> {
  const { bytes, view } = dtypes[x.dtype];
  if (into === undefined || into === x.dtype) return hostBytes(x.shape, x.size * bytes);
  if (typeof into === "string") {
    throw dtypeError("toHost")`
      Cannot read ${x} as ${into}: its elements are ${x.dtype}; convert them with cast("${into}"),
      or leave the type out`;
  }
  if (!ArrayBuffer.isView(into)) requireValue(`read ${x}`, "into", into, takes.arrayView);
  const type = view(new ArrayBuffer(0), 0, 0).constructor;
  if (into.constructor !== type || into.length !== x.size || x.dtype === "bfloat16") {
    throw new TypeError(
      `Cannot read ${x} into a ${into.constructor.name} of ${into.length}: ` +
        (x.dtype === "bfloat16"
          ? "bfloat16 is converted and needs an array of its own"
          : `pass a ${type.name} of ${x.size}`),
    );
  }
  return new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
}

/** Bytes as the typed array that users get. */
export function hostView(bytes: Uint8Array<ArrayBuffer>, dtype: DType): TypedArray {
  const { view, bytes: size } = dtypes[dtype];
  const raw = view(bytes.buffer, 0, bytes.byteLength / size);
  return dtype === "bfloat16" ? Float32Array.from(raw as Uint16Array, fromBfloat16Bits) : raw;
}

/** The node, computed and stored unless it is a view of what is; whether the read alone asked. */
function readable(x: Tensor): { node: Node; isAsked: boolean } {
  const node = nodeOf(x);
  try {
    return { node, isAsked: realizeForRead(x) };
  } catch (error) {
    throw error instanceof GoneError ? stateOf(x).goneError("what it is computed from") : error;
  }
}

/** A few bytes that were computed to be read need no memory on the device any more. */
function keepOnHost(x: Tensor, node: Node, bytes: Uint8Array): void {
  if (bytes.length <= MAX_HOST_DATA_BYTES && !x.requiresGrad) node.keepOnHost(bytes.slice());
}

/** The caller's array, or a new one over the bytes. */
function arrayOf(x: Tensor, into: Into, bytes: Uint8Array<ArrayBuffer>): TypedArray {
  return typeof into === "object" ? into : hostView(bytes, x.dtype);
}

/** The elements, row-major, in a typed array. */
export async function toHost(x: Tensor, into?: Into): Promise<TypedArray> {
  const bytes = bytesFor(x, into);
  const { node, isAsked } = readable(x);
  await readNode(backendOf(x.device), node, bytes);
  if (isAsked) keepOnHost(x, node, bytes);
  return arrayOf(x, into, bytes);
}

/** The same, blocking the event loop. */
export function toHostSync(x: Tensor, into?: Into): TypedArray {
  const bytes = bytesFor(x, into);
  const { node, isAsked } = readable(x);
  readNodeSync(backendOf(x.device), node, bytes);
  if (isAsked) keepOnHost(x, node, bytes);
  return arrayOf(x, into, bytes);
}

/** The elements as float32, whatever their type. */
export async function toFloat32(x: Tensor): Promise<HostArrayOf<"float32">> {
  const values = await toHost(x);
  return values instanceof Float32Array
    ? values as HostArrayOf<"float32">
    : Float32Array.from(values as ArrayLike<number | bigint>, Number);
}

function requireOneElement({ size, shape }: Tensor): void {
  if (size === 1) return;
  throw shapeError("item")`
    Cannot take the item of a tensor of shape ${shape}: it has ${size} elements; pick one with
    slice(), reduce it, or read all with toHost()`;
}

/** The one element as a number. */
export async function item(x: Tensor): Promise<number> {
  requireOneElement(x);
  return Number((await toHost(x))[0]);
}

/** The same, blocking the event loop. */
export function itemSync(x: Tensor): number {
  requireOneElement(x);
  return Number(toHostSync(x)[0]);
}

/** The elements as nested arrays, one level per axis. */
export async function toArray(x: Tensor): Promise<NestedArray> {
  const { shape } = x, isBool = x.dtype === "bool", flat = await toHost(x);
  let at = 0;
  const nest = (axis: number): NestedArray => {
    if (axis === shape.length) {
      const value = Number(flat[at++]);
      return isBool ? value !== 0 : value;
    }
    // A loop takes half the time of Array.from().
    const parts: NestedArray[] = [], length = shape[axis]!;
    for (let k = 0; k < length; k++) parts.push(nest(axis + 1));
    return parts as NestedArray;
  };
  return nest(0);
}

/** The elements, row-major, as plain numbers. */
export async function toNumbers(x: Tensor): Promise<number[]> {
  return Array.from(await toHost(x) as ArrayLike<number | bigint>, Number);
}

/** True when all elements are near to those of `b`. */
export async function allClose(x: Tensor, b: Tensor, options?: CloseOptions): Promise<boolean> {
  return await item(withoutGrad(() => x.isClose(b, options).all())) !== 0;
}

/** True when `b` has the same shape and equal elements. */
export async function equal(x: Tensor, b: Tensor): Promise<boolean> {
  requireTensor("compare", b);
  sameDevice("compare", [x, b]);
  if (!sameShape(x.shape, b.shape)) return false;
  return await item(withoutGrad(() => x.eq(b).all())) !== 0;
}
