/** Names of element types in OpenCL C; texts that read, write and spell their elements. */
import { type DType, dtypes } from "../../graph/dtype.ts";

/** `$b` stands for a buffer, `$i` for an index, `$v` for a value. */
interface OpenCLType {
  /** The type of an element in memory. */
  readonly storage: string;
  /** The type that arithmetic happens in: half types are computed in float. */
  readonly compute: string;
  /** An element in compute type; by default that is how it lies in memory. */
  readonly load?: string;
  /** The statement that stores a value of compute type. */
  readonly store?: string;
  /** The type of an element in a vector; by default that of one in memory. */
  readonly lane?: string;
  /** `$v`, an element of a vector, in compute type, and the other way; by default they are the same. */
  readonly fromLane?: string;
  readonly toLane?: string;
  /** The lowest and the highest number, where no literal spells them. */
  readonly limits?: readonly [lowest: string, highest: string];
}

const table: Readonly<Record<DType, OpenCLType>> = {
  float32: { storage: "float", compute: "float" },
  float16: {
    storage: "half",
    compute: "float",
    load: "vload_half($i, $b)",
    store: "vstore_half($v, $i, $b);",
    lane: "ushort",
    fromLane: "from_float16($v)",
    toLane: "to_float16($v)",
  },
  bfloat16: {
    storage: "ushort",
    compute: "float",
    load: "from_bfloat16($b[$i])",
    store: "$b[$i] = to_bfloat16($v);",
    fromLane: "from_bfloat16($v)",
    toLane: "to_bfloat16($v)",
  },
  float64: { storage: "double", compute: "double" },
  int32: { storage: "int", compute: "int", limits: ["INT_MIN", "INT_MAX"] },
  int64: { storage: "long", compute: "long", limits: ["LONG_MIN", "LONG_MAX"] },
  int16: { storage: "short", compute: "short" },
  int8: { storage: "char", compute: "char" },
  uint32: { storage: "uint", compute: "uint" },
  uint8: { storage: "uchar", compute: "uchar" },
  bool: { storage: "uchar", compute: "uchar" },
};

/** The OpenCL C type of an element in memory. */
export const storageType = (dtype: DType): string => table[dtype].storage;

/** The OpenCL C type that arithmetic on elements happens in. */
export const computeType = (dtype: DType): string => table[dtype].compute;

/** An element of a buffer in its compute type. */
export function loadText(buffer: string, dtype: DType, index: string): string {
  const { load = "$b[$i]" } = table[dtype];
  return load.replace(/\$[bi]/g, (name) => name === "$b" ? buffer : index);
}

/** A statement that stores a value of compute type in a buffer. */
export function storeText(buffer: string, dtype: DType, index: string, value: string): string {
  const { store = "$b[$i] = $v;" } = table[dtype];
  return store.replace(
    /\$[biv]/g,
    (name) => name === "$b" ? buffer : name === "$i" ? index : value,
  );
}

/** The type of so many elements as they lie in memory. */
export function vectorType(dtype: DType, lanes = 4): string {
  const { lane, storage } = table[dtype];
  return `${lane ?? storage}${lanes}`;
}

/** An element of a vector in its compute type. */
export function laneValue(dtype: DType, lane: string): string {
  return (table[dtype].fromLane ?? "$v").replace("$v", () => lane);
}

/** A value of compute type as an element of a vector. */
export function laneText(dtype: DType, value: string): string {
  return (table[dtype].toLane ?? "$v").replace("$v", () => value);
}

/** A number as OpenCL C text of the compute type of `dtype`. */
export function literal(value: number | bigint, dtype: DType): string {
  const { compute, limits } = table[dtype];
  return dtypes[dtype].kind === "float"
    ? floatLiteral(Number(value), compute)
    : limits && value === dtypes[dtype].lowest
    ? limits[0]
    : limits && value === dtypes[dtype].highest
    ? limits[1]
    : compute === "long"
    ? `${value}L`
    : `(${compute})${value}`;
}

function floatLiteral(value: number, compute: string): string {
  if (Number.isNaN(value)) return `(${compute})NAN`;
  if (!Number.isFinite(value)) {
    return value > 0 ? `(${compute})INFINITY` : `(-(${compute})INFINITY)`;
  }
  if (Object.is(value, -0)) return `(-${floatLiteral(0, compute)})`;
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : `${value}`;
  return compute === "double" ? text : `${text}f`;
}
