/** Reductions over axes, each with its gradient. */
import { type DType, dtypes, formatShape, Node, type ReduceFn } from "../../backend/engine.ts";
import { widened } from "../amp/autocast.ts";
import { derived, result } from "../apply.ts";
import { DTypeError, ShapeError } from "../errors.ts";
import { isGradEnabled, noGrad } from "../grad_mode.ts";
import { positionType } from "../promotion.ts";
import type { Tensor } from "../tensor.ts";
import { type Axes, keptShape, normalizeAxes, normalizeAxis } from "./axes.ts";

/** Options of reductions. */
export interface ReduceOptions {
  /** The reduced axes stay, with size 1. */
  keepDims?: boolean;
}

function reduceNode(fn: ReduceFn, x: Tensor, axes: readonly number[], dtype: DType): Node {
  const shape = x.shape.filter((_, axis) => !axes.includes(axis));
  return new Node({ kind: "reduce", fn, axes }, [x.node], shape, dtype);
}

function finishShape(
  out: Tensor,
  x: Tensor,
  axes: readonly number[],
  options?: ReduceOptions,
): Tensor {
  return options?.keepDims ? out.reshape(keptShape(x.shape, axes)) : out;
}

/** What sums and products add up in: integers and truth values in int64. */
function summable(x: Tensor): Tensor {
  return dtypes[x.dtype].kind === "float" ? widened(x) : x.cast("int64");
}

/** The sum; of integers and truth values in int64, as in PyTorch. */
export function sum(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  const list = normalizeAxes("sum", axes, x.shape);
  const input = summable(x);
  if (list.length === 0) return input;
  const kept = keptShape(x.shape, list), shape = x.shape;
  const out = result("sum", [input], reduceNode("sum", input, list, input.dtype), (g) => [
    g.reshape(kept).expand(shape),
  ]);
  return finishShape(out, x, list, options);
}

/** The mean of floating point numbers. */
export function mean(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  requireFloat("mean", x);
  const list = normalizeAxes("mean", axes, x.shape);
  const count = list.reduce((n, axis) => n * x.shape[axis]!, 1);
  return sum(x, list, options).mul(1 / count);
}

function requireFloat(op: string, x: Tensor): void {
  if (dtypes[x.dtype].kind === "float") return;
  throw new DTypeError(`Cannot take the ${op} of ${x.dtype}: cast it with .cast("float32")`);
}

/** The product. */
export function prod(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  const list = normalizeAxes("prod", axes, x.shape);
  const input = summable(x);
  if (list.length === 0) return input;
  const kept = keptShape(x.shape, list);
  const out = result("prod", [input], reduceNode("prod", input, list, input.dtype), (g) => [
    g.reshape(kept).mul(productOfOthers(inMemory(input), list)),
  ]);
  return finishShape(out, x, list, options);
}

/** For each element the product of all others, right also where one or more are zero. */
function productOfOthers(x: Tensor, axes: readonly number[]): Tensor {
  const isZero = x.eq(0);
  const zeros = isZero.cast("float32").sum(axes, { keepDims: true });
  const others = isZero.where(1, x);
  const product = others.prod(axes, { keepDims: true });
  const at = zeros.eq(1).where(product, 0), elsewhere = zeros.eq(0).where(product.div(others), 0);
  if (!isGradEnabled()) return isZero.where(at, elsewhere);
  // A second derivative is asked for: with one more zero the product is 0 and changes with that one.
  const vanished = isZero.where(x, 0), sum = vanished.sum(axes, { keepDims: true });
  return isZero.where(
    zeros.eq(2).where(product.mul(sum.sub(vanished)), at),
    zeros.eq(1).where(product.div(others).mul(sum), elsewhere),
  );
}

