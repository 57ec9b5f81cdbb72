/**
 * Reductions over axes, each with its gradient.
 *
 * The file is long because each reduction stands beside its gradient, and both share one table of
 * options.
 */
import { type DType, isFloat, Node, type ReduceFn } from "../../backend/internal.ts";
import { result } from "../core/apply.ts";
import { atLeastSingle, widened } from "../core/autocast.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { isGradEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { positionType } from "../core/rules/promotion.ts";
import { nodeOf } from "../core/internals.ts";
import type { Axes, ReduceOptions, TensorLike, VarianceOptions } from "../core/arguments.ts";
import { keptShape, normalizeAxes, normalizeAxis } from "./shaping/axes.ts";
import { asLine } from "./shaping/views.ts";
import { countOf, spread } from "./spread.ts";
import { variant } from "../core/operations.ts";
import type { Tensor } from "../core/mod.ts";

const rules: Rules<ReduceOptions> = { keepDims: takes.bool };
const varianceRules: Rules<VarianceOptions> = { ...rules, correction: takes.finite };

/** The largest number of float32. */
const LARGEST_SINGLE = 3.4028234663852886e38;

function reduceNode(fn: ReduceFn, x: Tensor, axes: readonly number[], dtype: DType): Node {
  const shape = x.shape.filter((_, axis) => !axes.includes(axis));
  return new Node({ kind: "reduce", fn, axes }, [nodeOf(x)], shape, dtype);
}

function finishShape(
  out: Tensor,
  x: Tensor,
  axes: readonly number[],
  options?: ReduceOptions,
): Tensor {
  return options?.keepDims ? out.reshape(keptShape(x.shape, axes)) : out;
}

/** The result of which the reduced axes are still there. */
function finishKept(out: Tensor, axes: readonly number[], options?: ReduceOptions): Tensor {
  if (options?.keepDims) return out;
  return out.reshape(out.shape.filter((_, axis) => !axes.includes(axis)));
}

/** Converts for sums and products: integers and truth values to int64. */
export function summable(x: Tensor): Tensor {
  return isFloat(x.dtype) ? widened(x) : x.cast("int64");
}

/** The sum; of integers and truth values in int64, as in PyTorch. */
export function sum(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions("sum", options, rules);
  const list = normalizeAxes("sum", axes, x.shape);
  const input = summable(x);
  if (list.length === 0) return input;
  const kept = keptShape(x.shape, list), shape = x.shape;
  const out = result("sum", [input], reduceNode("sum", input, list, input.dtype), (g) => [
    g.reshape(kept).expand(shape),
  ]);
  return finishShape(out, x, list, options);
}

/** Computes in float32 what half types would lose on the way: sums leave their range. */
function inSingle(x: Tensor, compute: (x: Tensor) => Tensor): Tensor {
  const input = widened(x);
  return compute(atLeastSingle(input)).cast(input.dtype);
}

/** The mean of floating point numbers. */
export function mean(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions("mean", options, rules);
  requireFloat("mean", x);
  const list = normalizeAxes("mean", axes, x.shape);
  return inSingle(x, (input) => sum(input, list, options).mul(1 / countOf(x, list)));
}

function requireFloat(op: string, x: Tensor): void {
  if (isFloat(x.dtype)) return;
  throw dtypeError(op)`Cannot take the ${op} of ${x.dtype}: cast it with .cast("float32")`;
}

/** The product. */
export function prod(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions("prod", options, rules);
  const list = normalizeAxes("prod", axes, x.shape);
  const input = summable(x);
  if (list.length === 0) return input;
  const kept = keptShape(x.shape, list);
  const out = result("prod", [input], reduceNode("prod", input, list, input.dtype), (g) => [
    g.reshape(kept).mul(productOfOthers(inMemory(input), list)),
  ]);
  return finishShape(out, x, list, options);
}

