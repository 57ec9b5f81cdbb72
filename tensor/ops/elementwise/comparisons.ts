/** Test for almost equal elements of two tensors. */
import { isFloat } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { promote } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import type { CloseOptions } from "../../core/arguments.ts";

const closeRules: Rules<CloseOptions> = {
  rtol: takes.nonNegative,
  atol: takes.nonNegative,
  equalNan: takes.bool,
};

/** True for each element that is near to that of `b`. */
export function isClose(a: Tensor, b: Tensor, options: CloseOptions = {}): Tensor {
  checkOptions("isClose", options, closeRules);
  requireTensor("isClose", b);
  const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
  const common = promote(a.dtype, b.dtype);
  // The difference of integers is exact where it is computed in int64.
  const dtype = isFloat(common) ? common : "int64";
  const x = a.cast(dtype), y = b.cast(dtype);
  const bound = y.abs().cast(isFloat(dtype) ? dtype : "float32").mul(rtol);
  const isNear = x.sub(y).abs().le(bound.add(atol)).logicalAnd(y.isFinite());
  const close = isNear.logicalOr(x.eq(y));
  return equalNan ? close.logicalOr(x.isNaN().logicalAnd(y.isNaN())) : close;
}
