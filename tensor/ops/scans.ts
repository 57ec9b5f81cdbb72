/** Running sums, products and extremes along an axis, each with its gradient. */
import type { ScanFn } from "../../backend/internal.ts";
import { derived, result } from "../core/apply.ts";
import type { GradientFn } from "../core/grad_fn.ts";
import { isGradEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { positionType } from "../core/rules/promotion.ts";
import type { Tensor } from "../core/tensor.ts";
import { normalizeAxis } from "./shaping/axes.ts";
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
  const at = normalizeAxis("cumsum", axis, x.shape);
  return alongAxis(
    summable(x),
    at,
    (input, back) => back(scan("cumsum", "sum", input, (g) => [sumsFromEnd(g)])),
  );
}

/** Running products along an axis. */
export function cumprod(x: Tensor, axis: number): Tensor {
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
export function cumulativeExtreme(
  fn: "max" | "min",
  x: Tensor,
  axis: number,
): { values: Tensor; indices: Tensor } {
  const op = fn === "max" ? "cummax" : "cummin";
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
