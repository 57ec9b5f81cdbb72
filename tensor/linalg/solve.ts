/** Systems of equations, inverses and determinants of square matrices, by LU. */
import { formatShape, type Shape } from "../../backend/internal.ts";
import { compute } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { routine } from "../ops/routine.ts";
import { isSmall, smallSolved } from "./blocked/lu.ts";
import { factorLU, solveByLU } from "./lu.ts";
import {
  broadcastBatches,
  checked,
  differentiable,
  identityLike,
  requireReal,
  requireSquare,
  transposed,
} from "./common/matrices.ts";
import { requireRows } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** Options of {@linkcode solve}. */
export interface SolveOptions {
  /** False for X of X A = B; default true, A X = B. */
  left?: boolean;
}

const solveRules: Rules<SolveOptions> = { left: takes.bool };

/**
 * X of A X = B.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @param b Right sides [..., n, r] or, for a vector each, [n] or [..., n] with the leading axes of `a`.
 * @param options See {@linkcode SolveOptions}.
 * @returns The solutions, of the shape of `b` with the leading axes broadcast.
 * @throws {ShapeError} When the shapes do not fit each other.
 * @throws {RangeError} When the result is read: a matrix is singular; the message names its place in the
 * batch.
 *
 * @example Two equations
 * ```ts
 * import { linalg, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const a = Tensor.fromHost([[2, 0], [0, 4]]), b = Tensor.fromHost([2, 8]);
 * assertEquals(await linalg.solve(a, b).toArray(), [1, 2]);
 * ```
 */
export function solve(a: Tensor, b: Tensor, options: SolveOptions = {}): Tensor {
  requireSquare("solve", a);
  requireReal("solve", b);
  checkOptions("solve", options, solveRules);
  const isVector = b.ndim === 1 ||
    b.ndim === a.ndim - 1 && formatShape(b.shape) === formatShape(a.shape.slice(0, -1));
  if (b.ndim === 0) {
    throw shapeError("solve")`Cannot solve for a scalar: pass right sides [..., n, r] or [..., n]`;
  }
  const isLeft = options.left ?? true;
  requireRows("solve", a, isVector ? b.unsqueeze(-1) : isLeft ? b : transposed(b));
  return compute(solveOf, a, b, isVector, isLeft);
}

function solveOf(a: Tensor, b: Tensor, isVector: boolean, isLeft: boolean): Tensor {
  const matrix = isLeft ? a : transposed(a);
  if (isVector) return solved("solve", matrix, b.unsqueeze(-1)).squeeze(-1);
  return isLeft ? solved("solve", a, b) : transposed(solved("solve", matrix, transposed(b)));
}

/** See {@linkcode solve}; with `fill`, singular matrices are solved as others nearby. */
function solved(op: string, a: Tensor, b: Tensor, fill = false): Tensor {
  const [p, q] = broadcastBatches(op, a, b);
  // One factorization serves all right sides of a matrix that is broadcast.
  const [x] = differentiable(op, [p, q], () => routine(solution, [a, q], op, fill), ([g], [x]) => {
    if (g === null) return [null, null];
    const right = solved(op, transposed(p), g!, fill);
    return [right.matmul(transposed(x!)).neg(), right];
  });
  return x!;
}

function solution([a, b]: Tensor[], op: string, fill: boolean): Tensor[] {
  const { lu, permutation, info } = factorLU(a!, fill);
  const factors = fill ? lu : checked(op, lu, info);
  const solveAll = isSmall(factors, b!) ? smallSolved : solveByLU;
  return [solveAll(factors, permutation, b!)];
}

/**
 * The inverse.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @throws {RangeError} When the result is read: a matrix is singular; the message names its place in the
 * batch.
 */
export function inv(a: Tensor): Tensor {
  requireSquare("inv", a);
  return compute(inverseOf, "inv", a, false);
}

function inverseOf(op: string, a: Tensor, fill: boolean): Tensor {
  return solved(op, a, identityLike(a), fill);
}

/**
 * The inverse of a tensor as a matrix of its first axes by the others: `tensordot` with it gives the solution.
 *
 * @param a Of as many elements in its first axes as in the others.
 * @param axes How many axes are the rows; default 2.
 * @returns The inverse: the others in front.
 */
