/** The scalar functions in OpenCL C. */
import { type DType, isFloat } from "../../graph/dtype.ts";
import { fillTemplate, type PrimitiveName, primitives, textOf } from "../../graph/primitives.ts";
import { functions } from "../../codegen/functions/functions.ts";
import { computeType } from "./types.ts";

/** The primitive applied to operands of `dtype`, as OpenCL C in the compute type of `result`. */
export function renderScalar(
  name: PrimitiveName,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const template = textOf("opencl", name, isFloat(dtype) ? "float" : "int")!;
  const text = fillTemplate(template, operands).replaceAll("$T", computeType(dtype));
  // OpenCL C computes uchar in int, and comparisons give int: both are cast back.
  if (computeType(result) === "uchar") {
    return primitives[name].isTest || result === "bool"
      ? `(uchar)(${text} != 0)`
      : `(uchar)(${text})`;
  }
  return text;
}

/**
 * The same on a CPU, where functions of floats are those of the built-in backend, to the bit: it computes
 * kernels until they are compiled.
 */
export function renderHostScalar(
  name: PrimitiveName,
  operands: readonly string[],
  dtype: DType,
  result: DType,
): string {
  const isOurs = name in functions && computeType(dtype) === "float";
  return isOurs ? `${name}_1(${operands.join(", ")})` : renderScalar(name, operands, dtype, result);
}
