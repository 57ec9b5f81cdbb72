/** Arguments of special functions. */
import { isFloat } from "../../../backend/internal.ts";
import { requireTensor, sameDevice } from "../../core/apply.ts";
import type { TensorLike } from "../../core/arguments.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { promote } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";

/**
 * @throws {TypeError} Unless it is a tensor.
 * @throws {DTypeError} Unless its elements are floating point numbers.
 */
export function requireFloating(op: string, x: unknown): asserts x is Tensor {
  requireTensor(op, x);
  if (isFloat(x.dtype)) return;
  throw dtypeError(op)`Cannot ${op} of ${x.dtype}: cast it with .cast("float32")`;
}

/** Tensors and numbers as tensors of one type, of which one at least is a tensor. */
export function floatOperands<const T extends readonly TensorLike[]>(
  op: string,
  ...operands: T
): { -readonly [K in keyof T]: Tensor } {
  const tensors = operands.filter((operand) => typeof operand !== "number") as Tensor[];
  const first = tensors[0] ?? operands[0];
  requireTensor(op, first);
  sameDevice(op, tensors);
  for (const tensor of tensors) requireFloating(op, tensor);
  const dtype = tensors.map((tensor) => tensor.dtype).reduce(promote);
  return operands.map((operand) =>
    typeof operand === "number"
      ? first.fullLike(operand, []).cast(dtype)
      : (operand as Tensor).cast(dtype)
  ) as { -readonly [K in keyof T]: Tensor };
}