export function tensorinv(a: Tensor, axes = 2): Tensor {
  requireReal("tensorinv", a);
  requireValue("tensorinv", "axes", axes, takes.count);
  const [rows, columns] = [a.shape.slice(0, axes), a.shape.slice(axes)];
  const n = sizeOf(rows);
  if (n !== sizeOf(columns)) {
    throw shapeError("tensorinv")`
      Cannot tensorinv of shape ${a.shape} with ${axes} axes as rows: both sides have as many
      elements`;
  }
  return inv(a.reshape([n, n])).reshape([...columns, ...rows]);
}

/**
 * X of `tensordot(A, X, X.ndim)` = B.
 *
 * @param a Of shape [...b.shape, ...x.shape], as many elements on both sides.
 * @param b The right side.
 */
export function tensorsolve(a: Tensor, b: Tensor): Tensor {
  requireReal("tensorsolve", a);
  requireReal("tensorsolve", b);
  const rest = a.shape.slice(b.ndim);
  if (formatShape(a.shape.slice(0, b.ndim)) !== formatShape(b.shape) || sizeOf(rest) !== b.size) {
    throw shapeError("tensorsolve")`
      Cannot tensorsolve of shapes ${a.shape} and ${b.shape}: the first begins with the second, and
      has as many elements behind`;
  }
  return solve(a.reshape([b.size, b.size]), b.reshape([b.size])).reshape(rest);
}

function sizeOf(shape: Shape): number {
  return shape.reduce((product, n) => product * n, 1);
}

/** The inverse, and where there is none, [...]; there it is that of a matrix nearby. */
export function inverseOrNot(a: Tensor): { inverse: Tensor; isSingular: Tensor } {
  const { info } = factorLU(a.detach());
  return { inverse: inverseOf("inv", a, true), isSingular: info.ne(0).squeeze(-1) };
}

/** 1 or -1 by the number of exchanges, [...]. */
function parity(a: Tensor, swaps: Tensor): Tensor {
  return swaps.remainder(2).mul(-2).add(1).cast(a.dtype).squeeze(-1);
}

/**
 * The determinant, [...]: 0 for singular matrices, whose gradient is that of a matrix nearby.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 */
export function det(a: Tensor): Tensor {
  requireSquare("det", a);
  return compute(determinant, a, false);
}

function determinant(a: Tensor, fill: boolean): Tensor {
  const [value] = differentiable("det", [a], () => routine(pivotProduct, [a], fill), ([g]) => {
    if (g === null) return [null];
    // Jacobi: the cofactors. A pivot of 0 is filled for both, and cancels.
    const cofactors = transposed(inverseOf("det", a, true)).mul(outer(determinant(a, true)));
    return [cofactors.mul(outer(g!))];
  });
  return value!;
}

function pivotProduct([a]: Tensor[], fill: boolean): Tensor[] {
  const { lu, swaps } = factorLU(a!, fill);
  return [lu.diagonal().prod(-1).mul(parity(a!, swaps))];
}

/** A number a matrix as matrices of one element. */
function outer(x: Tensor): Tensor {
  return x.unsqueeze(-1).unsqueeze(-1);
}

/** The sign of a determinant and the logarithm of its magnitude. */
export interface SignAndLog {
  /** 1, -1, or 0 for a singular matrix: [...]. */
  sign: Tensor;
  /** The logarithm, -Infinity for a singular matrix: [...]. */
  logabsdet: Tensor;
}

/**
 * Sign and logarithm of the determinant: it overflows where its logarithm does not.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 */
export function slogdet(a: Tensor): SignAndLog {
  requireSquare("slogdet", a);
  return compute(signAndLog, a);
}

function signAndLog(a: Tensor): SignAndLog {
  let sign: Tensor | null = null;
  const [logabsdet] = differentiable("slogdet", [a], () => {
    const [first, second] = routine(signAndSum, [a]);
    sign = first!;
    return [second!];
  }, ([g]) => [g === null ? null : transposed(inv(a)).mul(outer(g!))]);
  return { sign: sign!, logabsdet: logabsdet! };
}

function signAndSum([a]: Tensor[]): Tensor[] {
  const { lu, swaps } = factorLU(a!), pivots = lu.diagonal();
  return [pivots.sign().prod(-1).mul(parity(a!, swaps)), pivots.abs().log().sum(-1)];
}

/**
 * The logarithm of the determinant, [...]: NaN where that is negative, -Infinity for singular matrices.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 */
export function logdet(a: Tensor): Tensor {
  const { sign, logabsdet } = slogdet(a);
  return sign.lt(0).where(NaN, logabsdet);
}
