/** Running sums, products and extremes along an axis, each with its gradient. */
import { isFloat, type ScanFn } from "../../backend/internal.ts";
import { derived, result } from "../core/apply.ts";
import { atLeastSingle, widened } from "../core/autocast.ts";
import type { GradientFn } from "../core/grad_fn.ts";
import { isGradEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { dtypeError } from "../core/rules/errors.ts";
import { positionType } from "../core/rules/promotion.ts";
import { variant } from "../core/operations.ts";
import type { Tensor } from "../core/mod.ts";
import { normalizeAxis } from "./shaping/axes.ts";
import { asLine } from "./shaping/views.ts";
import { scatterNode } from "./indexing/indexing.ts";
import { summable } from "./reductions.ts";

/** Scans the last axis. */
function scan(op: string, fn: ScanFn, x: Tensor, gradient: GradientFn | null): Tensor {
  return derived(op, x, { kind: "scan", fn }, x.shape, x.dtype, gradient);
}

/** Applies a function of the last axis to another one. */
function alongAxis<T>(
  x: Tensor,
  axis: number,
  fn: (x: Tensor, back: (y: Tensor) => Tensor) => T,
): T {
  const last = x.ndim - 1;
  if (axis === last) return fn(x, (y) => y);
  return fn(x.transpose(axis, last), (y) => y.transpose(axis, last));
}

/** Running sums from the end. */
function sumsFromEnd(x: Tensor): Tensor {
  const last = x.ndim - 1;
  return x.flip(last).cumsum(last).flip(last);
}

/** Running sums along an axis. */
export function cumsum(x: Tensor, axis: number): Tensor {
  if (x.ndim === 0) return asLine("cumsum", x, axis, (line) => cumsum(line, 0));
  const at = normalizeAxis("cumsum", axis, x.shape);
  return alongAxis(
    summable(x),
    at,
    (input, back) => back(scan("cumsum", "sum", input, (g) => [sumsFromEnd(g)])),
  );
}

/**
 * The logarithms of running sums of exponentials. Each step doubles how many elements a place has added
 * up: sums of logarithms keep what one shift for all of a row would round to 0.
 */
export function logcumsumexp(x: Tensor, axis: number): Tensor {
  if (!isFloat(x.dtype)) {
    throw dtypeError("logcumsumexp")`Cannot logcumsumexp ${x.dtype}: cast it with .cast("float32")`;
  }
  if (x.ndim === 0) return asLine("logcumsumexp", x, axis, (line) => logcumsumexp(line, 0));
  const at = normalizeAxis("logcumsumexp", axis, x.shape);
  return alongAxis(atLeastSingle(widened(x)), at, (input, back) => {
    const last = input.ndim - 1, n = input.shape[last]!;
    const value = withoutGrad(() => logSums(input.detach(), n));
    const out = result("logcumsumexp", [input], value, (g, y) => [
      // A share of each sum that an element is in, added up from the end.
      sharesFromEnd(g, input, y, n),
    ]);
    return back(out).cast(x.dtype);
  });
}

/** A part of the last axis from `start`, with `value` in front of it or behind it. */
function shifted(x: Tensor, by: number, value: number): Tensor {
  const n = x.shape.at(-1)!, lead = x.shape.slice(0, -1).map((): [number, number] => [0, 0]);
  const part = by > 0 ? [0, n - by] as const : [-by, n] as const;
  const kept = x.slice(...lead.map(() => null), part);
  return kept.pad([...lead, by > 0 ? [by, 0] : [0, -by]], value);
}

function logSums(x: Tensor, n: number): Tensor {
  let sums = x;
  for (let by = 1; by < n; by *= 2) {
    sums = sums.logaddexp(shifted(sums, by, -Infinity)).contiguous();
  }
  return sums;
}

/**
 * The sums over later k of `g[k] * exp(x - y[k])`, by the same doubling: weights are shares of a sum in a
 * later one, at most 1.
 */
function sharesFromEnd(g: Tensor, x: Tensor, y: Tensor, n: number): Tensor {
  const isNothing = y.eq(-Infinity);
  const share = (part: Tensor, whole: Tensor) =>
    isNothing.where(0, isNothing.where(0, part).sub(isNothing.where(0, whole)).exp());
  let sums = g;
  for (let by = 1; by < n; by *= 2) {
    sums = sums.add(share(y, shifted(y, -by, Infinity)).mul(shifted(sums, -by, 0)));
  }
  return sums.mul(share(x, y));
}

/** Running products along an axis. */
export function cumprod(x: Tensor, axis: number): Tensor {
  if (x.ndim === 0) return asLine("cumprod", x, axis, (line) => cumprod(line, 0));
  const at = normalizeAxis("cumprod", axis, x.shape);
  return alongAxis(summable(x), at, (input, back) => back(product(input)));
}

function product(x: Tensor): Tensor {
  return scan("cumprod", "prod", x, (g, y) => [gradientOfProduct(g, x, y)]);
}

/**
 * The products that an element is in, without it: before the first zero of a row by division; at the
 * first zero by the products as they would be without it; after it all are 0, and change with it.
 */
function gradientOfProduct(
  g: Tensor,
  x: Tensor,
  y: Tensor,
  isDifferentiated = isGradEnabled(),
): Tensor {
  const last = x.ndim - 1, isZero = x.detach().eq(0);
  const zeros = withoutGrad(() => isZero.cast("int32").cumsum(last).contiguous());
  const isFirst = isZero.logicalAnd(zeros.eq(1));
  const divided = sumsFromEnd(g.mul(y)).div(isZero.where(1, x));
  const others = isFirst.where(1, x), without = product(others);
  const atFirst = sumsFromEnd(g.mul(without));
  const later = isDifferentiated
    ? isFirst.where(x, 0).sum(last, { keepDims: true })
      .mul(gradientOfProduct(g, others, without, false))
    : 0;
  return isFirst.where(atFirst, zeros.eq(0).where(divided, later));
}

/** Running extremes along an axis, and where the last of equal ones stands. */
function cumulativeExtreme(
  fn: "max" | "min",
  x: Tensor,
  axis: number,
): { values: Tensor; indices: Tensor } {
  const op = fn === "max" ? "cummax" : "cummin";
  if (x.ndim === 0) return asLine(op, x, axis, (line) => cumulativeExtreme(fn, line, 0));
  const at = normalizeAxis(op, axis, x.shape);
  if (x.dtype === "bool") {
    const { values, indices } = cumulativeExtreme(fn, x.cast("uint8"), axis);
    return { values: values.cast("bool"), indices };
  }
  return alongAxis(x, at, (input, back) => {
    const n = input.shape[input.ndim - 1]!;
    const { values, places } = withoutGrad(() => {
      const values = scan(op, fn, input.detach(), null);
      const stored = input.detach();
      const isNew = stored.eq(values).logicalOr(stored.isNaN());
      const own = input.indexLike([n]).cast(positionType(n));
      return { values, places: scan(op, "max", isNew.where(own, 0), null) };
    });
    const recorded = result(op, [input], values, (g) => [
      scatterNode(op, "add", g.zerosLike(), g.ndim - 1, places, g),
    ]);
    return { values: back(recorded), indices: back(places) };
  });
}

export const cummax = variant("cummax", cumulativeExtreme, "max");
export const cummin = variant("cummin", cumulativeExtreme, "min");
