/** Transport of a tensor's elements between ranks. */
import { type DType, isFloat, type WireOp, type WireType } from "../../../backend/internal.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { type Rules, shown, takes } from "../../core/rules/options.ts";

/** Operation that joins the tensors of all ranks. */
export type ReduceOp = "sum" | "mean" | "max" | "min";

/** Operation of a reduction. */
export const reduceOp: Rules<{ op: ReduceOp }>["op"] = takes.oneOf("sum", "mean", "max", "min");

/** Operation asked of MPI; a mean is a sum of parts that were divided before. */
export const wireOps: Readonly<Record<ReduceOp, WireOp>> = {
  sum: "sum",
  mean: "sum",
  max: "max",
  min: "min",
};

/** MPI has no half precision: halves are reduced in float32. */
const wireTypes: Readonly<Record<DType, WireType>> = {
  float16: "float32",
  bfloat16: "float32",
  float32: "float32",
  float64: "float64",
  int32: "int32",
  int64: "int64",
  int16: "int32",
  int8: "int32",
  uint32: "int64",
  uint8: "uint8",
  bool: "uint8",
};

/**
 * The type in which tensors of `dtype` are reduced.
 *
 * @throws {DTypeError} Where the operation has no result of that type.
 */
export function wireTypeOf(dtype: DType, op: ReduceOp): WireType {
  if (op === "mean" && !isFloat(dtype) || op === "sum" && dtype === "bool") {
    throw dtypeError("reduce")`
      Cannot reduce tensors of ${dtype} by ${shown(op)} in place: cast() to
      ${op === "mean" ? "float32" : "int32"} first`;
  }
  return wireTypes[dtype];
}
