/** Which elements of two tensors are as good as equal. */
import { dtypes } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import { checkOptions, type Rules, takes } from "../../core/options.ts";
import { promote } from "../../core/promotion.ts";
import type { Tensor } from "../../tensor.ts";

/** How far apart elements may be that count as equal: `|a - b| <= atol + rtol * |b|`. */
export interface CloseOptions {
  /** The share of `|b|`; 1e-5 by default. */
  rtol?: number;
  /** The absolute part; 1e-8 by default. */
  atol?: number;
  /** NaN counts as equal to NaN; not by default. */
  equalNan?: boolean;
}

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
  const dtype = dtypes[common].kind === "float" ? common : "int64";
  const x = a.cast(dtype), y = b.cast(dtype);
  const bound = y.abs().cast(dtypes[dtype].kind === "float" ? dtype : "float32").mul(rtol);
  const isNear = x.sub(y).abs().le(bound.add(atol)).logicalAnd(y.isFinite());
  const close = isNear.logicalOr(x.eq(y));
  return equalNan ? close.logicalOr(x.isNaN().logicalAnd(y.isNaN())) : close;
}
