/** Norms of vectors and matrices, and condition numbers. */
import type { Axes } from "../core/arguments.ts";
import { compute } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { rootOfPowers } from "../ops/distances.ts";
import { normalizeAxis } from "../ops/shaping/axes.ts";
import { requireMatrices, requireReal, requireSquare, sides } from "./common/matrices.ts";
import { inverseOrNot } from "./solve.ts";
import { svdOf } from "./svd.ts";
import type { Tensor } from "../core/mod.ts";

/** Options of {@linkcode vectorNorm}. */
export interface VectorNormOptions {
  /** p of the sum of |x|ᵖ to the power 1/p; 0 counts, ±Infinity are extremes. Default 2. */
  ord?: number;
  /** Default: all elements are one vector. */
  axes?: Axes;
  /** True to keep the axes, with a length of 1; default false. */
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
  if (ord < 0) return size.pow(ord).sum(axes, options).pow(1 / ord);
  return rootOfPowers(size, ord, axes, options);
}

/** A norm of matrices: of Frobenius, the sum of singular values, or by sums or singular values. */
export type MatrixOrder = "fro" | "nuc" | 1 | -1 | 2 | -2 | number;

/** Options of {@linkcode matrixNorm}. */
export interface MatrixNormOptions {
  /** The axes of rows and of columns; default: the last two. */
  axes?: [rows: number, columns: number];
  /** True to keep both axes, with a length of 1; default false. */
  keepDims?: boolean;
}

const matrixRules: Rules<MatrixNormOptions> = {
  axes: {
    takes: "two whole numbers",
    accepts: (value) =>
      Array.isArray(value) && value.length === 2 && value.every(Number.isSafeInteger),
  },
  keepDims: takes.bool,
};

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
 * @param options See {@linkcode MatrixNormOptions}.
 * @throws {ShapeError} When a matrix has no elements and the norm is the smallest of something.
 */
export function matrixNorm(
  a: Tensor,
  ord: MatrixOrder = "fro",
  options: MatrixNormOptions = {},
): Tensor {
  const op = "matrixNorm";
  requireMatrices(op, a);
  requireValue(op, "ord", ord, order);
  checkOptions(op, options, matrixRules);
  const [rows, columns] = (options.axes ?? [-2, -1])
    .map((axis) => normalizeAxis(op, axis, a.shape)) as [number, number];
  if (rows === columns) {
    throw shapeError(op)`Cannot ${op} of shape ${a.shape}: rows and columns are both axis ${rows}`;
  }
  return compute(normAlong, a, ord, [rows, columns], options.keepDims ?? false);
}

function normAlong(a: Tensor, ord: MatrixOrder, axes: number[], keepDims: boolean): Tensor {
  const others = a.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const norm = matrixNormOf(a.permute([...others, ...axes]), ord);
  return keepDims ? norm.reshape(a.shape.map((n, axis) => axes.includes(axis) ? 1 : n)) : norm;
}

function matrixNormOf(a: Tensor, ord: MatrixOrder): Tensor {
  if (ord === "fro") return a.norm([-2, -1]);
  const by = ord === "nuc" ? ord : Math.abs(ord), isByValues = ord === "nuc" || by === 2;
  const sums = isByValues ? svdOf(a, false).s : a.abs().sum(by === 1 ? -2 : -1);
  if (ord === "nuc") return sums.sum(-1);
  if (ord < 0) return sums.min(-1);
  // Of nothing the largest sum is 0, the smallest is an error.
  return sums.shape.at(-1) === 0 ? sums.sum(-1) : sums.max(-1);
}

/**
 * A norm, as `torch.linalg.norm`: without an order the length of all elements; with one the norm of a vector
 * ({@linkcode vectorNorm}) or of a matrix ({@linkcode matrixNorm}), by the number of axes.
 *
 * @param x float32 or float64; a vector or a matrix where an order is given.
 * @param ord The order.
 */
export function norm(x: Tensor, ord?: MatrixOrder): Tensor {
  if (ord === undefined) return vectorNorm(x);
  requireReal("norm", x);
  if (x.ndim === 2) return matrixNorm(x, ord);
  if (x.ndim === 1 && typeof ord === "number") return vectorNorm(x, { ord });
  throw shapeError("norm")`
    Cannot norm with ${`ord ${ord}`} of shape ${x.shape}: pass a vector or a matrix, or call
    vectorNorm or matrixNorm`;
}

/**
 * The condition number, [...]: the norm times that of the inverse; Infinity for singular matrices.
 *
 * @param a Matrices [..., m, n], square but for 2 and -2.
 * @param ord The norm, see {@linkcode matrixNorm}; default 2.
 */
export function cond(a: Tensor, ord: MatrixOrder = 2): Tensor {
  const isByValues = ord === 2 || ord === -2;
  if (isByValues) requireMatrices("cond", a);
  else requireSquare("cond", a);
  requireValue("cond", "ord", ord, order);
  const [m, n] = sides(a);
  if (m === 0 || n === 0) {
    throw shapeError("cond")`Cannot cond of shape ${a.shape}: a matrix has no elements`;
  }
  return compute(isByValues ? conditionByValues : conditionByNorm, a, ord);
}

function conditionByValues(a: Tensor, ord: MatrixOrder): Tensor {
  const { s } = svdOf(a, false), [most, least] = [s.max(-1), s.min(-1)];
  return ord === 2 ? most.div(least) : least.div(most);
}

function conditionByNorm(a: Tensor, ord: MatrixOrder): Tensor {
  const { inverse, isSingular } = inverseOrNot(a);
  return isSingular.where(Infinity, matrixNormOf(a, ord).mul(matrixNormOf(inverse, ord)));
}
