/** Distances of rows from one another. */
import { isFloat } from "../../backend/internal.ts";
import { sameDevice } from "../core/apply.ts";
import type { Axes, DistanceOptions, ReduceOptions } from "../core/arguments.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, type Rules } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { fromHost } from "./creation/host_data.ts";
import { indexSelect } from "./indexing/indexing.ts";

const rules: Rules<DistanceOptions> = {
  p: { takes: "a number of at least 0", accepts: (v) => typeof v === "number" && v >= 0 },
};

/** Lengths of differences along the last axis; the gradient of a length of 0 is 0, as in PyTorch. */
function lengths(differences: Tensor, p: number): Tensor {
  if (p === 2) return differences.norm(-1);
  const sizes = differences.abs();
  if (p === 0) return sizes.ne(0).where(1, sizes).sum(-1);
  if (p === 1) return sizes.sum(-1);
  if (p === Infinity) return sizes.max(-1);
  return rootOfPowers(sizes, p, -1);
}

/**
 * The p-th root of the sum of p-th powers, of magnitudes, `p` above 0. Neither the power nor the root has a
 * slope at 0: gradients of any order are 0 there, as PyTorch's are where it has a number.
 */
export function rootOfPowers(
  sizes: Tensor,
  p: number,
  axes: Axes | undefined,
  options?: ReduceOptions,
): Tensor {
  const isZero = sizes.eq(0);
  const sum = isZero.where(0, isZero.where(1, sizes).pow(p)).sum(axes, options);
  const isNothing = sum.eq(0);
  return isNothing.where(0, isNothing.where(1, sum).pow(1 / p));
}

/** See `Tensor.pdist`. */
export function pdist(x: Tensor, options: DistanceOptions = {}): Tensor {
  checkOptions("pdist", options, rules);
  if (!isFloat(x.dtype)) {
    throw dtypeError("pdist")`Cannot pdist ${x.dtype}: cast it with .cast("float32")`;
  }
  if (x.ndim !== 2) {
    throw shapeError("pdist")`Cannot pdist rows of shape ${x.shape}: pass (rows, features)`;
  }
  const n = x.shape[0]!;
  const [first, second] = [new Int32Array(n * (n - 1) / 2), new Int32Array(n * (n - 1) / 2)];
  for (let i = 0, at = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++, at++) [first[at], second[at]] = [i, j];
  }
  const rows = (places: Int32Array<ArrayBuffer>) =>
    indexSelect(x, 0, fromHost(places, { device: x.device }));
  return lengths(rows(first).sub(rows(second)), options.p ?? 2);
}

/** See `Tensor.cdist`. */
export function cdist(a: Tensor, b: Tensor, options: DistanceOptions = {}): Tensor {
  sameDevice("cdist", [a, b]);
  checkOptions("cdist", options, rules);
  if (a.ndim < 2 || b.ndim < 2 || a.shape.at(-1) !== b.shape.at(-1)) {
    throw shapeError("cdist")`
      Cannot cdist rows of shapes ${a.shape} and ${b.shape}: pass (..., rows, features), of as
      many features`;
  }
  // Differences, not products: those lose the digits of near neighbours.
  return lengths(a.unsqueeze(-2).sub(b.unsqueeze(-3)), options.p ?? 2);
}
