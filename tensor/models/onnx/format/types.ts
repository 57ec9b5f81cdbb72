/** The element types of ONNX, and those in which netcl holds them. */
import { type DType, dtypes } from "../../../../backend/internal.ts";
import type { ElementType } from "../../../io/core/elements.ts";

/** A type that is read. */
export interface OnnxType {
  /** Its number in files. */
  readonly number: number;
  /** Its name. */
  readonly name: string;
  /** The type that holds its values here. */
  readonly dtype: DType;
  /** Layout of its elements in files. */
  readonly layout: ElementType;
  /** Its least and largest value, where its holder has more. */
  readonly range?: readonly [low: number, high: number];
  /** Two elements share a byte of a file, the first one in its lower half. */
  readonly isPaired?: true;
}

const rows: readonly OnnxType[] = [
  { number: 1, name: "float32", dtype: "float32", layout: "f4" },
  { number: 2, name: "uint8", dtype: "uint8", layout: "u1" },
  { number: 3, name: "int8", dtype: "int8", layout: "i1" },
  { number: 4, name: "uint16", dtype: "int32", layout: "u2", range: [0, 65_535] },
  { number: 5, name: "int16", dtype: "int16", layout: "i2" },
  { number: 6, name: "int32", dtype: "int32", layout: "i4" },
  { number: 7, name: "int64", dtype: "int64", layout: "i8" },
  { number: 9, name: "bool", dtype: "bool", layout: "b1" },
  { number: 10, name: "float16", dtype: "float16", layout: "f2" },
  { number: 11, name: "float64", dtype: "float64", layout: "f8" },
  { number: 12, name: "uint32", dtype: "uint32", layout: "u4" },
  // The upper half of these is held as negative numbers.
  { number: 13, name: "uint64", dtype: "int64", layout: "i8" },
  { number: 16, name: "bfloat16", dtype: "bfloat16", layout: "bf" },
  // Two in a byte of a file, one in a byte here.
  { number: 21, name: "uint4", dtype: "uint8", layout: "u1", range: [0, 15], isPaired: true },
  { number: 22, name: "int4", dtype: "int8", layout: "i1", range: [-8, 7], isPaired: true },
];

/** Names of the types that are not read, for messages. */
const others: Readonly<Record<number, string>> = {
  8: "string",
  14: "complex64",
  15: "complex128",
  17: "float8e4m3fn",
  18: "float8e4m3fnuz",
  19: "float8e5m2",
  20: "float8e5m2fnuz",
  23: "float4e2m1",
};

/** The name of any type. */
export function typeName(number: number): string {
  return rows.find((row) => row.number === number)?.name ?? others[number] ?? `type ${number}`;
}

/**
 * A type by its number.
 *
 * @throws {TypeError} Where it is not read.
 */
export function typeByNumber(number: number): OnnxType {
  const found = rows.find((row) => row.number === number);
  if (found) return found;
  throw new TypeError(
    `Cannot run ONNX with elements of ${
      typeName(number)
    }: floats of 16 to 64 bits, whole numbers of ` +
      `4 to 64 and bool are read`,
  );
}

/** A type by its name. */
export function typeNamed(name: string): OnnxType {
  return rows.find((row) => row.name === name)!;
}

/** The type of ONNX that a type of netcl's is. */
export function typeOf(dtype: DType): OnnxType {
  return rows.find((row) => row.dtype === dtype && row.name === dtype)!;
}

/** The least and the greatest value of a type of whole numbers. */
export function boundsOf({ range, dtype }: OnnxType): readonly [low: number, high: number] {
  const { lowest, highest } = dtypes[dtype];
  return range ?? [Number(lowest), Number(highest)];
}
