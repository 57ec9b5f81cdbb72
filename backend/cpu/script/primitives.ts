/**
 * The scalar functions in JavaScript. `$0`, `$1`, `$2` stand for operands. Floats and integers of up to
 * 32 bits are numbers ("float", "int"), int64 is a bigint ("big").
 */
import { type DType, isFloat } from "../../graph/dtype.ts";
import {
  fillTemplate,
  formOf,
  type PrimitiveForms,
  type PrimitiveName,
  primitives,
} from "../../graph/primitives.ts";

type Kind = "float" | "int" | "big";
type ByKind = Readonly<Record<Kind, string>>;

/** One text for all numbers, another one for bigints. */
function numbers(text: string, big: string): ByKind {
  return { float: text, int: text, big };
}

const forms: PrimitiveForms<string, Kind> = {
  neg: "(-$0)",
  abs: numbers("Math.abs($0)", "bigAbs($0)"),
  sign: numbers("(($0 > 0) - ($0 < 0))", "bigSign($0)"),
  exp: "Math.exp($0)",
  exp2: "2 ** $0",
  expm1: "Math.expm1($0)",
  log: "Math.log($0)",
  log2: "Math.log2($0)",
  log10: "Math.log10($0)",
  log1p: "Math.log1p($0)",
  sqrt: "Math.sqrt($0)",
  rsqrt: "(1 / Math.sqrt($0))",
  reciprocal: "(1 / $0)",
  sin: "Math.sin($0)",
  cos: "Math.cos($0)",
  tan: "Math.tan($0)",
  asin: "Math.asin($0)",
  acos: "Math.acos($0)",
  atan: "Math.atan($0)",
  sinh: "Math.sinh($0)",
  cosh: "Math.cosh($0)",
  tanh: "Math.tanh($0)",
  asinh: "Math.asinh($0)",
  acosh: "Math.acosh($0)",
  atanh: "Math.atanh($0)",
  erf: "erf($0)",
  erfc: "erfc($0)",
  sigmoid: "(1 / (1 + Math.exp(-$0)))",
  floor: numbers("Math.floor($0)", "($0)"),
  ceil: numbers("Math.ceil($0)", "($0)"),
  trunc: numbers("Math.trunc($0)", "($0)"),
  round: numbers("roundEven($0)", "($0)"),
  isnan: "($0 !== $0 ? 1 : 0)",
  isinf: numbers("(Math.abs($0) === Infinity ? 1 : 0)", "0"),
  roundFloat16: "Math.f16round($0)",
  roundBfloat16: "roundBfloat16($0)",
  not: numbers("($0 !== 0 ? 0 : 1)", "($0 ? 0 : 1)"),
  add: "($0 + $1)",
  sub: "($0 - $1)",
  mul: { float: "($0 * $1)", int: "Math.imul($0, $1)", big: "($0 * $1)" },
  div: { float: "($0 / $1)", int: "intDiv($0, $1)", big: "bigDiv($0, $1)" },
  mod: { float: "floatMod($0, $1)", int: "intMod($0, $1)", big: "bigMod($0, $1)" },
  floordiv: {
    float: "floatFloorDiv($0, $1)",
    int: "intFloorDiv($0, $1)",
    big: "bigFloorDiv($0, $1)",
  },
  pow: { float: "power($0, $1)", int: "intPow($0, $1)", big: "bigPow($0, $1)" },
  atan2: "Math.atan2($0, $1)",
  maximum: numbers("Math.max($0, $1)", "($0 > $1 ? $0 : $1)"),
  minimum: numbers("Math.min($0, $1)", "($0 < $1 ? $0 : $1)"),
  eq: "($0 === $1 ? 1 : 0)",
  ne: "($0 !== $1 ? 1 : 0)",
  lt: "($0 < $1 ? 1 : 0)",
  le: "($0 <= $1 ? 1 : 0)",
  gt: "($0 > $1 ? 1 : 0)",
  ge: "($0 >= $1 ? 1 : 0)",
  // NaN is true in C and false in JavaScript: it is compared with 0 here.
  and: numbers("($0 !== 0 && $1 !== 0 ? 1 : 0)", "($0 && $1 ? 1 : 0)"),
  or: numbers("($0 !== 0 || $1 !== 0 ? 1 : 0)", "($0 || $1 ? 1 : 0)"),
  xor: numbers("(($0 !== 0) !== ($1 !== 0) ? 1 : 0)", "(!$0 !== !$1 ? 1 : 0)"),
  bitAnd: "($0 & $1)",
  bitOr: "($0 | $1)",
  bitXor: "($0 ^ $1)",
  shiftLeft: "($0 << $1)",
  shiftRight: "($0 >> $1)",
  where: "($0 ? $1 : $2)",
};

/** How results of each type are brought back into its range; `$0` stands for the result. */
const wraps: Readonly<Record<DType, string>> = {
  float32: "$0",
  float16: "$0",
  bfloat16: "$0",
  float64: "$0",
  int32: "($0 | 0)",
  int64: "BigInt.asIntN(64, $0)",
  uint8: "($0 & 255)",
  bool: "($0 ? 1 : 0)",
};

/** The primitive applied to operands of `dtype`, as JavaScript. */
export function renderScript(
  name: PrimitiveName,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const kind = dtype === "int64" ? "big" : isFloat(dtype) ? "float" : "int";
  const text = fillTemplate(formOf(forms, name, kind), operands);
  if (primitives[name].isTest || (name === "where" && result === "int64")) return text;
  return wraps[result].replace("$0", () => text);
}
