/**
 * Element types: their size, how they are stored, and what arithmetic on them happens in. To add one,
 * name it in `DType`: type checking then names every table that lacks it, here, in the writers of both
 * backends, in `tensor/io` and in `tensor/distributed`. One that names the type it is `computedIn` needs loads,
 * stores and casts to that type alone: nodes compute in the wider one.
 */

/** The element type of a tensor. */
export type DType =
  | "float32"
  | "float16"
  | "bfloat16"
  | "float64"
  | "int32"
  | "int64"
  | "int16"
  | "int8"
  | "uint32"
  | "uint8"
  | "bool";

/** A typed array that can hold the elements of a tensor on the host. */
export type TypedArray<Memory extends ArrayBufferLike = ArrayBuffer> =
  | Float32Array<Memory>
  | Float64Array<Memory>
  | Float16Array<Memory>
  | Int32Array<Memory>
  | Int16Array<Memory>
  | Int8Array<Memory>
  | Uint32Array<Memory>
  | BigInt64Array<Memory>
  | Uint8Array<Memory>
  | Uint16Array<Memory>;

/** Kind of number that an element type is. */
export type DTypeKind = "float" | "int" | "bool";

/** Everything that code generators and transfers must know about an element type. */
export interface DTypeInfo {
  /** Bytes of one element. */
  readonly bytes: number;
  /** Floating point, integer or truth value. */
  readonly kind: DTypeKind;
  /** The least value; where there are infinities, the negative one. */
  readonly lowest: number | bigint;
  /** The greatest value. */
  readonly highest: number | bigint;
  /**
   * The type in which numbers of this one are computed, where memory alone has them: every result is that of
   * the wider type, cast back, so that whole numbers wrap around.
   */
  readonly computedIn?: "int32" | "int64";
  /** A view of the raw bytes of a buffer of this type; bfloat16 is seen as its 16 bits. */
  readonly view: View;
}

type View = (buffer: ArrayBuffer, byteOffset: number, length: number) => TypedArray;
type Ends = Pick<DTypeInfo, "lowest" | "highest">;

const infinite: Ends = { lowest: -Infinity, highest: Infinity };
const bits64: Ends = { lowest: -(2n ** 63n), highest: 2n ** 63n - 1n };
const signed = (bits: number): Ends => ({
  lowest: -(2 ** (bits - 1)),
  highest: 2 ** (bits - 1) - 1,
});
const unsigned = (bits: number): Ends => ({ lowest: 0, highest: 2 ** bits - 1 });

const float32: View = (b, o, n) => new Float32Array(b, o, n);
const float16: View = (b, o, n) => new Float16Array(b, o, n);
const float64: View = (b, o, n) => new Float64Array(b, o, n);
const int64: View = (b, o, n) => new BigInt64Array(b, o, n);
const int32: View = (b, o, n) => new Int32Array(b, o, n);
const int16: View = (b, o, n) => new Int16Array(b, o, n);
const int8: View = (b, o, n) => new Int8Array(b, o, n);
const uint32: View = (b, o, n) => new Uint32Array(b, o, n);
const uint16: View = (b, o, n) => new Uint16Array(b, o, n);
const uint8: View = (b, o, n) => new Uint8Array(b, o, n);

/** The table of element types. */
export const dtypes: Readonly<Record<DType, DTypeInfo>> = {
  float32: { bytes: 4, kind: "float", ...infinite, view: float32 },
  float16: { bytes: 2, kind: "float", ...infinite, view: float16 },
  bfloat16: { bytes: 2, kind: "float", ...infinite, view: uint16 },
  float64: { bytes: 8, kind: "float", ...infinite, view: float64 },
  int32: { bytes: 4, kind: "int", ...signed(32), view: int32 },
  int64: { bytes: 8, kind: "int", ...bits64, view: int64 },
  int16: { bytes: 2, kind: "int", ...signed(16), computedIn: "int32", view: int16 },
  int8: { bytes: 1, kind: "int", ...signed(8), computedIn: "int32", view: int8 },
  uint32: { bytes: 4, kind: "int", ...unsigned(32), computedIn: "int64", view: uint32 },
  uint8: { bytes: 1, kind: "int", ...unsigned(8), view: uint8 },
  bool: { bytes: 1, kind: "bool", ...unsigned(1), view: uint8 },
};

/** True for the types with a fractional part. */
export const isFloat = (dtype: DType): boolean => dtypes[dtype].kind === "float";

const scratch = new DataView(new ArrayBuffer(4));

/** Rounds a number to bfloat16 (to nearest, ties to even) and returns its 16 bits. */
export function toBfloat16Bits(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The number that 16 bits of bfloat16 stand for. */
export function fromBfloat16Bits(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}