/** The largest or smallest element; equal ones share the gradient evenly. */
export function extreme(
  fn: "max" | "min",
  x: Tensor,
  axes?: Axes,
  options?: ReduceOptions,
): Tensor {
  const list = normalizeAxes(fn, axes, x.shape);
  requireElements(fn, x, list);
  if (list.length === 0) return x;
  const kept = keptShape(x.shape, list);
  const out = result(fn, [x], reduceNode(fn, x, list, x.dtype), (g) => {
    const seen = inMemory(x);
    const top = noGrad(() => extreme(fn, seen.detach(), list, { keepDims: true }));
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
  throw new ShapeError(
    `Cannot take the ${op} over an empty axis of a tensor of shape ${
      formatShape(x.shape)
    }: it has no identity`,
  );
}

/** The position of the first largest or smallest element, as {@linkcode positionType} says. */
export function argExtreme(
  fn: "argmax" | "argmin",
  x: Tensor,
  axis?: number,
  options?: ReduceOptions,
): Tensor {
  const flat = axis === undefined ? x.reshape([x.size]) : x;
  const at = axis === undefined ? 0 : normalizeAxis(fn, axis, x.shape);
  requireElements(fn, flat, [at]);
  const out = result(fn, [flat], reduceNode(fn, flat, [at], positionType(flat.shape[at]!)), null);
  return axis === undefined ? out : finishShape(out, x, [at], options);
}

/** True where any (or all) elements are not zero. */
export function anyAll(fn: "any" | "all", x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  const list = normalizeAxes(fn, axes, x.shape);
  const truth = x.dtype === "bool" ? x : x.ne(0);
  if (list.length === 0) return truth;
  const node = reduceNode(fn === "any" ? "max" : "min", truth, list, "bool");
  return finishShape(result(fn, [truth], node, null), x, list, options);
}

/** The variance, divided by `count - correction`. */
export function variance(
  x: Tensor,
  axes?: Axes,
  options?: ReduceOptions & { correction?: number },
): Tensor {
  requireFloat("variance", x);
  const list = normalizeAxes("variance", axes, x.shape);
  const count = list.reduce((n, axis) => n * x.shape[axis]!, 1);
  const centred = x.sub(mean(x, list, { keepDims: true }));
  return sum(centred.mul(centred), list, options).mul(
    1 / Math.max(0, count - (options?.correction ?? 1)),
  );
}

/** The Euclidean norm; its gradient at 0 is 0, as in PyTorch. */
export function norm(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  requireFloat("norm", x);
  const list = normalizeAxes("norm", axes, x.shape);
  const squares = x.square().sum(list, { keepDims: true });
  const isZero = squares.eq(0);
  const length = isZero.where(0, isZero.where(1, squares).sqrt());
  return options?.keepDims ? length : length.reshape(x.shape.filter((_, k) => !list.includes(k)));
}

/** `log(sum(exp(x)))`, without overflow. */
export function logSumExp(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  requireFloat("logSumExp", x);
  const list = normalizeAxes("logSumExp", axes, x.shape);
  const input = widened(x), shift = shiftOf(input, list);
  const out = input.sub(shift).exp().sum(list, { keepDims: true }).log().add(shift);
  return options?.keepDims ? out : out.reshape(x.shape.filter((_, axis) => !list.includes(axis)));
}

/** The maximum where it is finite, else 0, so that it can be subtracted. */
function shiftOf(x: Tensor, axes: readonly number[]): Tensor {
  return noGrad(() => {
    if (axes.some((axis) => x.shape[axis] === 0)) return x.zerosLike(keptShape(x.shape, axes));
    const top = x.detach().max(axes, { keepDims: true });
    return top.isInf().where(0, top);
  });
}

/** `exp(x) / sum(exp(x))` along an axis. */
export function softmax(x: Tensor, axis = -1): Tensor {
  requireFloat("softmax", x);
  const at = x.ndim === 0 ? [] : [normalizeAxis("softmax", axis, x.shape)];
  const input = widened(x);
  if (input.size === 0) return input;
  const value = noGrad(() => {
    const detached = input.detach();
    const e = detached.sub(detached.max(at, { keepDims: true })).exp();
    return e.div(e.sum(at, { keepDims: true }));
  });
  return result(
    "softmax",
    [input],
    value,
    (g, y) => [y.mul(g.sub(g.mul(y).sum(at, { keepDims: true })))],
  );
}

/** `x - log(sum(exp(x)))` along an axis. */
export function logSoftmax(x: Tensor, axis = -1): Tensor {
  requireFloat("logSoftmax", x);
  const at = x.ndim === 0 ? [] : [normalizeAxis("logSoftmax", axis, x.shape)];
  const input = widened(x);
  if (input.size === 0) return input;
  const value = noGrad(() => {
    const detached = input.detach();
    const shifted = detached.sub(detached.max(at, { keepDims: true }));
    return shifted.sub(shifted.exp().sum(at, { keepDims: true }).log());
  });
  return result("logSoftmax", [input], value, (g, y) => [
    g.sub(y.exp().mul(g.sum(at, { keepDims: true }))),
  ]);
}

/** Running sums along an axis. */
export function cumsum(x: Tensor, axis: number): Tensor {
  const at = normalizeAxis("cumsum", axis, x.shape);
  const input = summable(x);
  const last = input.ndim - 1;
  const moved = at === last ? input : input.transpose(at, last);
  const out = derived("cumsum", moved, { kind: "scan" }, moved.shape, moved.dtype, (g) => [
    g.flip(last).cumsum(last).flip(last),
  ]);
  return at === last ? out : out.transpose(at, last);
}
