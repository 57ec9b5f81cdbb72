/** Elements of typed arrays in the types that the plain evaluator computes in. */
import {
  type DType,
  fromBfloat16Bits,
  toBfloat16Bits,
  type TypedArray,
} from "../../graph/dtype.ts";
import type { Value } from "./reference_primitives.ts";

/** An element in its compute type. */
export function readElement(buffer: TypedArray, dtype: DType, index: number): Value {
  const value = buffer[index]!;
  return dtype === "bfloat16" ? fromBfloat16Bits(Number(value)) : value;
}

/** Stores an element of compute type. */
export function writeElement(buffer: TypedArray, dtype: DType, index: number, value: Value): void {
  buffer[index] = dtype === "bfloat16" ? toBfloat16Bits(Number(value)) : value;
}
