/** The scalar functions as plain JavaScript functions: what generated text is held against. */
import { type DType, dtypes, isFloat } from "../../graph/dtype.ts";
import { accepts, type PrimitiveName, type ScriptKind } from "../../graph/primitives.ts";
import * as scalar from "../../graph/scalar.ts";

/** A number of any element type; int64 is a bigint. */
export type Value = number | bigint;

type Numbers = (a: number, b: number) => number;
type BigInts = (a: bigint, b: bigint) => bigint;
/** Takes numbers as well as bigints. */
type Any = (a: Value, b: Value, c: Value) => Value | boolean;
type Form = Numbers | BigInts | Any;

/** One function of numbers, another one of bigints. */
function numbers(
  float: Numbers,
  big: BigInts,
  int: Numbers = float,
): Readonly<Record<ScriptKind, Form>> {
  return { float, int, big };
}

const any = (form: Any): Any => form;

const itself = <T>(a: T): T => a;

type Row = Form | Readonly<Partial<Record<ScriptKind, Form>>>;

/** Scalar functions; those of `scalar.ts` and of `Math` with the same name need no row. */
const forms:
  & Readonly<Partial<Record<PrimitiveName, Row>>>
  & Readonly<Record<Exclude<PrimitiveName, keyof Math | keyof typeof scalar>, Row>> = {
    neg: numbers((a) => -a, (a) => -a),
    abs: numbers(Math.abs, scalar.bigAbs),
    sign: numbers((a) => Number(a > 0) - Number(a < 0), scalar.bigSign),
    exp2: (a: number) => 2 ** a,
    rsqrt: (a: number) => 1 / Math.sqrt(a),
    reciprocal: (a: number) => 1 / a,
    sigmoid: (a: number) => 1 / (1 + Math.exp(-a)),
    floor: numbers(Math.floor, itself),
    ceil: numbers(Math.ceil, itself),
    trunc: numbers(Math.trunc, itself),
    round: numbers(scalar.roundEven, itself),
    isnan: any((a) => Number.isNaN(a)),
    isinf: any((a) => a === Infinity || a === -Infinity),
    roundFloat16: Math.f16round,
    not: any((a) => !isTrue(a)),
    add: numbers((a, b) => a + b, (a, b) => a + b),
    sub: numbers((a, b) => a - b, (a, b) => a - b),
    mul: numbers((a, b) => a * b, (a, b) => a * b, Math.imul),
    div: numbers((a, b) => a / b, scalar.bigDiv, scalar.intDiv),
    mod: numbers(scalar.floatMod, scalar.bigMod, scalar.intMod),
    floordiv: numbers(scalar.floatFloorDiv, scalar.bigFloorDiv, scalar.intFloorDiv),
    pow: numbers(scalar.power, scalar.bigPow, scalar.intPow),
    maximum: numbers((a, b) => Math.max(a, b), (a, b) => a > b ? a : b),
    minimum: numbers((a, b) => Math.min(a, b), (a, b) => a < b ? a : b),
    eq: any((a, b) => a === b),
    ne: any((a, b) => a !== b),
    lt: any((a, b) => a < b),
    le: any((a, b) => a <= b),
    gt: any((a, b) => a > b),
    ge: any((a, b) => a >= b),
    and: any((a, b) => isTrue(a) && isTrue(b)),
    or: any((a, b) => isTrue(a) || isTrue(b)),
    xor: any((a, b) => isTrue(a) !== isTrue(b)),
    bitAnd: { int: (a: number, b: number) => a & b, big: (a: bigint, b: bigint) => a & b },
    bitOr: { int: (a: number, b: number) => a | b, big: (a: bigint, b: bigint) => a | b },
    bitXor: { int: (a: number, b: number) => a ^ b, big: (a: bigint, b: bigint) => a ^ b },
    shiftLeft: { int: (a: number, b: number) => a << b, big: (a: bigint, b: bigint) => a << b },
    shiftRight: { int: (a: number, b: number) => a >> b, big: (a: bigint, b: bigint) => a >> b },
    where: any((a, b, c) => a ? b : c),
  };

/** NaN is true, as in C. */
const isTrue = (value: Value): boolean => Number.isNaN(value) || Boolean(value);

/** A number brought into the range of its type; fractions of floats are kept. */
function wrap(value: Value, dtype: DType): Value {
  if (typeof value === "bigint") return BigInt.asIntN(64, value);
  if (dtype === "int32") return value | 0;
  if (dtype === "uint8") return value & 255;
  return dtype === "bool" ? Number(Boolean(value)) : value;
}

function formOf(name: PrimitiveName, kind: ScriptKind): Form {
  const row = forms[name];
  if (row === undefined) return name in scalar ? scalar[name as "erf"] : Math[name as "exp"];
  return typeof row === "function" ? row : row[kind]!;
}

/**
 * Applies a scalar function to operands of `dtype`.
 *
 * @throws {TypeError} When it does not take that type.
 */
export function applyPrimitive(
  name: PrimitiveName,
  operands: readonly Value[],
  dtype: DType,
  result: DType,
): Value {
  const [a, b, c] = operands as [Value, Value, Value];
  if (!accepts(name, dtype)) throw new TypeError(`${name} takes no operands of ${dtype}`);
  const kind = dtype === "int64" ? "big" : isFloat(dtype) ? "float" : "int";
  const value = (formOf(name, kind) as Any)(a, b, c);
  return typeof value === "boolean" ? Number(value) : wrap(value, result);
}

/** A number of one type as one of another. */
export function castValue(value: Value, from: DType, to: DType): Value {
  if (to === "bool") return Number(Number(value) !== 0);
  if (to === "int64") return typeof value === "bigint" ? value : scalar.toBigInt(value);
  if (typeof value === "bigint") {
    if (to === "int32") return Number(BigInt.asIntN(32, value));
    if (to === "uint32") return Number(BigInt.asUintN(32, value));
    return to === "uint8" ? Number(BigInt.asUintN(8, value)) : Number(value);
  }
  if (to === "uint8") return value & 255;
  if (to === "int8") return value << 24 >> 24;
  if (to === "int16") return value << 16 >> 16;
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
