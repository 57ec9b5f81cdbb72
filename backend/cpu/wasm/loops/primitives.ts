/** The scalar functions of kernels, on vectors of four lanes. What is not here has no vectors. */
import type { DType } from "../../../graph/dtype.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { kindOf, Unsupported } from "../lanes.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i32x4, v128 } from "../opcodes.ts";

/** Writes one function of vectors. */
type Row = (f: FunctionBuilder, m: VectorMath, a: Local, b: Local, c: Local) => Local;

const vector = (op: number): Row => (f, _, a) => f.v(op, a);
const vectors = (op: number): Row => (f, _, a, b) => f.v(op, a, b);
const math =
  (name: "exp" | "expm1" | "log" | "log1p" | "tanh" | "sigmoid" | "erf" | "sign"): Row =>
  (_, m, a) => m[name](a);
const where: Row = (_, m, a, b, c) => m.select(a, b, c);

/**
 * In doubles: a float quotient may be rounded up to the next whole number. A quotient by an infinity is
 * -1 where the signs differ, that of an infinity is NaN, but by zero.
 */
function floorOfQuotient(f: FunctionBuilder, m: VectorMath, a: Local, b: Local): Local {
  const half = (lanes: readonly [number, number]): Local => {
    const [x, y] = [a, b].map((v) => f.v(f64x2.promote, f.shuffle32(v, v, [...lanes, ...lanes])));
    return f.v(f32x4.demote, f.v(f64x2.floor, f.v(f64x2.div, x!, y!)));
  };
  const quotient = f.shuffle32(half([0, 1]), half([2, 3]), [0, 1, 4, 5]), zero = f.float(0);
  const vanished = f.v(
    v128.and,
    f.v(f32x4.eq, quotient, zero),
    f.v(f32x4.lt, f.v(f32x4.mul, a, b), zero),
  );
  const infinite = f.v(
    v128.and,
    f.v(f32x4.eq, f.v(f32x4.abs, a), f.float(Infinity)),
    f.v(f32x4.ne, b, zero),
  );
  return m.select(infinite, f.float(NaN), m.select(vanished, f.float(-1), quotient));
}

const floats: Readonly<Record<string, Row>> = {
  neg: vector(f32x4.neg),
  abs: vector(f32x4.abs),
  sqrt: vector(f32x4.sqrt),
  floor: vector(f32x4.floor),
  ceil: vector(f32x4.ceil),
  trunc: vector(f32x4.trunc),
  round: vector(f32x4.nearest),
  rsqrt: (f, _, a) => f.v(f32x4.div, f.float(1), f.v(f32x4.sqrt, a)),
  reciprocal: (f, _, a) => f.v(f32x4.div, f.float(1), a),
  exp: math("exp"),
  expm1: math("expm1"),
  log: math("log"),
  log1p: math("log1p"),
  tanh: math("tanh"),
  sigmoid: math("sigmoid"),
  erf: math("erf"),
  sign: math("sign"),
  isnan: (f, _, a) => f.v(f32x4.ne, a, a),
  isinf: (f, _, a) => f.v(f32x4.eq, f.v(f32x4.abs, a), f.float(Infinity)),
  not: (f, _, a) => f.v(f32x4.eq, a, f.float(0)),
  add: vectors(f32x4.add),
  sub: vectors(f32x4.sub),
  mul: vectors(f32x4.mul),
  div: vectors(f32x4.div),
  floordiv: floorOfQuotient,
  maximum: vectors(f32x4.max),
  minimum: vectors(f32x4.min),
  eq: vectors(f32x4.eq),
  ne: vectors(f32x4.ne),
  lt: vectors(f32x4.lt),
  le: vectors(f32x4.le),
  gt: vectors(f32x4.gt),
  ge: vectors(f32x4.ge),
  where,
};

const ints: Readonly<Record<string, Row>> = {
  neg: vector(i32x4.neg),
  abs: vector(i32x4.abs),
  not: (f, _, a) => f.v(i32x4.eq, a, f.splat(0)),
  add: vectors(i32x4.add),
  sub: vectors(i32x4.sub),
  mul: vectors(i32x4.mul),
  bitAnd: vectors(v128.and),
  bitOr: vectors(v128.or),
  bitXor: vectors(v128.xor),
  maximum: vectors(i32x4.maxS),
  minimum: vectors(i32x4.minS),
  eq: vectors(i32x4.eq),
  ne: vectors(i32x4.ne),
  lt: vectors(i32x4.ltS),
  le: vectors(i32x4.leS),
  gt: vectors(i32x4.gtS),
  ge: vectors(i32x4.geS),
  where,
};

const masks: Readonly<Record<string, Row>> = {
  not: vector(v128.not),
  and: vectors(v128.and),
  or: vectors(v128.or),
  xor: vectors(v128.xor),
  bitAnd: vectors(v128.and),
  bitOr: vectors(v128.or),
  bitXor: vectors(v128.xor),
  eq: (f, _, a, b) => f.v(v128.not, f.v(v128.xor, a, b)),
  ne: vectors(v128.xor),
  maximum: vectors(v128.or),
  minimum: vectors(v128.and),
  where,
};

const tables = { float: floats, int: ints, mask: masks } as const;

/** Instructions of the functions that have more than a few. */
const costs: Readonly<Record<string, number>> = {
  exp: 16,
  expm1: 20,
  log: 35,
  log1p: 45,
  tanh: 28,
  sigmoid: 22,
  erf: 75,
  div: 4,
  sqrt: 5,
  rsqrt: 8,
  reciprocal: 4,
  maximum: 6,
  minimum: 6,
};

/** About how many instructions a function takes. */
export function costOf(fn: string): number {
  return costs[fn] ?? 1;
}

/** The function of operands of `dtype`, in lanes of the kind of `result`. */
export function writePrimitive(
  f: FunctionBuilder,
  m: VectorMath,
  fn: string,
  args: readonly Local[],
  dtype: DType,
  result: DType,
): Local {
  const row = tables[kindOf(dtype)][fn];
  if (!row) throw new Unsupported(`${fn} of ${dtype}`);
  const [a, b, c] = args;
  const value = row(f, m, a!, b!, c!);
  const isByte = result === "uint8" && fn !== "where";
  return isByte ? f.v(v128.and, value, f.splat(255)) : value;
}

/** A value of one type as another. */
export function writeCast(
  f: FunctionBuilder,
  m: VectorMath,
  value: Local,
  from: DType,
  to: DType,
): Local {
  const [source, target] = [kindOf(from), kindOf(to)];
  if (target === "mask") {
    if (source === "mask") return value;
    return f.v(source === "float" ? f32x4.ne : i32x4.ne, value, f.splat(0));
  }
  if (target === "float") {
    if (source === "int") return f.v(f32x4.convert, value);
    return source === "mask" ? m.fromMask(value) : value;
  }
  if (source === "mask") return f.v(v128.and, value, f.splat(1));
  if (source === "float") {
    if (to === "uint8") throw new Unsupported("float as uint8");
    return f.v(i32x4.truncate, value);
  }
  return to === "uint8" ? f.v(v128.and, value, f.splat(255)) : value;
}
