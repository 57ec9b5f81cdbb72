/**
 * The scalar functions on vectors of 16 lanes, in OpenCL C. `$0`, `$1`, `$2` stand for operands; truth
 * values are masks of 0 and -1. Where a form is "scalar" the whole kernel is left to scalar code: the
 * function has no vector form that is both as accurate and quicker.
 */
import {
  fillTemplate,
  formOf,
  type PrimitiveForms,
  type PrimitiveName,
} from "../../../graph/primitives.ts";

type Form = `${string}$0${string}` | "scalar";
type ByKind = { readonly float: Form; readonly int: Form; readonly bool: Form };

/** What the lanes of a vector are: floats, 32-bit integers, or all bits of truth values. */
export type LaneKind = keyof ByKind;

/** Forms for numbers; truth values are combined by the logical functions instead. */
function numbers(float: Form, int: Form = float): ByKind {
  return { float, int, bool: "scalar" };
}

/** Integers have these as well, but nobody computes enough of them to be worth a form. */
function floats(float: Form): ByKind {
  return { float, int: "scalar", bool: "scalar" };
}

const forms: PrimitiveForms<Form, LaneKind> = {
  neg: numbers("(-$0)"),
  abs: numbers("fabs($0)", "as_int16(abs($0))"),
  sign: floats("(convert_float16($0 < 0.0f) - convert_float16($0 > 0.0f))"),
  exp: "exp_16($0)",
  exp2: "exp2($0)",
  expm1: "expm1_16($0)",
  log: "log_16($0)",
  log2: "log2_16($0)",
  log10: "log10_16($0)",
  log1p: "log1p_16($0)",
  sqrt: "sqrt($0)",
  rsqrt: "(1.0f / sqrt($0))",
  reciprocal: "(1.0f / $0)",
  sin: "sin_16($0)",
  cos: "cos_16($0)",
  tan: "tan_16($0)",
  asin: "asin_16($0)",
  acos: "acos_16($0)",
  atan: "atan_16($0)",
  sinh: "sinh_16($0)",
  cosh: "cosh_16($0)",
  tanh: "tanh_16($0)",
  asinh: "asinh_16($0)",
  acosh: "acosh_16($0)",
  atanh: "atanh_16($0)",
  erf: "erf_16($0)",
  erfc: "erfc_16($0)",
  sigmoid: "sigmoid_16($0)",
  floor: numbers("floor($0)", "($0)"),
  ceil: numbers("ceil($0)", "($0)"),
  trunc: numbers("trunc($0)", "($0)"),
  round: numbers("rint($0)", "($0)"),
  isnan: numbers("($0 != $0)"),
  isinf: floats("(fabs($0) == INFINITY)"),
  roundFloat16: "round_float16_16($0)",
  roundBfloat16: "as_float16(convert_uint16(to_bfloat16_16($0)) << 16)",
  not: { float: "($0 == 0.0f)", int: "($0 == 0)", bool: "(~$0)" },
  add: numbers("($0 + $1)"),
  sub: numbers("($0 - $1)"),
  mul: numbers("($0 * $1)"),
  div: numbers("($0 / $1)", "int_div_16($0, $1)"),
  mod: numbers("float_mod_16($0, $1)", "int_mod_16($0, $1)"),
  floordiv: numbers("float_floordiv_16($0, $1)", "int_floordiv_16($0, $1)"),
  pow: numbers("pow_16($0, $1)", "int_pow_16($0, $1)"),
  atan2: "atan2_16($0, $1)",
  maximum: numbers("select($1, $0, ($0 > $1) | ($0 != $0))", "max($0, $1)"),
  minimum: numbers("select($1, $0, ($0 < $1) | ($0 != $0))", "min($0, $1)"),
  eq: "($0 == $1)",
  ne: "($0 != $1)",
  lt: numbers("($0 < $1)"),
  le: numbers("($0 <= $1)"),
  gt: numbers("($0 > $1)"),
  ge: numbers("($0 >= $1)"),
  and: {
    float: "(($0 != 0.0f) & ($1 != 0.0f))",
    int: "(($0 != 0) & ($1 != 0))",
    bool: "($0 & $1)",
  },
  or: {
    float: "(($0 != 0.0f) | ($1 != 0.0f))",
    int: "(($0 != 0) | ($1 != 0))",
    bool: "($0 | $1)",
  },
  xor: {
    float: "(($0 != 0.0f) ^ ($1 != 0.0f))",
    int: "(($0 != 0) ^ ($1 != 0))",
    bool: "($0 ^ $1)",
  },
  bitAnd: "($0 & $1)",
  bitOr: "($0 | $1)",
  bitXor: "($0 ^ $1)",
  shiftLeft: { int: "($0 << $1)", bool: "scalar" },
  shiftRight: { int: "($0 >> $1)", bool: "scalar" },
  where: "select($2, $1, $0)",
};

/** True when there are vectors for a primitive of such operands. */
export function hasVectorForm(name: PrimitiveName, kind: LaneKind): boolean {
  return formOf(forms, name, kind) !== "scalar";
}

/** The primitive applied to vectors; see {@linkcode hasVectorForm}. */
export function renderVector(
  name: PrimitiveName,
  operands: readonly string[],
  kind: LaneKind,
): string {
  return fillTemplate(formOf(forms, name, kind), operands);
}