/** For each element the product of all others, right also where some are zero, infinite or NaN. */
function productOfOthers(x: Tensor, axes: readonly number[]): Tensor {
  if (isGradEnabled()) return differentiableProductOfOthers(x, axes);
  const keepDims = true, INF = Infinity;
  const isZero = x.eq(0), isInf = x.isInf(), isNaN = x.isNaN();
  const plain = isZero.logicalOr(isInf).logicalOr(isNaN).where(1, x);
  const signs = isInf.where(x.sign(), 1);
  const hasOther = (test: Tensor): Tensor =>
    test.cast("float32").sum(axes, { keepDims }).gt(test.cast("float32"));
  // Selected, not multiplied: the product of what is not zero may be infinite.
  return hasOther(isZero).where(0, plain.prod(axes, { keepDims }).div(plain))
    .mul(hasOther(isInf).where(signs.prod(axes, { keepDims }).mul(signs).mul(INF), 1))
    .mul(hasOther(isNaN).where(NaN, 1));
}

/** The same for finite elements, with the derivatives at zeros. */
function differentiableProductOfOthers(x: Tensor, axes: readonly number[]): Tensor {
  const isZero = x.eq(0);
  const zeros = isZero.cast("float32").sum(axes, { keepDims: true });
  const others = isZero.where(1, x);
  const product = others.prod(axes, { keepDims: true });
  const at = zeros.eq(1).where(product, 0), elsewhere = zeros.eq(0).where(product.div(others), 0);
  // With one more zero the product is 0 and changes with that one.
  const vanished = isZero.where(x, 0), sum = vanished.sum(axes, { keepDims: true });
  return isZero.where(
    zeros.eq(2).where(product.mul(sum.sub(vanished)), at),
    zeros.eq(1).where(product.div(others).mul(sum), elsewhere),
  );
}

/** The largest or smallest element; equal ones share the gradient evenly. */
function extreme(
  fn: "max" | "min",
  x: Tensor,
  axes?: Axes,
  options?: ReduceOptions,
): Tensor {
  checkOptions(fn, options, rules);
  const list = normalizeAxes(fn, axes, x.shape);
  requireElements(fn, x, list);
  if (list.length === 0) return x;
  const kept = keptShape(x.shape, list);
  const out = result(fn, [x], reduceNode(fn, x, list, x.dtype), (g) => {
    const seen = inMemory(x);
    const top = withoutGrad(() => extreme(fn, seen.detach(), list, { keepDims: true }));
    const hits = seen.eq(top).cast(g.dtype);
    return [hits.mul(g.reshape(kept).div(hits.sum(list, { keepDims: true })))];
  });
  return finishShape(out, x, list, options);
}

/**
 * The same value, stored: kernels that compute a value for themselves need not agree on its last
 * bit, and what is compared must.
 */
function inMemory(x: Tensor): Tensor {
  return x.isRealized ? x : x.contiguous();
}

function requireElements(op: string, x: Tensor, axes: readonly number[]): void {
  if (axes.every((axis) => x.shape[axis]! > 0)) return;
  throw shapeError(op)`
    Cannot take the ${op} over an empty axis of a tensor of shape ${x.shape}: it has no identity`;
}

export const max = variant("max", extreme, "max");
export const min = variant("min", extreme, "min");

/** The position of the first largest or smallest element, as {@linkcode positionType} says. */
function argExtreme(
  fn: "argmax" | "argmin",
  x: Tensor,
  axis?: number,
  options?: ReduceOptions,
): Tensor {
  checkOptions(fn, options, rules);
  if (axis !== undefined && x.ndim === 0) {
    return asLine(fn, x, axis, (line) => argExtreme(fn, line, 0));
  }
  const flat = axis === undefined ? x.reshape([x.size]) : x;
  const at = axis === undefined ? 0 : normalizeAxis(fn, axis, x.shape);
  requireElements(fn, flat, [at]);
  const out = result(fn, [flat], reduceNode(fn, flat, [at], positionType(flat.shape[at]!)), null);
  return axis === undefined ? out : finishShape(out, x, [at], options);
}

