/** Norms of vectors and matrices, and condition numbers. */
import {} from "../../backend/internal.ts";
import type { Axes } from "../core/arguments.ts";
import { compute } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { requireMatrices, requireReal, requireSquare } from "./matrices.ts";
import { inv } from "./solve.ts";
import { svdOf } from "./svd.ts";
import type { Tensor } from "../core/tensor.ts";

/** Options of {@linkcode vectorNorm}. */
export interface VectorNormOptions {
  /** p of the sum of |x|ᵖ to the power 1/p; 0 counts, ±Infinity are extremes. Default 2. */
  ord?: number;
  /** Default: all elements are one vector. */
  axes?: Axes;
  /** The axes stay, with a length of 1. */
  keepDims?: boolean;
}

const vectorRules: Rules<VectorNormOptions> = {
  ord: takes.number,
  axes: takes.anything,
  keepDims: takes.bool,
};

/**
 * A norm of vectors.
 *
 * @param x float32 or float64.
 * @param options See {@linkcode VectorNormOptions}.
 */
export function vectorNorm(x: Tensor, options: VectorNormOptions = {}): Tensor {
  requireReal("vectorNorm", x);
  checkOptions("vectorNorm", options, vectorRules);
  return compute(normOf, x, options.ord ?? 2, options.axes, options.keepDims ?? false);
}

function normOf(x: Tensor, ord: number, axes: Axes | undefined, keepDims: boolean): Tensor {
  const options = { keepDims };
  if (ord === 2) return x.norm(axes, options);
  const size = x.abs();
  if (ord === Infinity) return size.max(axes, options);
  if (ord === -Infinity) return size.min(axes, options);
  if (ord === 0) return x.ne(0).cast(x.dtype).sum(axes, options);
  if (ord === 1) return size.sum(axes, options);
  return size.pow(ord).sum(axes, options).pow(1 / ord);
}

/** A norm of matrices: of Frobenius, the sum of singular values, or by sums or singular values. */
export type MatrixOrder = "fro" | "nuc" | 1 | -1 | 2 | -2 | number;

const orders: readonly unknown[] = ["fro", "nuc", 1, -1, 2, -2, Infinity, -Infinity];
const order: Rule = {
  takes: '"fro", "nuc", 1, -1, 2, -2, Infinity or -Infinity',
  accepts: (value) => orders.includes(value),
};

/**
 * A norm of matrices, [...].
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @param ord "fro" (default): the root of the sum of squares; "nuc": the sum of singular values; 1 and
 * -1: the largest and smallest sum of a column's magnitudes, Infinity and -Infinity of a row's; 2 and -2:
 * the largest and smallest singular value.
 */
export function matrixNorm(a: Tensor, ord: MatrixOrder = "fro"): Tensor {
  requireMatrices("matrixNorm", a);
  requireValue("matrixNorm", "ord", ord, order);
  return compute(matrixNormOf, a, ord);
}

function matrixNormOf(a: Tensor, ord: MatrixOrder): Tensor {
  if (ord === "fro") return a.norm([-2, -1]);
  if (ord === "nuc" || Math.abs(ord as number) === 2) {
    const { s } = svdOf(a, false);
    return ord === "nuc" ? s.sum(-1) : ord === 2 ? s.max(-1) : s.min(-1);
  }
  const sums = a.abs().sum(Math.abs(ord as number) === 1 ? -2 : -1);
  return (ord as number) > 0 ? sums.max(-1) : sums.min(-1);
}

/**
 * The condition number, [...]: the norm times that of the inverse. By singular values (`ord` 2, the
 * default, and -2) it is infinite for singular matrices, which are errors of the others.
 *
 * @param a Matrices [..., m, n], square but for 2 and -2.
 * @param ord The norm, see {@linkcode matrixNorm}.
 */
export function cond(a: Tensor, ord: MatrixOrder = 2): Tensor {
  const isByValues = ord === 2 || ord === -2;
  if (isByValues) requireMatrices("cond", a);
  else requireSquare("cond", a);
  requireValue("cond", "ord", ord, order);
  if (a.size === 0) {
    throw shapeError("cond")`Cannot cond of shape ${a.shape}: it has no elements`;
  }
  return compute(isByValues ? conditionByValues : conditionByNorm, a, ord);
}

function conditionByValues(a: Tensor, ord: MatrixOrder): Tensor {
  const { s } = svdOf(a, false), [most, least] = [s.max(-1), s.min(-1)];
  return ord === 2 ? most.div(least) : least.div(most);
}

function conditionByNorm(a: Tensor, ord: MatrixOrder): Tensor {
  return matrixNormOf(a, ord).mul(matrixNormOf(inv(a), ord));
}
