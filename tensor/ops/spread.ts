/** Mean and squared distances from it, which variances and norms are made of. */
import { backendOf } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";

/** Fewer elements, and parts of fewer or more, are walked twice: they are in a cache, or too few for a group. */
const MIN_SPREAD = 65_536, MIN_PART = 64, MAX_PART = 16_384;

/** Number of joined elements. */
export function countOf(x: Tensor, axes: readonly number[]): number {
  return axes.reduce((n, axis) => n * x.shape[axis]!, 1);
}

/** Distances of elements from their mean; the axes that they lie along are kept. */
interface Spread {
  /** The mean as a float, and what the exact one is above it. */
  readonly mean: Tensor;
  readonly rest: Tensor;
  /** The sum of the squared distances from the exact mean. */
  readonly squares: Tensor;
}

/**
 * Two passes, the second one corrected for the first one's rounding (T. Chan, G. Golub, R. LeVeque,
 * Algorithms for computing the sample variance, 1983, formula 1.7): right whatever the mean is.
 */
export function spread(x: Tensor, axes: readonly number[]): Spread {
  const inner = trailing(x, axes), outer = axes.filter((axis) => !inner.includes(axis));
  const length = countOf(x, inner);
  const isLong = x.size >= MIN_SPREAD && length >= MIN_PART && length <= MAX_PART;
  if (isLong && outer.length > 0 && backendOf(x.device).capabilities.joinsMoments) {
    return spreadInParts(x, outer, inner);
  }
  const keepDims = true, share = 1 / countOf(x, axes);
  const near = x.mean(axes, { keepDims });
  const centred = x.sub(near);
  const off = centred.sum(axes, { keepDims }), rest = off.mul(share);
  const sum = centred.square().sum(axes, { keepDims });
  return { mean: near, rest, squares: less(sum, off.mul(rest)) };
}

/**
 * A sum of squares less what the mean's rounding added to it. Where all elements are equal the two
 * differ by their rounding alone, to either side of 0; what overflows stays infinite.
 */
function less(sum: Tensor, share: Tensor): Tensor {
  const squares = sum.isInf().where(sum, sum.sub(share));
  return squares.le(0).where(0, squares);
}

/** The reduced axes behind all others. */
function trailing(x: Tensor, axes: readonly number[]): number[] {
  let first = x.ndim;
  while (axes.includes(first - 1)) first--;
  return axes.filter((axis) => axis >= first);
}

/**
 * One pass over the elements, such as a batch norm's: parts that lie together are read once, and stay in
 * registers for the distances from their mean and the squares of those; the parts are joined around the
 * mean of all (T. Chan, G. Golub, R. LeVeque, 1983, formulas 1.7 and 2.1). Parts are a row for each kept
 * element, side by side.
 */
function spreadInParts(
  x: Tensor,
  outer: readonly number[],
  inner: readonly number[],
): Spread {
  const kept = x.shape.map((_, axis) => axis).filter((axis) =>
    !outer.includes(axis) && !inner.includes(axis)
  );
  const order = [...kept, ...outer, ...inner], parts = x.permute(order);
  const alongParts = outer.map((axis) => order.indexOf(axis));
  const withinParts = inner.map((axis) => order.indexOf(axis));
  const keepDims = true, length = countOf(x, inner), share = 1 / countOf(x, outer);
  const nearOfPart = parts.mean(withinParts, { keepDims }), distances = parts.sub(nearOfPart);
  const sums = distances.sum(withinParts, { keepDims }), above = sums.mul(1 / length);
  const squared = distances.square().sum(withinParts, { keepDims });
  const near = nearOfPart.add(above).mean(alongParts, { keepDims });
  const centred = nearOfPart.sub(near).add(above);
  const off = centred.sum(alongParts, { keepDims }), rest = off.mul(share);
  const between = less(centred.square().sum(alongParts, { keepDims }), off.mul(rest));
  const within = less(squared, sums.mul(above)).sum(alongParts, { keepDims });
  const back = (t: Tensor): Tensor => t.permute(x.shape.map((_, axis) => order.indexOf(axis)));
  return {
    mean: back(near),
    rest: back(rest),
    squares: back(within.add(between.mul(length))),
  };
}