export const argmax = variant("argmax", argExtreme, "argmax");
export const argmin = variant("argmin", argExtreme, "argmin");

/** The first largest or smallest element, and where it is. */
function extremeWithIndices(
  fn: "max" | "min",
  x: Tensor,
  axis?: number,
  options?: ReduceOptions,
): { values: Tensor; indices: Tensor } {
  const op = `${fn}WithIndices`;
  checkOptions(op, options, rules);
  if (axis === undefined) {
    const { values, indices } = extremeWithIndices(fn, x.reshape([x.size]), 0, options);
    const shape = options?.keepDims ? x.shape.map(() => 1) : [];
    return { values: values.reshape(shape), indices: indices.reshape(shape) };
  }
  if (x.ndim === 0) return asLine(op, x, axis, (line) => extremeWithIndices(fn, line, 0));
  const at = normalizeAxis(op, axis, x.shape);
  requireElements(op, x, [at]);
  const kept = argExtreme(`arg${fn}`, x, at, { keepDims: true });
  const values = finishKept(x.gather(at, kept), [at], options);
  return { values, indices: finishKept(kept, [at], options) };
}

export const maxWithIndices = variant("maxWithIndices", extremeWithIndices, "max");
export const minWithIndices = variant("minWithIndices", extremeWithIndices, "min");

/** True where any (or all) elements are not zero. */
function anyAll(fn: "any" | "all", x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions(fn, options, rules);
  const list = normalizeAxes(fn, axes, x.shape);
  const truth = x.dtype === "bool" ? x : x.ne(0);
  if (list.length === 0) return truth;
  const node = reduceNode(fn === "any" ? "max" : "min", truth, list, "bool");
  return finishShape(result(fn, [truth], node, null), x, list, options);
}

export const any = variant("any", anyAll, "any");
export const all = variant("all", anyAll, "all");

/** The variance, divided by `count - correction`. */
export function variance(
  x: Tensor,
  axes?: Axes,
  options?: VarianceOptions,
): Tensor {
  checkOptions("take the variance", options, varianceRules);
  requireFloat("variance", x);
  const list = normalizeAxes("variance", axes, x.shape);
  return inSingle(x, (input) => finishKept(varianceOf(input, list, options), list, options));
}

/** The standard deviation; its gradient where all elements are equal is 0, as in PyTorch. */
export function std(
  x: Tensor,
  axes?: Axes,
  options?: VarianceOptions,
): Tensor {
  checkOptions("take the standard deviation", options, varianceRules);
  requireFloat("std", x);
  const list = normalizeAxes("std", axes, x.shape);
  return inSingle(x, (input) => finishKept(deviationOf(input, list, options), list, options));
}

/** Factor of the sum of squared distances. */
function varianceShare(x: Tensor, axes: readonly number[], options?: VarianceOptions): number {
  return 1 / Math.max(0, countOf(x, axes) - (options?.correction ?? 1));
}

/**
 * The standard deviation with the reduced axes kept. It has the range of the elements, which their
 * squares have not: very large and very small ones are scaled by a power of 2 first.
 */
function deviationOf(x: Tensor, axes: readonly number[], options?: VarianceOptions): Tensor {
  const share = varianceShare(x, axes, options);
  const value = withoutGrad(() => {
    const seen = x.detach(), scale = scaleOf(seen, axes);
    return spread(seen.mul(scale), axes).squares.mul(share).sqrt().div(scale);
  });
  return result("std", [x], value, (g, y) => {
    const centred = x.sub(mean(x, axes, { keepDims: true }));
    return [y.eq(0).where(0, centred.div(y)).mul(g.mul(share))];
  });
}

