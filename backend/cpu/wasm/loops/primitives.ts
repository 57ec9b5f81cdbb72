/**
 * The scalar functions of kernels, on vectors of four lanes: those of which lanes are quicker. JavaScript
 * computes the others.
 */
import { functions } from "../../../codegen/functions/functions.ts";
import type { DType } from "../../../graph/dtype.ts";
import type { PrimitiveName } from "../../../graph/primitives.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import {
  floorOfQuotient,
  remainder,
  wholeQuotient,
  wholeRemainder,
} from "../functions/remainders.ts";
import { isWide, kindOf, type LaneKind, signExtended } from "../lanes.ts";
import type { VectorMath } from "../math.ts";
import { castsWide, hasWideForm, writeWide, writeWideCast } from "./wide_primitives.ts";
import { f32x4, i32x4, v128 } from "../opcodes.ts";

/** Writes one function of vectors. */
type Write = (f: FunctionBuilder, m: VectorMath, a: Local, b: Local, c: Local) => Local;

/** Writer of a function, and its rough cost in instructions. */
interface LaneForm {
  readonly write: Write;
  readonly cost: number;
}

function form(write: Write, cost = 1): LaneForm {
  return { write, cost };
}
const vector = (op: number): LaneForm => form((f, _, a) => f.v(op, a));
const vectors = (op: number): LaneForm => form((f, _, a, b) => f.v(op, a, b));
/** A function that every writer has. */
function math(name: keyof typeof functions, cost: number): LaneForm {
  return form((_, m, a, b) => functions[name](m, a, b), cost);
}

type ByKind = Readonly<Partial<Record<LaneKind, LaneForm>>>;

function numbers(float: LaneForm, int: LaneForm): ByKind {
  return { float, int };
}

function floats(float: LaneForm): ByKind {
  return { float };
}

const itself = form((_f, _m, a) => a);

/** An operation on truth values; a number is true where it is not 0. */
function logic(op: number): ByKind {
  return {
    float: form((f, _, a, b) =>
      f.v(op, f.v(f32x4.ne, a, f.float(0)), f.v(f32x4.ne, b, f.float(0)))
    ),
    int: form((f, _, a, b) => f.v(op, f.v(i32x4.ne, a, f.splat(0)), f.v(i32x4.ne, b, f.splat(0)))),
    mask: vectors(op),
  };
}

/** NaN where one of the operands is; of two zeros the second, as in OpenCL C, where the engine's have an order. */
const extreme = (nearest: number): LaneForm =>
  form((f, m, a, b) => m.select(f.v(f32x4.ne, a, a), a, f.v(nearest, b, a)), 3);

const forms: Readonly<Partial<Record<PrimitiveName, LaneForm | ByKind>>> = {
  neg: numbers(vector(f32x4.neg), vector(i32x4.neg)),
  abs: numbers(vector(f32x4.abs), vector(i32x4.abs)),
  sign: floats(form((_, m, a) => m.sign(a))),
  exp: math("exp", 16),
  exp2: math("exp2", 36),
  expm1: math("expm1", 20),
  log: math("log", 35),
  log2: math("log2", 48),
  log10: math("log10", 50),
  log1p: math("log1p", 45),
  sqrt: { ...vector(f32x4.sqrt), cost: 5 },
  rsqrt: form((f, _, a) => f.v(f32x4.div, f.float(1), f.v(f32x4.sqrt, a)), 8),
  reciprocal: form((f, _, a) => f.v(f32x4.div, f.float(1), a), 4),
  sin: math("sin", 24),
  cos: math("cos", 26),
  tan: math("tan", 32),
  asin: math("asin", 22),
  acos: math("acos", 24),
  atan: math("atan", 24),
  sinh: math("sinh", 34),
  cosh: math("cosh", 24),
  tanh: math("tanh", 28),
  asinh: math("asinh", 60),
  acosh: math("acosh", 60),
  atanh: math("atanh", 52),
  erf: math("erf", 45),
  erfc: math("erfc", 90),
  sigmoid: math("sigmoid", 22),
  floor: numbers(vector(f32x4.floor), itself),
  ceil: numbers(vector(f32x4.ceil), itself),
  trunc: numbers(vector(f32x4.trunc), itself),
  round: numbers(vector(f32x4.nearest), itself),
  isnan: floats(form((f, _, a) => f.v(f32x4.ne, a, a))),
  isinf: floats(form((f, _, a) => f.v(f32x4.eq, f.v(f32x4.abs, a), f.float(Infinity)))),
  roundFloat16: form((_, m, a) => m.fromFloat16(m.toFloat16(a)), 28),
  roundBfloat16: form((_, m, a) => m.fromBfloat16(m.toBfloat16(a)), 9),
  not: {
    float: form((f, _, a) => f.v(f32x4.eq, a, f.float(0))),
    int: form((f, _, a) => f.v(i32x4.eq, a, f.splat(0))),
    mask: vector(v128.not),
  },
  add: numbers(vectors(f32x4.add), vectors(i32x4.add)),
  sub: numbers(vectors(f32x4.sub), vectors(i32x4.sub)),
  mul: numbers(vectors(f32x4.mul), vectors(i32x4.mul)),
  div: floats({ ...vectors(f32x4.div), cost: 4 }),
  mod: numbers(form(remainder, 50), form(wholeRemainder, 20)),
  floordiv: numbers(form(floorOfQuotient, 24), form(wholeQuotient, 18)),
  pow: floats(math("pow", 120)),
  atan2: math("atan2", 36),
  maximum: {
    float: extreme(f32x4.pmax),
    int: vectors(i32x4.maxS),
    mask: vectors(v128.or),
  },
  minimum: {
    float: extreme(f32x4.pmin),
    int: vectors(i32x4.minS),
    mask: vectors(v128.and),
  },
  eq: {
    float: vectors(f32x4.eq),
    int: vectors(i32x4.eq),
    mask: form((f, _, a, b) => f.v(v128.not, f.v(v128.xor, a, b))),
  },
  ne: { float: vectors(f32x4.ne), int: vectors(i32x4.ne), mask: vectors(v128.xor) },
  lt: numbers(vectors(f32x4.lt), vectors(i32x4.ltS)),
  le: numbers(vectors(f32x4.le), vectors(i32x4.leS)),
  gt: numbers(vectors(f32x4.gt), vectors(i32x4.gtS)),
  ge: numbers(vectors(f32x4.ge), vectors(i32x4.geS)),
  and: logic(v128.and),
  or: logic(v128.or),
  xor: logic(v128.xor),
  bitAnd: vectors(v128.and),
  bitOr: vectors(v128.or),
  bitXor: vectors(v128.xor),
  where: form((_, m, a, b, c) => m.select(a, b, c)),
};

