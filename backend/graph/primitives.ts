/**
 * The scalar functions that elementwise nodes and kernels are made of: what each takes and costs, and how
 * target languages write it. To add one: its row. `$0`, `$1`, `$2` stand for operands, `$T` for the type of
 * OpenCL C in which they are computed. Lanes of WebAssembly are programs and not texts: those that are worth
 * it stand in `cpu/wasm/loops/primitives.ts`. Functions of floats that are more than an operation are written
 * once for both, and for CPUs' scalars: `backend/codegen/functions`. A plain function of the same name, of `Math` or of
 * `scalar.ts`, is what all of them are held against; others stand in `cpu/reference/reference_primitives.ts`.
 */
import { type DType, dtypes } from "./dtype.ts";

/** A text with the first operand in it. */
type Text = `${string}$0${string}`;

/** One form for numbers, another one for bigints (int64). */
type NumbersAndBig = { readonly number: string; readonly big: string };

/** Facts of a scalar function, whatever language it is written in. */
interface Facts {
  /** Rough cost in additions, which decides between computing again and storing; default: 8 for functions of floats, else 1. */
  readonly cost?: number;
  /** The result is a truth value; otherwise it has the type of the operands. */
  readonly isTest?: true;
  /** The result needs no rounding where the operands are numbers of its type. */
  readonly isExact?: true;
}

/**
 * A scalar function, by the operands that it takes, all of one type but for the condition of `where`. Its
 * texts are those of OpenCL C; of vectors of 16 lanes in OpenCL C, where truth values are masks of 0 and -1;
 * of JavaScript, where integers of up to 32 bits are numbers. Kernels with a function of which a kind of
 * vectors has no text, since none is as accurate and quicker, are left to scalar code.
 */
type Row =
  & Facts
  & ({
    readonly opencl: Text | { readonly float: Text; readonly int: Text };
    readonly lanes?: Text | Readonly<Partial<Record<VectorKind | "number", Text>>>;
    readonly script: Text | NumbersAndBig | Readonly<Record<ScriptKind, string>>;
  } | {
    readonly takes: "floats";
    readonly opencl: Text;
    readonly lanes?: Text;
    readonly script: Text;
  } | {
    readonly takes: "integers";
    readonly opencl: Text;
    readonly lanes?: Text | { readonly int: Text };
    readonly script: Text;
  });

/** Kind of a vector's lanes: floats, 32-bit integers, or all bits of truth values. */
export type VectorKind = "float" | "int" | "bool";

/** Kind of a value in JavaScript: int64 is a bigint, "big". */
export type ScriptKind = "float" | "int" | "big";

