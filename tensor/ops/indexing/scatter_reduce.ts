/** Elements that meet at an index, as a sum, a mean or an extreme. */
import { isFloat } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import type { ScatterReduceOptions } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/tensor.ts";
import { normalizeAxis } from "../shaping/axes.ts";
import { scatter, scatterAdd } from "./indexing.ts";

const rules: Rules<ScatterReduceOptions> = {
  reduce: takes.oneOf("sum", "mean", "amax", "amin"),
  includeSelf: takes.bool,
};

/** See `Tensor.scatterReduce`. */
export function scatterReduce(
  x: Tensor,
  axis: number,
  indices: Tensor,
  source: Tensor,
  options: ScatterReduceOptions,
): Tensor {
  const op = "scatterReduce";
  checkOptions(op, options, rules, ["reduce"]);
  const { reduce, includeSelf: isSelf = true } = options;
  const at = normalizeAxis(op, axis, x.shape);
  const count = withoutGrad(() => {
    const own = x.detach().fullLike(isSelf ? 1 : 0);
    return scatterAdd(own, at, indices, source.detach().onesLike());
  });
  const isFree = withoutGrad(() => isSelf ? count.lt(0) : count.gt(0));
  // Where something is stored, the former element does not count.
  const base = isFree.where(0, x);
  if (reduce === "sum") return scatterAdd(base, at, indices, source);
  if (reduce === "amax" || reduce === "amin") {
    return extreme(reduce, { x, at, indices, source, isSelf, isFree });
  }
  if (!isFloat(x.dtype)) {
    throw dtypeError(
      "scatterReduce",
    )`Cannot take the mean of ${x.dtype}: cast it with .cast("float32")`;
  }
  return scatterAdd(base, at, indices, source).div(count.maximum(1));
}

interface Scattered {
  readonly x: Tensor;
  readonly at: number;
  readonly indices: Tensor;
  readonly source: Tensor;
  readonly isSelf: boolean;
  /** True where the former element does not count. */
  readonly isFree: Tensor;
}

/** Stored in ascending or descending order, the last of equal indices wins; equal ones share the gradient. */
function extreme(reduce: "amax" | "amin", how: Scattered): Tensor {
  const { x, at, indices, source, isSelf, isFree } = how;
  const value = withoutGrad(() => {
    const order = source.detach().argsort(at, { descending: reduce === "amin" }).contiguous();
    const found = scatter(
      x.detach(),
      at,
      indices.gather(at, order),
      source.detach().gather(at, order),
    );
    if (!isSelf) return found;
    return reduce === "amax" ? found.maximum(x.detach()) : found.minimum(x.detach());
  });
  return result("scatterReduce", [x, source, indices], value, (g, y) => {
    const isOwn = withoutGrad(() => isFree.logicalNot().logicalAnd(x.eq(y)).cast(g.dtype));
    const isHit = withoutGrad(() => source.eq(y.gather(at, indices)).cast(g.dtype));
    const share = g.div(scatterAdd(isOwn, at, indices, isHit).maximum(1));
    return [share.mul(isOwn), share.gather(at, indices).mul(isHit), null];
  });
}