/** The form for lanes of one kind; undefined where there is none. */
function formOf(name: PrimitiveName, kind: LaneKind): LaneForm | undefined {
  const row = forms[name];
  return row === undefined || "write" in row ? row : row[kind];
}

/** About how many instructions a function takes, of lanes of the kind that takes most. */
export function costOf(name: PrimitiveName): number {
  return (formOf(name, "float") ?? formOf(name, "int") ?? formOf(name, "mask"))?.cost ?? 1;
}

/** The function of operands of `dtype`, in lanes of the kind of `result`. */
export function writePrimitive(
  f: FunctionBuilder,
  m: VectorMath,
  name: PrimitiveName,
  args: readonly Local[],
  dtype: DType,
  result: DType,
): Local {
  const kind = kindOf(dtype);
  if (isWide(kind)) return writeWide(f, m, name, kind, args);
  const found = formOf(name, kind);
  if (found === undefined) throw new Error(`There are no lanes for ${name} of ${dtype}`);
  const [a, b, c] = args;
  const value = found.write(f, m, a!, b!, c!);
  const isByte = result === "uint8" && name !== "where";
  return isByte ? f.v(v128.and, value, f.splat(255)) : value;
}

/** True when there are lanes for a function of operands of `dtype`, which has lanes. */
export function hasLaneForm(name: PrimitiveName, dtype: DType): boolean {
  const kind = kindOf(dtype);
  return isWide(kind) ? hasWideForm(name, kind) : formOf(name, kind) !== undefined;
}

/** True when lanes of one type can be made those of another: a float out of range is no uint8. */
export function castsInLanes(from: DType, to: DType): boolean {
  const [source, target] = [kindOf(from), kindOf(to)];
  if (isWide(source) || isWide(target)) return castsWide(from, to);
  return to !== "uint8" || source !== "float";
}

/** A value of one type as another; see {@linkcode castsInLanes}. */
export function writeCast(
  f: FunctionBuilder,
  m: VectorMath,
  value: Local,
  from: DType,
  to: DType,
): Local {
  const [source, target] = [kindOf(from), kindOf(to)];
  if (isWide(source) || isWide(target)) return writeWideCast(f, m, value, from, to);
  if (target === "mask") {
    if (source === "mask") return value;
    return f.v(source === "float" ? f32x4.ne : i32x4.ne, value, f.splat(0));
  }
  if (target === "float") {
    if (source === "int") return f.v(f32x4.convert, value);
    return source === "mask" ? m.fromMask(value) : value;
  }
  if (source === "mask") return f.v(v128.and, value, f.splat(1));
  // A float as uint8 is none of these: see castsInLanes.
  if (source === "float") return f.v(i32x4.truncate, value);
  if (to === "int8" || to === "int16") return signExtended(f, value, to);
  return to === "uint8" ? f.v(v128.and, value, f.splat(255)) : value;
}