/** Every scalar function, by its name: the only list of their names. */
export const primitiveTable = {
  neg: { isExact: true, opencl: "(-$0)", lanes: { number: "(-$0)" }, script: "(-$0)" },
  abs: {
    isExact: true,
    opencl: { float: "fabs($0)", int: "($0 < 0 ? -$0 : $0)" },
    lanes: { float: "fabs($0)", int: "as_int16(abs($0))" },
    script: { number: "Math.abs($0)", big: "bigAbs($0)" },
  },
  // 0 for NaN, as in PyTorch.
  sign: {
    isExact: true,
    opencl: { float: "($T)(($0 > 0) - ($0 < 0))", int: "(($0 > 0) - ($0 < 0))" },
    lanes: { float: "(convert_float16($0 < 0.0f) - convert_float16($0 > 0.0f))" },
    script: { number: "(($0 > 0) - ($0 < 0))", big: "bigSign($0)" },
  },
  exp: { takes: "floats", opencl: "exp($0)", lanes: "exp_16($0)", script: "Math.exp($0)" },
  exp2: { takes: "floats", opencl: "exp2($0)", lanes: "exp2_16($0)", script: "2 ** $0" },
  expm1: { takes: "floats", opencl: "expm1($0)", lanes: "expm1_16($0)", script: "Math.expm1($0)" },
  log: { takes: "floats", opencl: "log($0)", lanes: "log_16($0)", script: "Math.log($0)" },
  log2: { takes: "floats", opencl: "log2($0)", lanes: "log2_16($0)", script: "Math.log2($0)" },
  log10: { takes: "floats", opencl: "log10($0)", lanes: "log10_16($0)", script: "Math.log10($0)" },
  log1p: { takes: "floats", opencl: "log1p($0)", lanes: "log1p_16($0)", script: "Math.log1p($0)" },
  sqrt: {
    takes: "floats",
    cost: 4,
    opencl: "sqrt($0)",
    lanes: "sqrt($0)",
    script: "Math.sqrt($0)",
  },
  rsqrt: {
    takes: "floats",
    cost: 5,
    opencl: "(1 / sqrt($0))",
    lanes: "(1.0f / sqrt($0))",
    script: "(1 / Math.sqrt($0))",
  },
  reciprocal: {
    takes: "floats",
    cost: 2,
    opencl: "(1 / $0)",
    lanes: "(1.0f / $0)",
    script: "(1 / $0)",
  },
  sin: { takes: "floats", opencl: "sin($0)", lanes: "sin_16($0)", script: "Math.sin($0)" },
  cos: { takes: "floats", opencl: "cos($0)", lanes: "cos_16($0)", script: "Math.cos($0)" },
  tan: { takes: "floats", opencl: "tan($0)", lanes: "tan_16($0)", script: "Math.tan($0)" },
  asin: { takes: "floats", opencl: "asin($0)", lanes: "asin_16($0)", script: "Math.asin($0)" },
  acos: { takes: "floats", opencl: "acos($0)", lanes: "acos_16($0)", script: "Math.acos($0)" },
  atan: { takes: "floats", opencl: "atan($0)", lanes: "atan_16($0)", script: "Math.atan($0)" },
  sinh: { takes: "floats", opencl: "sinh($0)", lanes: "sinh_16($0)", script: "Math.sinh($0)" },
  cosh: { takes: "floats", opencl: "cosh($0)", lanes: "cosh_16($0)", script: "Math.cosh($0)" },
  tanh: { takes: "floats", opencl: "tanh_$T($0)", lanes: "tanh_16($0)", script: "Math.tanh($0)" },
  asinh: { takes: "floats", opencl: "asinh($0)", lanes: "asinh_16($0)", script: "Math.asinh($0)" },
  acosh: { takes: "floats", opencl: "acosh($0)", lanes: "acosh_16($0)", script: "Math.acosh($0)" },
  atanh: { takes: "floats", opencl: "atanh($0)", lanes: "atanh_16($0)", script: "Math.atanh($0)" },
  erf: { takes: "floats", cost: 12, opencl: "erf($0)", lanes: "erf_16($0)", script: "erf($0)" },
  erfc: { takes: "floats", cost: 12, opencl: "erfc($0)", lanes: "erfc_16($0)", script: "erfc($0)" },
  sigmoid: {
    takes: "floats",
    cost: 9,
    opencl: "(1 / (1 + exp(-$0)))",
    lanes: "sigmoid_16($0)",
    script: "(1 / (1 + Math.exp(-$0)))",
  },
  floor: {
    isExact: true,
    opencl: { float: "floor($0)", int: "($0)" },
    lanes: { float: "floor($0)", int: "($0)" },
    script: { number: "Math.floor($0)", big: "($0)" },
  },
  ceil: {
    isExact: true,
    opencl: { float: "ceil($0)", int: "($0)" },
    lanes: { float: "ceil($0)", int: "($0)" },
    script: { number: "Math.ceil($0)", big: "($0)" },
  },
  trunc: {
    isExact: true,
    opencl: { float: "trunc($0)", int: "($0)" },
    lanes: { float: "trunc($0)", int: "($0)" },
    script: { number: "Math.trunc($0)", big: "($0)" },
  },
  // To nearest, ties to even.
  round: {
    isExact: true,
    opencl: { float: "rint($0)", int: "($0)" },
    lanes: { float: "rint($0)", int: "($0)" },
    script: { number: "roundEven($0)", big: "($0)" },
  },
  isnan: {
    isTest: true,
    opencl: { float: "isnan($0)", int: "(0 * $0)" },
    lanes: { number: "($0 != $0)" },
    script: "($0 !== $0 ? 1 : 0)",
  },
  isinf: {
    isTest: true,
    opencl: { float: "isinf($0)", int: "(0 * $0)" },
    lanes: { float: "(fabs($0) == INFINITY)" },
    script: { number: "(Math.abs($0) === Infinity ? 1 : 0)", big: "0" },
  },
  // What a number becomes in memory of half precision, where it is computed on and not stored.
  roundFloat16: {
    takes: "floats",
    cost: 2,
    isExact: true,
    opencl: "round_float16($0)",
    lanes: "round_float16_16($0)",
    script: "Math.f16round($0)",
  },
  roundBfloat16: {
    takes: "floats",
    cost: 2,
    isExact: true,
    opencl: "from_bfloat16(to_bfloat16($0))",
    lanes: "as_float16(convert_uint16(to_bfloat16_16($0)) << 16)",
    script: "roundBfloat16($0)",
  },
  not: {
    isTest: true,
    opencl: "(!$0)",
    lanes: { float: "($0 == 0.0f)", int: "($0 == 0)", bool: "(~$0)" },
    script: { number: "($0 !== 0 ? 0 : 1)", big: "($0 ? 0 : 1)" },
  },
  add: { opencl: "($0 + $1)", lanes: { number: "($0 + $1)" }, script: "($0 + $1)" },
  sub: { opencl: "($0 - $1)", lanes: { number: "($0 - $1)" }, script: "($0 - $1)" },
  mul: {
    opencl: "($0 * $1)",
    lanes: { number: "($0 * $1)" },
    script: { float: "($0 * $1)", int: "Math.imul($0, $1)", big: "($0 * $1)" },
  },
  // Of integers: towards zero, and 0 where the divisor is 0.
  div: {
    cost: 4,
    opencl: { float: "($0 / $1)", int: "safe_div_$T($0, $1)" },
    lanes: { float: "($0 / $1)", int: "int_div_16($0, $1)" },
    script: { float: "($0 / $1)", int: "intDiv($0, $1)", big: "bigDiv($0, $1)" },
  },
  // Python's remainder: the result has the sign of the divisor.
  mod: {
    cost: 6,
    opencl: { float: "float_mod_$T($0, $1)", int: "safe_mod_$T($0, $1)" },
    lanes: { float: "float_mod_16($0, $1)", int: "int_mod_16($0, $1)" },
    script: { float: "floatMod($0, $1)", int: "intMod($0, $1)", big: "bigMod($0, $1)" },
  },
  floordiv: {
    cost: 8,
    opencl: { float: "float_floordiv_$T($0, $1)", int: "safe_floordiv_$T($0, $1)" },
    lanes: { float: "float_floordiv_16($0, $1)", int: "int_floordiv_16($0, $1)" },
    script: {
      float: "floatFloorDiv($0, $1)",
      int: "intFloorDiv($0, $1)",
      big: "bigFloorDiv($0, $1)",
    },
  },
  pow: {
    cost: 16,
    opencl: { float: "pow($0, $1)", int: "int_pow_$T($0, $1)" },
    lanes: { float: "pow_16($0, $1)", int: "int_pow_16($0, $1)" },
    script: { float: "power($0, $1)", int: "intPow($0, $1)", big: "bigPow($0, $1)" },
  },
  atan2: {
    takes: "floats",
    cost: 12,
    opencl: "atan2($0, $1)",
    lanes: "atan2_16($0, $1)",
    script: "Math.atan2($0, $1)",
  },
  // NaN where one of the operands is. Of lanes the second is asked: mostly it is a constant.
  maximum: {
    isExact: true,
    opencl: { float: "nan_max_$T($0, $1)", int: "($0 > $1 ? $0 : $1)" },
    lanes: {
      float: "select($1, $0, ~($0 <= $1) & ($1 == $1))",
      int: "max($0, $1)",
      bool: "($0 | $1)",
    },
    script: { number: "Math.max($0, $1)", big: "($0 > $1 ? $0 : $1)" },
  },
  minimum: {
    isExact: true,
    opencl: { float: "nan_min_$T($0, $1)", int: "($0 < $1 ? $0 : $1)" },
    lanes: {
      float: "select($1, $0, ~($0 >= $1) & ($1 == $1))",
      int: "min($0, $1)",
      bool: "($0 & $1)",
    },
    script: { number: "Math.min($0, $1)", big: "($0 < $1 ? $0 : $1)" },
  },
  eq: { isTest: true, opencl: "($0 == $1)", lanes: "($0 == $1)", script: "($0 === $1 ? 1 : 0)" },
  ne: { isTest: true, opencl: "($0 != $1)", lanes: "($0 != $1)", script: "($0 !== $1 ? 1 : 0)" },
  lt: {
    isTest: true,
    opencl: "($0 < $1)",
    lanes: { number: "($0 < $1)" },
    script: "($0 < $1 ? 1 : 0)",
  },
  le: {
    isTest: true,
    opencl: "($0 <= $1)",
    lanes: { number: "($0 <= $1)" },
    script: "($0 <= $1 ? 1 : 0)",
  },
  gt: {
    isTest: true,
    opencl: "($0 > $1)",
    lanes: { number: "($0 > $1)" },
    script: "($0 > $1 ? 1 : 0)",
  },
  ge: {
    isTest: true,
    opencl: "($0 >= $1)",
    lanes: { number: "($0 >= $1)" },
    script: "($0 >= $1 ? 1 : 0)",
  },
  // NaN is true.
  and: {
    isTest: true,
    opencl: "($0 && $1)",
    lanes: {
      float: "(($0 != 0.0f) & ($1 != 0.0f))",
      int: "(($0 != 0) & ($1 != 0))",
      bool: "($0 & $1)",
    },
    script: { number: "($0 !== 0 && $1 !== 0 ? 1 : 0)", big: "($0 && $1 ? 1 : 0)" },
  },
  or: {
    isTest: true,
    opencl: "($0 || $1)",
    lanes: {
      float: "(($0 != 0.0f) | ($1 != 0.0f))",
      int: "(($0 != 0) | ($1 != 0))",
      bool: "($0 | $1)",
    },
    script: { number: "($0 !== 0 || $1 !== 0 ? 1 : 0)", big: "($0 || $1 ? 1 : 0)" },
  },
  xor: {
    isTest: true,
    opencl: "(!$0 != !$1)",
    lanes: {
      float: "(($0 != 0.0f) ^ ($1 != 0.0f))",
      int: "(($0 != 0) ^ ($1 != 0))",
      bool: "($0 ^ $1)",
    },
    script: { number: "(($0 !== 0) !== ($1 !== 0) ? 1 : 0)", big: "(!$0 !== !$1 ? 1 : 0)" },
  },
  bitAnd: { takes: "integers", opencl: "($0 & $1)", lanes: "($0 & $1)", script: "($0 & $1)" },
  bitOr: { takes: "integers", opencl: "($0 | $1)", lanes: "($0 | $1)", script: "($0 | $1)" },
  bitXor: { takes: "integers", opencl: "($0 ^ $1)", lanes: "($0 ^ $1)", script: "($0 ^ $1)" },
  // A shift is by less than the width.
  shiftLeft: {
    takes: "integers",
    opencl: "($0 << $1)",
    lanes: { int: "($0 << $1)" },
    script: "($0 << $1)",
  },
  shiftRight: {
    takes: "integers",
    opencl: "($0 >> $1)",
    lanes: { int: "($0 >> $1)" },
    script: "($0 >> $1)",
  },
  // The first operand is a truth value, the others have the type of the result.
  where: {
    isExact: true,
    opencl: "($0 ? $1 : $2)",
    lanes: "select($2, $1, $0)",
    script: "($0 ? $1 : $2)",
  },
} as const satisfies Readonly<Record<string, Row>>;

