/** The scalar functions of kernels, on four lanes of 64 bits: pairs of vectors. */
import type { DType } from "../../../graph/dtype.ts";
import type { PrimitiveName } from "../../../graph/primitives.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { expWide, logWide } from "../functions/doubles.ts";
import { kindOf, type WideKind } from "../lanes.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i64x2, v128 } from "../opcodes.ts";

/** Writes one function of pairs. */
type Write = (f: FunctionBuilder, m: VectorMath, a: Local, b: Local) => Local;

/** One operation of vectors. */
function op(code: number): Write {
  return (_, m, a, b) => m.wide(code, ...(b === undefined ? [a] : [a, b]));
}

/** A comparison, whose result has lanes of 32 bits. */
const test = (code: number): Write => (_, m, a, b) => m.lowHalves(m.wide(code, a, b));

/** A function of one vector of doubles, for both. */
function each(write: (f: FunctionBuilder, m: VectorMath, x: Local) => Local): Write {
  return (f, m, a) => {
    const [low, high] = f.halves(a).map((half) => write(f, m, half));
    return f.pair(low!, high!);
  };
}

const itself: Write = (_f, _m, a) => a;

const both = (f: FunctionBuilder, value: Local): Local => f.pair(value, value);

/** True in lanes that are not 0. */
function truth(f: FunctionBuilder, m: VectorMath, x: Local, kind: WideKind): Local {
  return m.lowHalves(m.wide(kind === "double" ? f64x2.ne : i64x2.ne, x, both(f, f.splat(0))));
}

function logic(code: number, kind: WideKind): Write {
  return (f, m, a, b) => f.v(code, truth(f, m, a, kind), truth(f, m, b, kind));
}

type Forms = Readonly<Partial<Record<PrimitiveName, Write>>>;

const tests = (
  codes: Readonly<Record<"eq" | "ne" | "lt" | "le" | "gt" | "ge", number>>,
): Forms => ({
  eq: test(codes.eq),
  ne: test(codes.ne),
  lt: test(codes.lt),
  le: test(codes.le),
  gt: test(codes.gt),
  ge: test(codes.ge),
});

const common = (kind: WideKind): Forms => ({
  not: (f, m, a) => f.v(v128.not, truth(f, m, a, kind)),
  and: logic(v128.and, kind),
  or: logic(v128.or, kind),
  xor: logic(v128.xor, kind),
});

/** Forms by kind; JavaScript does the rest. */
const forms: Readonly<Record<WideKind, Forms>> = {
  double: {
    ...common("double"),
    ...tests(f64x2),
    neg: op(f64x2.neg),
    abs: op(f64x2.abs),
    sqrt: op(f64x2.sqrt),
    rsqrt: each((f, _, x) => f.v(f64x2.div, f.double(1), f.v(f64x2.sqrt, x))),
    reciprocal: each((f, _, x) => f.v(f64x2.div, f.double(1), x)),
    exp: each(expWide),
    log: each(logWide),
    sigmoid: each((f, m, x) => {
      const e = expWide(f, m, f.v(f64x2.neg, x));
      return f.v(f64x2.div, f.double(1), f.v(f64x2.add, e, f.double(1)));
    }),
    floor: op(f64x2.floor),
    ceil: op(f64x2.ceil),
    trunc: op(f64x2.trunc),
    round: op(f64x2.nearest),
    isnan: (_, m, a) => m.lowHalves(m.wide(f64x2.ne, a, a)),
    isinf: (f, m, a) => {
      const infinity = both(f, f.double(Infinity));
      return m.lowHalves(m.wide(f64x2.eq, m.wide(f64x2.abs, a), infinity));
    },
    add: op(f64x2.add),
    sub: op(f64x2.sub),
    mul: op(f64x2.mul),
    div: op(f64x2.div),
    maximum: op(f64x2.max),
    minimum: op(f64x2.min),
  },
  long: {
    ...common("long"),
    ...tests(i64x2),
    neg: op(i64x2.neg),
    abs: op(i64x2.abs),
    floor: itself,
    ceil: itself,
    trunc: itself,
    round: itself,
    add: op(i64x2.add),
    sub: op(i64x2.sub),
    mul: op(i64x2.mul),
    maximum: (_, m, a, b) => m.wide(v128.bitselect, a, b, m.wide(i64x2.gt, a, b)),
    minimum: (_, m, a, b) => m.wide(v128.bitselect, a, b, m.wide(i64x2.lt, a, b)),
    bitAnd: op(v128.and),
    bitOr: op(v128.or),
    bitXor: op(v128.xor),
  },
};