/** A power of 2 that brings elements to where their squares and the sums of these have room. */
function scaleOf(x: Tensor, axes: readonly number[]): TensorLike {
  if (axes.some((axis) => x.shape[axis] === 0)) return 1;
  const room = x.dtype === "float64" ? 2 ** 300 : 2 ** 40;
  const top = x.abs().max(axes, { keepDims: true });
  const small = top.lt(1 / room).where(top.fullLike(room ** 2), 1);
  return top.gt(room).where(1 / room ** 2, small);
}

/** The variance with the reduced axes kept. */
function varianceOf(
  x: Tensor,
  axes: readonly number[],
  options?: VarianceOptions,
): Tensor {
  const factor = varianceShare(x, axes, options);
  const value = withoutGrad(() => spread(x.detach(), axes).squares.mul(factor));
  return result("variance", [x], value, (g) => {
    const centred = x.sub(mean(x, axes, { keepDims: true }));
    return [centred.mul(g.mul(2 * factor))];
  });
}

/** The square root with the gradient 0 at 0. */
function rootOf(x: Tensor): Tensor {
  const value = withoutGrad(() => x.detach().sqrt());
  return result("sqrt", [x], value, (g, y) => [y.eq(0).where(0, g.div(y.mul(2)))]);
}

/** The Euclidean norm; its gradient at 0 is 0, as in PyTorch. */
export function norm(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions("norm", options, rules);
  requireFloat("norm", x);
  const list = normalizeAxes("norm", axes, x.shape);
  return inSingle(x, (input) => rootOf(input.square().sum(list, options)));
}

/** `log(sum(exp(x)))`, without overflow. */
export function logSumExp(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  checkOptions("logSumExp", options, rules);
  requireFloat("logSumExp", x);
  const list = normalizeAxes("logSumExp", axes, x.shape);
  return inSingle(x, (input) => {
    // Nobody has the shift but the graph: as a constant in it, it would stay until the collector finds it.
    using shift = shiftOf(input, list);
    const out = input.sub(shift).exp().sum(list, { keepDims: true }).log().add(shift);
    return finishKept(out, list, options);
  });
}

/**
 * The maximum, held at the largest number: an infinity less that is one, and what is finite stays
 * below it, so that its share of the sum is 0.
 */
function shiftOf(x: Tensor, axes: readonly number[]): Tensor {
  return withoutGrad(() => {
    if (axes.some((axis) => x.shape[axis] === 0)) return x.zerosLike(keptShape(x.shape, axes));
    using top = x.detach().max(axes, { keepDims: true });
    const largest = x.dtype === "float64" ? Number.MAX_VALUE : LARGEST_SINGLE;
    return top.clamp(-largest, largest);
  });
}

/** `exp(x) / sum(exp(x))` along an axis. */
export function softmax(x: Tensor, axis = -1): Tensor {
  requireFloat("softmax", x);
  const at = normalizeAxes("softmax", axis, x.shape);
  if (x.size === 0) return widened(x);
  return inSingle(x, (input) => {
    const value = withoutGrad(() => {
      const detached = input.detach();
      const e = detached.sub(detached.max(at, { keepDims: true })).exp();
      return e.div(e.sum(at, { keepDims: true }));
    });
    return result("softmax", [input], value, (g, y) => [
      y.mul(g.sub(g.mul(y).sum(at, { keepDims: true }))),
    ]);
  });
}

/** `x - log(sum(exp(x)))` along an axis. */
export function logSoftmax(x: Tensor, axis = -1): Tensor {
  requireFloat("logSoftmax", x);
  const at = normalizeAxes("logSoftmax", axis, x.shape);
  if (x.size === 0) return widened(x);
  return inSingle(x, (input) => {
    const value = withoutGrad(() => {
      const detached = input.detach();
      const shifted = detached.sub(detached.max(at, { keepDims: true }));
      return shifted.sub(shifted.exp().sum(at, { keepDims: true }).log());
    });
    return result("logSoftmax", [input], value, (g, y) => [
      g.sub(y.exp().mul(g.sum(at, { keepDims: true }))),
    ]);
  });
}