/** The name of a scalar function. */
export type PrimitiveName = keyof typeof primitiveTable;

/** Properties of a scalar function, known without looking at its texts. */
export interface Primitive {
  /** Number of operands. */
  readonly arity: number;
  /** The types of operands: all, floating types only, or integers and truth values only. */
  readonly takes: "all" | "floats" | "integers";
  /** See {@linkcode Facts}. */
  readonly cost: number;
  /** See {@linkcode Facts}. */
  readonly isTest: boolean;
  /** See {@linkcode Facts}. */
  readonly isExact: boolean;
}

const rows: Readonly<Record<PrimitiveName, Row>> = primitiveTable;

/** Facts of every scalar function, by its name. */
export const primitives: Readonly<Record<PrimitiveName, Primitive>> = Object.fromEntries(
  Object.entries(rows).map(([name, row]) => [name, {
    arity: [0, 1, 2].findLast((k) => JSON.stringify(row.script).includes(`$${k}`))! + 1,
    takes: "takes" in row ? row.takes : "all",
    cost: row.cost ?? ("takes" in row && row.takes === "floats" ? 8 : 1),
    isTest: row.isTest ?? false,
    isExact: row.isExact ?? false,
  }]),
) as Record<PrimitiveName, Primitive>;

/** True when the primitive takes operands of `dtype`. */
export function accepts(name: PrimitiveName, dtype: DType): boolean {
  const { takes } = primitives[name];
  return takes === "all" || (takes === "floats") === (dtypes[dtype].kind === "float");
}

/** A target language. */
export type Writer = "opencl" | "lanes" | "script";

/** The text of a primitive in a language, for operands of one kind; null where there is none. */
export function textOf(
  writer: Writer,
  name: PrimitiveName,
  kind: VectorKind | ScriptKind,
): string | null {
  return formOf<string>(rows[name][writer], kind);
}

/** One form for all, or one for each kind of operands; "number" stands for floats and integers. */
export type Forms<Form> = Form | Readonly<Partial<Record<string, Form>>> | undefined;

/** The form for one kind of operands; null where there is none. */
export function formOf<Form extends string | ((...args: never[]) => unknown)>(
  forms: Forms<Form>,
  kind: string,
): Form | null {
  if (typeof forms !== "object") return forms ?? null;
  return forms[kind] ?? (kind === "float" || kind === "int" ? forms.number : undefined) ?? null;
}

/** A text with its operands put in for `$0`, `$1` and `$2`. */
export function fillTemplate(template: string, operands: readonly string[]): string {
  return template.replace(/\$(\d)/g, (_, digit: string) => operands[Number(digit)]!);
}
