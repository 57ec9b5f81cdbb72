/**
 * The scalar functions that kernels are made of, each with its OpenCL C and its JavaScript text side
 * by side. `$0`, `$1`, `$2` stand for the operands, which have one type; a float text is used for
 * every floating type, an integer text for the others.
 */
import { type DType, dtypes } from "../graph/dtype.ts";

/** How one scalar function is written in each target language. */
export interface Primitive {
  /** How many operands it takes. */
  readonly arity: 1 | 2 | 3;
  /** The type of the result: that of the operands, or a truth value. */
  readonly result: "same" | "bool";
  /** OpenCL C for floating operands. */
  readonly cl: string;
  /** OpenCL C for integer operands, where it differs; null where integers are not taken. */
  readonly clInt?: string | null;
  /** True where only integers and truth values are taken; `cl` is their text. */
  readonly isBitwise?: boolean;
  /** JavaScript for numbers. */
  readonly js: string;
  /** JavaScript for int32 and uint8, where it differs. */
  readonly jsInt?: string;
  /** JavaScript for int64 (bigint), where it differs. */
  readonly jsBig?: string;
  /** Rough cost in additions: decides between computing again and storing. */
  readonly cost: number;
}

type Row = Omit<Primitive, "arity" | "result" | "cost"> & { cost?: number; result?: "bool" };

function unary(rows: Record<string, Row>): Record<string, Primitive> {
  return table(1, rows);
}
function binary(rows: Record<string, Row>): Record<string, Primitive> {
  return table(2, rows);
}
function table(arity: 1 | 2 | 3, rows: Record<string, Row>): Record<string, Primitive> {
  const out: Record<string, Primitive> = {};
  for (const [name, row] of Object.entries(rows)) {
    out[name] = { ...row, arity, result: row.result ?? "same", cost: row.cost ?? 1 };
  }
  return out;
}

function fn(name: string, cost = 8, js = `Math.${name}($0)`): Row {
  return { cl: `${name}($0)`, clInt: null, js, cost };
}

function comparison(operator: string, js = operator): Row {
  const text = `($0 ${operator} $1)`;
  return { cl: text, js: `($0 ${js} $1 ? 1 : 0)`, result: "bool" };
}

