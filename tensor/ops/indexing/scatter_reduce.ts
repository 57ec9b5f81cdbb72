/** Elements that meet at an index, as a sum, a product, a mean or an extreme. */
import { backendOf, isFloat } from "../../../backend/internal.ts";
import { result, sameDevice } from "../../core/apply.ts";
import type { ScatterReduceOptions } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { promote } from "../../core/rules/promotion.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { normalizeAxis } from "../shaping/axes.ts";
import { scatter, scatterAdd, scatteredNode } from "./indexing.ts";

const rules: Rules<ScatterReduceOptions> = {
  reduce: takes.oneOf("sum", "prod", "mean", "amax", "amin"),
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
  sameDevice(op, [x, indices, source]);
  const { reduce, includeSelf: isSelf = true } = options;
  const at = normalizeAxis(op, axis, x.shape);
  const count = withoutGrad(() => {
    const own = x.detach().fullLike(isSelf ? 1 : 0);
    return scatterAdd(own, at, indices, source.detach().onesLike());
  });
  const isFree = withoutGrad(() => (isSelf ? count.fullLike(0) : count).gt(0));
  if (reduce === "prod") return isFree.where(1, x).mul(products(x, at, indices, source));
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

/** The product of what comes to each place, 1 where nothing does: each place reads all of its line. */
function products(x: Tensor, at: number, indices: Tensor, source: Tensor): Tensor {
  // The sum checks the shapes and the indices.
  scatterAdd(x.detach(), at, indices, source.detach());
  const shape = indices.shape, n = x.shape[at]!;
  const part = source.slice(...shape.map((n): [number, number] => [0, n]));
  const ones = shape.map(() => 1), places = x.indexLike([n]).reshape(ones.toSpliced(at, 0, n));
  const isHere = indices.unsqueeze(at).eq(places);
  const found = isHere.where(part.unsqueeze(at), 1).prod(at + 1);
  return found.pad(x.shape.map((n, k): [number, number] => [0, k === at ? 0 : n - shape[k]!]), 1);
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

/** The largest or least of what comes to each place; equal ones share the gradient. */
function extreme(reduce: "amax" | "amin", how: Scattered): Tensor {
  const { x, at, indices, source, isFree } = how;
  const value = withoutGrad(() =>
    x.ndim > 0 && backendOf(x.device).capabilities.scattersExtremes
      ? joined(reduce, how)
      : stored(reduce, how)
  );
  return result("scatterReduce", [x, source, indices], value, (g, y) => {
    const isOwn = withoutGrad(() => isFree.logicalNot().logicalAnd(x.eq(y)).cast(g.dtype));
    const isHit = withoutGrad(() => source.eq(y.gather(at, indices)).cast(g.dtype));
    const share = g.div(scatterAdd(isOwn, at, indices, isHit).maximum(1));
    return [share.mul(isOwn), share.gather(at, indices).mul(isHit), null];
  });
}

function joined(reduce: "amax" | "amin", { x, at, indices, source, isSelf }: Scattered): Tensor {
  const dtype = promote(x.dtype, source.dtype), own = x.detach().cast(dtype);
  const part = source.detach().slice(...indices.shape.map((n): [number, number] => [0, n]))
    .cast(dtype);
  // Without the former elements each place begins with one of those that come to it.
  const base = isSelf ? own : scatter(own, at, indices, part);
  const mode = reduce === "amax" ? "max" : "min";
  const node = scatteredNode("scatterReduce", mode, base, at, indices, part);
  return result("scatterReduce", [base, part, indices], node, null);
}

/** Stored in ascending or descending order, the last of equal indices wins; NaN comes last in both. */
function stored(reduce: "amax" | "amin", { x, at, indices, source, isSelf }: Scattered): Tensor {
  const given = source.detach(), isTurned = reduce === "amin" && isFloat(given.dtype);
  const descending = reduce === "amin" && !isTurned;
  const order = (isTurned ? given.neg() : given).argsort(at, { descending }).contiguous();
  const found = scatter(
    x.detach(),
    at,
    indices.gather(at, order),
    source.detach().gather(at, order),
  );
  if (!isSelf) return found;
  return reduce === "amax" ? found.maximum(x.detach()) : found.minimum(x.detach());
}
