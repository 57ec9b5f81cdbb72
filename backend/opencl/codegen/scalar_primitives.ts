/** The scalar functions in OpenCL C. `$0`, `$1`, `$2` stand for operands, `$T` for their type. */
import { type DType, isFloat } from "../../graph/dtype.ts";
import {
  fillTemplate,
  formOf,
  type PrimitiveForms,
  type PrimitiveName,
  primitives,
} from "../../graph/primitives.ts";
import { computeType } from "./types.ts";

type Text = `${string}$0${string}`;

const forms = {
  neg: "(-$0)",
  abs: { float: "fabs($0)", int: "($0 < 0 ? -$0 : $0)" },
  sign: { float: "($T)(($0 > 0) - ($0 < 0))", int: "(($0 > 0) - ($0 < 0))" },
  exp: "exp($0)",
  exp2: "exp2($0)",
  expm1: "expm1($0)",
  log: "log($0)",
  log2: "log2($0)",
  log10: "log10($0)",
  log1p: "log1p($0)",
  sqrt: "sqrt($0)",
  rsqrt: "(1 / sqrt($0))",
  reciprocal: "(1 / $0)",
  sin: "sin($0)",
  cos: "cos($0)",
  tan: "tan($0)",
  asin: "asin($0)",
  acos: "acos($0)",
  atan: "atan($0)",
  sinh: "sinh($0)",
  cosh: "cosh($0)",
  tanh: "tanh($0)",
  asinh: "asinh($0)",
  acosh: "acosh($0)",
  atanh: "atanh($0)",
  erf: "erf($0)",
  erfc: "erfc($0)",
  sigmoid: "(1 / (1 + exp(-$0)))",
  floor: { float: "floor($0)", int: "($0)" },
  ceil: { float: "ceil($0)", int: "($0)" },
  trunc: { float: "trunc($0)", int: "($0)" },
  round: { float: "rint($0)", int: "($0)" },
  isnan: { float: "isnan($0)", int: "(0 * $0)" },
  isinf: { float: "isinf($0)", int: "(0 * $0)" },
  roundFloat16: "round_float16($0)",
  roundBfloat16: "from_bfloat16(to_bfloat16($0))",
  not: "(!$0)",
  add: "($0 + $1)",
  sub: "($0 - $1)",
  mul: "($0 * $1)",
  div: { float: "($0 / $1)", int: "safe_div_$T($0, $1)" },
  mod: { float: "float_mod_$T($0, $1)", int: "safe_mod_$T($0, $1)" },
  floordiv: { float: "float_floordiv_$T($0, $1)", int: "safe_floordiv_$T($0, $1)" },
  pow: { float: "pow($0, $1)", int: "int_pow_$T($0, $1)" },
  atan2: "atan2($0, $1)",
  maximum: { float: "nan_max_$T($0, $1)", int: "($0 > $1 ? $0 : $1)" },
  minimum: { float: "nan_min_$T($0, $1)", int: "($0 < $1 ? $0 : $1)" },
  eq: "($0 == $1)",
  ne: "($0 != $1)",
  lt: "($0 < $1)",
  le: "($0 <= $1)",
  gt: "($0 > $1)",
  ge: "($0 >= $1)",
  and: "($0 && $1)",
  or: "($0 || $1)",
  xor: "(!$0 != !$1)",
  bitAnd: "($0 & $1)",
  bitOr: "($0 | $1)",
  bitXor: "($0 ^ $1)",
  shiftLeft: "($0 << $1)",
  shiftRight: "($0 >> $1)",
  where: "($0 ? $1 : $2)",
} as const satisfies PrimitiveForms<Text, "float" | "int">;

/** The primitive applied to operands of `dtype`, as OpenCL C in the compute type of `result`. */
export function renderScalar(
  name: PrimitiveName,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const form = formOf<Text, "float" | "int">(forms, name, isFloat(dtype) ? "float" : "int");
  const text = fillTemplate(form, operands).replaceAll("$T", computeType(dtype));
  // OpenCL C computes uchar in int, and comparisons give int: both are cast back.
  if (computeType(result) === "uchar") {
    return primitives[name].isTest || result === "bool"
      ? `(uchar)(${text} != 0)`
      : `(uchar)(${text})`;
  }
  return text;
}
