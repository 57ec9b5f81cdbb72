/** The scalar functions as plain JavaScript functions: what generated text is held against. */
import { type DType, dtypes } from "../../graph/dtype.ts";
import * as scalar from "../script/scalar.ts";

/** A number of any element type; int64 is a bigint. */
export type Value = number | bigint;

type Fn<T> = (a: T, b: T) => T;

const floats: Readonly<Record<string, Fn<number>>> = {
  neg: (a) => -a,
  abs: Math.abs,
  sign: (a) => Number(a > 0) - Number(a < 0),
  exp: Math.exp,
  exp2: (a) => 2 ** a,
  expm1: Math.expm1,
  log: Math.log,
  log2: Math.log2,
  log10: Math.log10,
  log1p: Math.log1p,
  sqrt: Math.sqrt,
  rsqrt: (a) => 1 / Math.sqrt(a),
  reciprocal: (a) => 1 / a,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  asinh: Math.asinh,
  acosh: Math.acosh,
  atanh: Math.atanh,
  erf: scalar.erf,
  erfc: scalar.erfc,
  sigmoid: (a) => 1 / (1 + Math.exp(-a)),
  floor: Math.floor,
  ceil: Math.ceil,
  trunc: Math.trunc,
  round: scalar.roundEven,
  roundFloat16: Math.f16round,
  roundBfloat16: scalar.roundBfloat16,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  mod: scalar.floatMod,
  floordiv: scalar.floatFloorDiv,
  pow: scalar.power,
  atan2: Math.atan2,
  maximum: Math.max,
  minimum: Math.min,
};

const ints: typeof floats = {
  ...floats,
  bitAnd: (a, b) => a & b,
  bitOr: (a, b) => a | b,
  bitXor: (a, b) => a ^ b,
  shiftLeft: (a, b) => a << b,
  shiftRight: (a, b) => a >> b,
  mul: Math.imul,
  div: scalar.intDiv,
  mod: scalar.intMod,
  floordiv: scalar.intFloorDiv,
  pow: scalar.intPow,
};

const bigs: Readonly<Record<string, Fn<bigint>>> = {
  neg: (a) => -a,
  abs: scalar.bigAbs,
  sign: scalar.bigSign,
  floor: (a) => a,
  ceil: (a) => a,
  trunc: (a) => a,
  round: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  bitAnd: (a, b) => a & b,
  bitOr: (a, b) => a | b,
  bitXor: (a, b) => a ^ b,
  shiftLeft: (a, b) => a << b,
  shiftRight: (a, b) => a >> b,
  div: scalar.bigDiv,
  mod: scalar.bigMod,
  floordiv: scalar.bigFloorDiv,
  pow: scalar.bigPow,
  maximum: (a, b) => a > b ? a : b,
  minimum: (a, b) => a < b ? a : b,
};

const tests: Readonly<Record<string, (a: Value, b: Value) => boolean>> = {
  isnan: (a) => Number.isNaN(a),
  isinf: (a) => a === Infinity || a === -Infinity,
  not: (a) => !isTrue(a),
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
  and: (a, b) => isTrue(a) && isTrue(b),
  or: (a, b) => isTrue(a) || isTrue(b),
  xor: (a, b) => isTrue(a) !== isTrue(b),
};

/** NaN is true, as in C. */
function isTrue(value: Value): boolean {
  return Number.isNaN(value) || Boolean(value);
}

/** A number brought into the range of its type; fractions of floats are kept. */
function wrap(value: Value, dtype: DType): Value {
  if (typeof value === "bigint") return BigInt.asIntN(64, value);
  if (dtype === "int32") return value | 0;
  if (dtype === "uint8") return value & 255;
  return dtype === "bool" ? Number(Boolean(value)) : value;
}

/**
 * Applies a scalar function to operands of `dtype`.
 *
 * @throws {Error} When there is none of that name for the type.
 */
export function applyPrimitive(
  name: string,
  operands: readonly Value[],
  dtype: DType,
  result: DType,
): Value {
  const [a, b, c] = operands as [Value, Value, Value];
  if (name === "where") return a ? b : c;
  const test = tests[name];
  if (test) return Number(test(a, b));
  const table = dtype === "int64" ? bigs : dtypes[dtype].kind === "float" ? floats : ints;
  const fn = table[name] as Fn<Value> | undefined;
  if (!fn) throw new Error(`There is no function "${name}" of ${dtype}`);
  return wrap(fn(a, b), result);
}

/** A number of one type as one of another. */
export function castValue(value: Value, from: DType, to: DType): Value {
  if (to === "bool") return Number(Number(value) !== 0);
  if (to === "int64") return typeof value === "bigint" ? value : scalar.toBigInt(value);
  if (typeof value === "bigint") {
    if (to === "int32") return Number(BigInt.asIntN(32, value));
    return to === "uint8" ? Number(BigInt.asUintN(8, value)) : Number(value);
  }
  if (to === "uint8") return value & 255;
  return to === "int32" && dtypes[from].kind === "float" ? scalar.toInt32(value) : value;
}

/** A result in the precision in which its type is computed; sums on the way are kept in doubles. */
export function rounded(value: Value, dtype: DType): Value {
  const isSingle = dtypes[dtype].kind === "float" && dtype !== "float64";
  return isSingle ? Math.fround(value as number) : value;
}

/** A literal of a type. */
export function constantValue(value: number, dtype: DType): Value {
  return dtype === "int64" ? BigInt(Math.trunc(value)) : value;
}
