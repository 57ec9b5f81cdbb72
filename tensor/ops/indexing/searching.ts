/** Places in sorted sequences, counts of what comes before: what selections and histograms are made of. */
import { broadcastShapes, isFloat, type Shape } from "../../../backend/internal.ts";
import { derived, requireTensor, sameDevice } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { positionType, promote } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import type { SearchOptions } from "../../core/arguments.ts";

const searchRules: Rules<SearchOptions> = { right: takes.bool };

/** Elements that a work-item of a running count adds up one after the other. */
const COUNT_BLOCK = 512;

/** The last element of a vector as one view, for `readSize`. */
export function lastOf(x: Tensor): Tensor {
  const op = { kind: "slice", starts: [x.size - 1], steps: [1] } as const;
  return derived("slice", x, op, [1], x.dtype, null);
}

/** Running sums of whole numbers along the last axis, in their type. */
function runningSum(x: Tensor): Tensor {
  return derived("cumsum", x, { kind: "scan", fn: "sum" }, x.shape, x.dtype, null);
}

/** Number of a vector's true elements up to each one, itself included. */
export function runningCount(mask: Tensor): Tensor {
  return sumsInBlocks(mask.cast(positionType(mask.size)));
}

/** Running sums of a vector: of blocks, in parallel, to which those of the blocks' totals are added. */
function sumsInBlocks(x: Tensor): Tensor {
  const n = x.size;
  if (n <= COUNT_BLOCK) return runningSum(x);
  const rows = Math.ceil(n / COUNT_BLOCK);
  const blocks = x.pad([[0, rows * COUNT_BLOCK - n]]).reshape([rows, COUNT_BLOCK]);
  const within = runningSum(blocks);
  const totals = within.slice(null, COUNT_BLOCK - 1);
  const before = sumsInBlocks(totals).sub(totals);
  return within.add(before.unsqueeze(1)).reshape([rows * COUNT_BLOCK]).slice([0, n]);
}

/** Positions of values in sorted sequences, of the last axis. */
export function searchsorted(
  sorted: Tensor,
  values: Tensor | number,
  options: SearchOptions = {},
): Tensor {
  checkOptions("searchsorted", options, searchRules);
  const wanted = typeof values === "number" ? sorted.fullLike(values, []) : values;
  requireTensor("searchsorted", wanted);
  sameDevice("searchsorted", [sorted, wanted]);
  const lead = sorted.shape.slice(0, -1);
  const fits = sorted.ndim === 1 ||
    wanted.ndim === sorted.ndim && lead.every((n, axis) => n === wanted.shape[axis]);
  if (sorted.ndim === 0 || !fits) {
    throw shapeError("searchsorted")`
      Cannot searchsorted values of shape ${wanted.shape} in a tensor of shape ${sorted.shape}:
      pass one sequence, or as many as there are rows of values`;
  }
  return withoutGrad(() => {
    const dtype = promote(sorted.dtype, wanted.dtype);
    // No view of what is stored: one that nothing computes would hold it until it is collected.
    const v = wanted.cast(dtype), cast = sorted.cast(dtype);
    const x = cast.isRealized ? cast : cast.contiguous();
    if (sorted.ndim > 1) return bisect(x, v, options.right ?? false);
    return bisect(x, v.reshape([v.size]), options.right ?? false).reshape(v.shape);
  });
}

/** Binary search without branches: the place grows by powers of two. */
function bisect(sorted: Tensor, values: Tensor, right: boolean): Tensor {
  const last = sorted.ndim - 1, n = sorted.shape[last]!;
  const dtype = positionType(n + 1);
  let place = values.zerosLike().cast(dtype);
  if (n === 0 || values.size === 0) return place;
  for (let step = 2 ** Math.floor(Math.log2(n)); step >= 1; step /= 2) {
    const probe = place.add(step);
    const element = sorted.gather(last, probe.sub(1).minimum(n - 1));
    const isBefore = right
      ? comesBefore(values, element).logicalNot()
      : comesBefore(element, values);
    place = probe.le(n).logicalAnd(isBefore).where(probe, place);
  }
  return place;
}

/** In the order of `sort`: NaN is the largest. */
function comesBefore(a: Tensor, b: Tensor): Tensor {
  const isLess = a.lt(b);
  if (!isFloat(a.dtype)) return isLess;
  return isLess.logicalOr(b.isNaN().logicalAnd(a.isNaN().logicalNot()));
}

/** The shape that tensors broadcast to. @throws {ShapeError} When they do not. */
export function commonShape(op: string, tensors: readonly Tensor[]): Shape {
  let shape: Shape = [];
  for (const t of tensors) {
    const next = broadcastShapes(shape, t.shape);
    if (!next) {
      throw shapeError(op)`
        Cannot ${op} tensors of shapes ${tensors.map((x) => x.shape)}: they do not broadcast`;
    }
    shape = next;
  }
  return shape;
}
