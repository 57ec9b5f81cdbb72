import {
  type DType,
  fromBfloat16Bits,
  toBfloat16Bits,
  type TypedArray,
} from "../../../backend/internal.ts";

/**
 * Layout of array elements in a file, named as NumPy does by kind and bytes: `f4` is a
 * float of 4 bytes, `b1` a bool, `bf` bfloat16, `e4` and `e5` floats of 8 bits with so many of exponent.
 */
export type ElementType =
  | "b1"
  | "u1"
  | "u2"
  | "u4"
  | "i1"
  | "i2"
  | "i4"
  | "i8"
  | "f2"
  | "f4"
  | "f8"
  | "bf"
  | "e4"
  | "e5";

interface Layout {
  readonly nbytes: number;
  readonly dtype: DType;
  readonly make: new (length: number) => TypedArray;
  /** Element `offset` bytes into `view`; absent where the file's bytes are the array's. */
  readonly widen?: (view: DataView, offset: number, littleEndian: boolean) => number | bigint;
}

// Types that have no dtype here are widened to the next one that holds every value.
const layouts: Record<ElementType, Layout> = {
  b1: { nbytes: 1, dtype: "bool", make: Uint8Array, widen: (v, at) => v.getUint8(at) && 1 },
  u1: { nbytes: 1, dtype: "uint8", make: Uint8Array },
  u2: { nbytes: 2, dtype: "int32", make: Int32Array, widen: (v, at, le) => v.getUint16(at, le) },
  u4: { nbytes: 4, dtype: "uint32", make: Uint32Array },
  i1: { nbytes: 1, dtype: "int8", make: Int8Array },
  i2: { nbytes: 2, dtype: "int16", make: Int16Array },
  i4: { nbytes: 4, dtype: "int32", make: Int32Array },
  i8: { nbytes: 8, dtype: "int64", make: BigInt64Array },
  f2: { nbytes: 2, dtype: "float16", make: Float16Array },
  f4: { nbytes: 4, dtype: "float32", make: Float32Array },
  f8: { nbytes: 8, dtype: "float64", make: Float64Array },
  bf: { nbytes: 2, dtype: "bfloat16", make: Float32Array, widen: bfloat16At },
  e4: { nbytes: 1, dtype: "float16", make: Float16Array, widen: (v, at) => float8(v.getUint8(at)) },
  e5: {
    nbytes: 1,
    dtype: "float16",
    make: Float16Array,
    widen: (v, at) => halfOf(v.getUint8(at) << 8),
  },
};

const scratch = new DataView(new ArrayBuffer(2));

/** The number that 16 bits of float16 stand for; the upper 8 alone are a float8 of 5 bits of exponent. */
function halfOf(bits: number): number {
  scratch.setUint16(0, bits);
  return scratch.getFloat16(0);
}

/** A float8 of 4 bits of exponent, without infinities ("E4M3FN" of P. Micikevicius et al., 2022). */
function float8(byte: number): number {
  if ((byte & 0x7f) === 0x7f) return NaN;
  // The exponent of a float16 is 8 higher.
  return halfOf((byte & 0x80) << 8 | (byte & 0x7f) << 7) * 256;
}

const elementTypes: Record<DType, ElementType> = {
  bool: "b1",
  uint8: "u1",
  int8: "i1",
  int16: "i2",
  uint32: "u4",
  int32: "i4",
  int64: "i8",
  float16: "f2",
  float32: "f4",
  float64: "f8",
  bfloat16: "bf",
};

/** The types that NumPy has, too. */
const numpyTypes = ["b1", "u1", "u2", "u4", "i1", "i2", "i4", "i8", "f2", "f4", "f8"];

/** True for the name of a layout in NumPy. */
export function isNumpyType(name: unknown): name is ElementType {
  return numpyTypes.includes(name as string);
}

const hostIsLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** The layout in which values of `dtype` are written. */
export function elementTypeOf(dtype: DType): ElementType {
  return elementTypes[dtype];
}

/** The bytes that one element takes in a file. */
export function elementBytes(type: ElementType): number {
  return layouts[type].nbytes;
}

/**
 * Reads all elements in `bytes` into an array of their own.
 *
 * @param type How they lie there.
 * @param bytes As many bytes as there are elements times {@link elementBytes}, at any alignment.
 * @param littleEndian The order of the bytes of an element.
 * @returns The values and the dtype that holds them all.
 */
export function decodeElements(
  type: ElementType,
  bytes: Uint8Array,
  littleEndian = true,
): { data: TypedArray; dtype: DType } {
  const { nbytes, dtype, make, widen } = layouts[type];
  const data = new make(bytes.byteLength / nbytes);
  if (widen) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let i = 0; i < data.length; i++) data[i] = widen(view, i * nbytes, littleEndian);
  } else {
    const into = new Uint8Array(data.buffer);
    into.set(bytes);
    if (nbytes > 1 && littleEndian !== hostIsLittleEndian) swapBytes(into, nbytes);
  }
  return { data, dtype };
}

/**
 * The little-endian bytes of values of `dtype`.
 *
 * @param data The values, in the array type that the dtype has on the host.
 * @param dtype What they are written as.
 * @returns A view of `data` itself where its bytes can be used as they are.
 */
export function encodeElements(data: TypedArray, dtype: DType): Uint8Array {
  const type = elementTypeOf(dtype);
  const own = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (dtype === "bfloat16") return bfloat16Bytes(data as ArrayLike<number>);
  if (data.BYTES_PER_ELEMENT !== elementBytes(type)) {
    throw new TypeError(
      `Cannot write ${data.constructor.name} values as ${dtype}: cast them first`,
    );
  }
  if (hostIsLittleEndian || data.BYTES_PER_ELEMENT === 1) return own;
  const swapped = own.slice();
  swapBytes(swapped, data.BYTES_PER_ELEMENT);
  return swapped;
}

function swapBytes(bytes: Uint8Array, width: number): void {
  for (let at = 0; at < bytes.length; at += width) bytes.subarray(at, at + width).reverse();
}

function bfloat16At(view: DataView, offset: number, littleEndian: boolean): number {
  return fromBfloat16Bits(view.getUint16(offset, littleEndian));
}

function bfloat16Bytes(values: ArrayLike<number>): Uint8Array {
  const bytes = new Uint8Array(2 * values.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i++) view.setUint16(2 * i, toBfloat16Bits(values[i]!), true);
  return bytes;
}