/** Every scalar function, by name. */
export const primitives: Readonly<Record<string, Primitive>> = {
  ...unary({
    neg: { cl: "(-$0)", js: "(-$0)" },
    abs: { cl: "fabs($0)", clInt: "($0 < 0 ? -$0 : $0)", js: "Math.abs($0)", jsBig: "bigAbs($0)" },
    // 0 for NaN, as in PyTorch.
    sign: {
      cl: "($T)(($0 > 0) - ($0 < 0))",
      clInt: "(($0 > 0) - ($0 < 0))",
      js: "(($0 > 0) - ($0 < 0))",
      jsBig: "bigSign($0)",
    },
    exp: fn("exp"),
    exp2: fn("exp2", 8, "2 ** $0"),
    expm1: fn("expm1"),
    log: fn("log"),
    log2: fn("log2"),
    log10: fn("log10"),
    log1p: fn("log1p"),
    sqrt: fn("sqrt", 4),
    rsqrt: { cl: "(1 / sqrt($0))", clInt: null, js: "(1 / Math.sqrt($0))", cost: 5 },
    reciprocal: { cl: "(1 / $0)", clInt: null, js: "(1 / $0)", cost: 2 },
    sin: fn("sin"),
    cos: fn("cos"),
    tan: fn("tan"),
    asin: fn("asin"),
    acos: fn("acos"),
    atan: fn("atan"),
    sinh: fn("sinh"),
    cosh: fn("cosh"),
    tanh: fn("tanh"),
    asinh: fn("asinh"),
    acosh: fn("acosh"),
    atanh: fn("atanh"),
    erf: fn("erf", 12, "erf($0)"),
    erfc: fn("erfc", 12, "erfc($0)"),
    sigmoid: { cl: "(1 / (1 + exp(-$0)))", clInt: null, js: "(1 / (1 + Math.exp(-$0)))", cost: 9 },
    floor: { cl: "floor($0)", clInt: "($0)", js: "Math.floor($0)", jsBig: "($0)" },
    ceil: { cl: "ceil($0)", clInt: "($0)", js: "Math.ceil($0)", jsBig: "($0)" },
    trunc: { cl: "trunc($0)", clInt: "($0)", js: "Math.trunc($0)", jsBig: "($0)" },
    round: { cl: "rint($0)", clInt: "($0)", js: "roundEven($0)", jsBig: "($0)" },
    isnan: { cl: "isnan($0)", clInt: "(0 * $0)", js: "($0 !== $0 ? 1 : 0)", result: "bool" },
    isinf: {
      cl: "isinf($0)",
      clInt: "(0 * $0)",
      js: "(Math.abs($0) === Infinity ? 1 : 0)",
      jsBig: "0",
      result: "bool",
    },
    // What a number becomes in memory of half precision, where it is computed on and not stored.
    roundFloat16: { cl: "round_float16($0)", clInt: null, js: "Math.f16round($0)", cost: 2 },
    roundBfloat16: {
      cl: "from_bfloat16(to_bfloat16($0))",
      clInt: null,
      js: "roundBfloat16($0)",
      cost: 2,
    },
    not: { cl: "(!$0)", js: "($0 !== 0 ? 0 : 1)", jsBig: "($0 ? 0 : 1)", result: "bool" },
  }),
  ...binary({
    add: { cl: "($0 + $1)", js: "($0 + $1)" },
    sub: { cl: "($0 - $1)", js: "($0 - $1)" },
    mul: { cl: "($0 * $1)", js: "($0 * $1)", jsInt: "Math.imul($0, $1)" },
    div: {
      cl: "($0 / $1)",
      clInt: "safe_div_$T($0, $1)",
      js: "($0 / $1)",
      jsInt: "intDiv($0, $1)",
      jsBig: "bigDiv($0, $1)",
      cost: 4,
    },
    // Python's remainder: the result has the sign of the divisor.
    mod: {
      cl: "float_mod_$T($0, $1)",
      clInt: "safe_mod_$T($0, $1)",
      js: "floatMod($0, $1)",
      jsInt: "intMod($0, $1)",
      jsBig: "bigMod($0, $1)",
      cost: 6,
    },
    floordiv: {
      cl: "float_floordiv_$T($0, $1)",
      clInt: "safe_floordiv_$T($0, $1)",
      js: "floatFloorDiv($0, $1)",
      jsInt: "intFloorDiv($0, $1)",
      jsBig: "bigFloorDiv($0, $1)",
      cost: 8,
    },
    pow: {
      cl: "pow($0, $1)",
      clInt: "int_pow_$T($0, $1)",
      js: "power($0, $1)",
      jsInt: "intPow($0, $1)",
      jsBig: "bigPow($0, $1)",
      cost: 16,
    },
    atan2: { cl: "atan2($0, $1)", clInt: null, js: "Math.atan2($0, $1)", cost: 12 },
    maximum: {
      cl: "nan_max_$T($0, $1)",
      clInt: "($0 > $1 ? $0 : $1)",
      js: "Math.max($0, $1)",
      jsBig: "($0 > $1 ? $0 : $1)",
    },
    minimum: {
      cl: "nan_min_$T($0, $1)",
      clInt: "($0 < $1 ? $0 : $1)",
      js: "Math.min($0, $1)",
      jsBig: "($0 < $1 ? $0 : $1)",
    },
    eq: comparison("==", "==="),
    ne: comparison("!=", "!=="),
    lt: comparison("<"),
    le: comparison("<="),
    gt: comparison(">"),
    ge: comparison(">="),
    // NaN is true in C and false in JavaScript: it is compared with 0 there.
    and: {
      cl: "($0 && $1)",
      js: "($0 !== 0 && $1 !== 0 ? 1 : 0)",
      jsBig: "($0 && $1 ? 1 : 0)",
      result: "bool",
    },
    or: {
      cl: "($0 || $1)",
      js: "($0 !== 0 || $1 !== 0 ? 1 : 0)",
      jsBig: "($0 || $1 ? 1 : 0)",
      result: "bool",
    },
    xor: {
      cl: "(!$0 != !$1)",
      js: "(($0 !== 0) !== ($1 !== 0) ? 1 : 0)",
      jsBig: "(!$0 !== !$1 ? 1 : 0)",
      result: "bool",
    },
  }),
  // Of integers and truth values only; a shift is by less than the width.
  ...binary({
    bitAnd: { cl: "($0 & $1)", js: "($0 & $1)", isBitwise: true },
    bitOr: { cl: "($0 | $1)", js: "($0 | $1)", isBitwise: true },
    bitXor: { cl: "($0 ^ $1)", js: "($0 ^ $1)", isBitwise: true },
    shiftLeft: { cl: "($0 << $1)", js: "($0 << $1)", isBitwise: true },
    shiftRight: { cl: "($0 >> $1)", js: "($0 >> $1)", isBitwise: true },
  }),
  // The first operand is a truth value, the others have the type of the result.
  ...table(3, { where: { cl: "($0 ? $1 : $2)", js: "($0 ? $1 : $2)" } }),
};

/** The primitive of that name. @throws {Error} when there is none. */
export function primitive(name: string): Primitive {
  const found = primitives[name];
  if (!found) throw new Error(`Unknown primitive "${name}"`);
  return found;
}

/** True when the primitive takes operands of `dtype`. */
export function accepts(name: string, dtype: DType): boolean {
  const { clInt, isBitwise = false } = primitive(name);
  return dtypes[dtype].kind === "float" ? !isBitwise : clInt !== null;
}

function fill(template: string, operands: readonly string[]): string {
  return template.replace(/\$(\d)/g, (_, digit: string) => operands[Number(digit)]!);
}

/** The primitive applied to operands of `dtype`, as OpenCL C in the compute type of `result`. */
export function renderCL(
  name: string,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const p = primitive(name);
  const template = dtypes[dtype].kind === "float" ? p.cl : p.clInt ?? p.cl;
  const text = fill(template, operands).replaceAll("$T", dtypes[dtype].clCompute);
  // OpenCL C computes uchar in int, and comparisons give int: both are brought back to size.
  if (dtypes[result].clCompute === "uchar") {
    return p.result === "bool" || result === "bool" ? `(uchar)(${text} != 0)` : `(uchar)(${text})`;
  }
  return text;
}

/** The primitive applied to operands of `dtype`, as JavaScript. */
export function renderJS(
  name: string,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const p = primitive(name);
  const kind = dtypes[dtype].kind;
  const template = dtype === "int64" ? p.jsBig ?? p.js : kind === "float" ? p.js : p.jsInt ?? p.js;
  const text = fill(template, operands);
  if (p.result === "bool") return text;
  switch (result) {
    case "int32":
      return `(${text} | 0)`;
    case "int64":
      return name === "where" ? text : `BigInt.asIntN(64, ${text})`;
    case "uint8":
      return `(${text} & 255)`;
    case "bool":
      return `(${text} ? 1 : 0)`;
    default:
      return text;
  }
}
