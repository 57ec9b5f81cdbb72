/** The scalar functions in JavaScript. */
import { type DType, isFloat } from "../../graph/dtype.ts";
import { fillTemplate, type PrimitiveName, primitives, textOf } from "../../graph/primitives.ts";

/** Expressions that bring results into the range of their type; `$0` stands for the result. */
const wraps: Readonly<Record<DType, string>> = {
  float32: "$0",
  float16: "$0",
  bfloat16: "$0",
  float64: "$0",
  int32: "($0 | 0)",
  int64: "BigInt.asIntN(64, $0)",
  int16: "($0 << 16 >> 16)",
  int8: "($0 << 24 >> 24)",
  uint32: "($0 >>> 0)",
  uint8: "($0 & 255)",
  bool: "($0 ? 1 : 0)",
};

/** A whole number of at most 32 bits brought into the range of a type. */
export function wrapped(text: string, dtype: DType): string {
  return wraps[dtype].replace("$0", () => text);
}

/** The primitive applied to operands of `dtype`, as JavaScript. */
export function renderScript(
  name: PrimitiveName,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const kind = dtype === "int64" ? "big" : isFloat(dtype) ? "float" : "int";
  const text = fillTemplate(textOf("script", name, kind)!, operands);
  if (primitives[name].isTest || (name === "where" && result === "int64")) return text;
  return wrapped(text, result);
}