/** True when there are lanes for a function of operands of 64 bits. */
export function hasWideForm(name: PrimitiveName, kind: WideKind): boolean {
  return name === "where" || forms[kind][name] !== undefined;
}

/** The function of operands of 64 bits; the condition of `where` has lanes of 32. */
export function writeWide(
  f: FunctionBuilder,
  m: VectorMath,
  name: PrimitiveName,
  kind: WideKind,
  args: readonly Local[],
): Local {
  if (name === "where") return m.choose(args[0]!, args[1]!, args[2]!);
  const write = forms[kind][name];
  if (write === undefined) throw new Error(`There are no wide lanes for ${name}`);
  return write(f, m, args[0]!, args[1]!);
}

/** True when lanes of a type can be made those of another, where one of them has 64 bits. */
export function castsWide(from: DType, to: DType): boolean {
  if (from === to) return true;
  if (kindOf(from) === "double") return ["float32", "int32", "bool"].includes(to);
  const isFloat = kindOf(from) === "float";
  return !(isFloat && to === "int64") && !(from === "int64" && to.endsWith("float16"));
}

/** A value of one type as another, where one of them has 64 bits; see {@linkcode castsWide}. */
export function writeWideCast(
  f: FunctionBuilder,
  m: VectorMath,
  value: Local,
  from: DType,
  to: DType,
): Local {
  const source = kindOf(from), target = kindOf(to);
  if (from === to) return value;
  if (source === "double" || source === "long") {
    if (target === "mask") return truth(f, m, value, source);
    if (source === "double") return narrowed(f, value, target === "float");
    if (target === "double" || target === "float") {
      const doubles = doublesOf(f, m, value);
      return target === "double" ? doubles : narrowed(f, doubles, true);
    }
    const low = m.lowHalves(value);
    return to === "uint8" ? f.v(v128.and, low, f.splat(255)) : low;
  }
  const whole = source === "mask" ? f.v(v128.and, value, f.splat(1)) : value;
  if (target === "long") {
    const [low, high] = from === "uint32"
      ? [i64x2.extendLowU, i64x2.extendHighU]
      : [i64x2.extendLow, i64x2.extendHigh];
    return f.pair(f.v(low, whole), f.v(high, whole));
  }
  const convert = source === "float" ? f64x2.promote : f64x2.convertS;
  const upper = f.shuffle32(whole, whole, [2, 3, 2, 3]);
  return f.pair(f.v(convert, whole), f.v(convert, upper));
}

/** Doubles as floats, or as whole numbers of 32 bits held at their bounds. */
function narrowed(f: FunctionBuilder, value: Local, isFloat: boolean): Local {
  const [low, high] = f.halves(value).map((half) =>
    f.v(isFloat ? f32x4.demote : f64x2.truncate, half)
  );
  return f.shuffle32(low!, high!, [0, 1, 4, 5]);
}

/** Whole numbers of 64 bits as doubles: the sum of their halves is rounded once. */
function doublesOf(f: FunctionBuilder, m: VectorMath, value: Local): Local {
  const upper = m.highHalves(value), lower = m.lowHalves(value);
  const [low, high] = [[0, 1, 0, 1], [2, 3, 2, 3]].map((lanes) => {
    const above = f.v(f64x2.convertS, f.shuffle32(upper, upper, lanes));
    const below = f.v(f64x2.convertU, f.shuffle32(lower, lower, lanes));
    return f.v(f64x2.add, f.v(f64x2.mul, above, f.double(2 ** 32)), below);
  });
  return f.pair(low!, high!);
}
