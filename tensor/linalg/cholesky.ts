/** The Cholesky factorization. */
import { compute } from "../core/operations.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { concat } from "../ops/shaping/joining.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { routine } from "../ops/routine.ts";
import { choleskyByBlocks } from "./blocked/cholesky.ts";
import { choleskyKernel } from "./kernels/factors.ts";
import {
  batchOf,
  block,
  checked,
  differentiable,
  identityLike,
  requireMatrices,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import { requireRows, solveTriangle } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** More rows are factored block by block: most of the work is then products. */
export const MAX_ROWS = 128;

/** Smaller ones leave most of a block idle: a narrow group has each. */
const MIN_BLOCKED = 32;

/** Options of {@linkcode cholesky}. */
export interface CholeskyOptions {
  /** The upper factor U of A = Uᵀ U; default: the lower one of A = L Lᵀ. */
  upper?: boolean;
}

const rules: Rules<CholeskyOptions> = { upper: takes.bool };

/**
 * The Cholesky factor of symmetric positive definite matrices, of which the lower triangle is read.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @param options See {@linkcode CholeskyOptions}.
 * @returns The factors [..., n, n].
 * @throws {ShapeError} Unless the matrices are square.
 * @throws {RangeError} When the result is read: a matrix is not positive definite; the message names
 * its place in the batch.
 */
export function cholesky(a: Tensor, options: CholeskyOptions = {}): Tensor {
  requireSquare("cholesky", a);
  checkOptions("cholesky", options, rules);
  return compute(choleskyOf, a, options.upper ?? false);
}

function choleskyOf(a: Tensor, upper: boolean): Tensor {
  const [l] = differentiable("cholesky", [a], () => routine(factor, [a]), ([g], [l]) => {
    return [g === null ? null : gradientOf(g!, l!)];
  });
  return upper ? transposed(l!) : l!;
}

function factor([a]: Tensor[]): Tensor[] {
  const { factor, info } = factored(a!);
  return [checked("cholesky", factor, info)];
}

/** The lower factor, and not 0 where there is none. */
export function factored(a: Tensor): { factor: Tensor; info: Tensor } {
  const [n] = sides(a), batch = batchOf(a);
  if (n > MIN_BLOCKED && runsInGroups(a.device) && a.size > 0) return choleskyByBlocks(a);
  if (n <= MAX_ROWS) {
    const shapes = [a.shape, [...batch, 1], a.shape];
    const [factor, info] = callMatrixKernel(choleskyKernel, [a], shapes, [n], n);
    return { factor: factor!, info: info! };
  }
  const half = n >> 1, first = [0, half] as const, rest = [half, n] as const;
  const top = factored(block(a, first, first));
  const left = transposed(
    solveTriangle(top.factor, transposed(block(a, rest, first)), false, false),
  );
  const bottom = factored(block(a, rest, rest).sub(left.matmul(transposed(left))));
  const above = block(a, first, rest).zerosLike();
  const factor = concat([
    concat([top.factor, above], -1),
    concat([left, bottom.factor], -1),
  ], -2);
  return { factor, info: top.info.add(bottom.info) };
}

/** I. Murray, "Differentiation of the Cholesky decomposition" (2016), symmetric as PyTorch's. */
function gradientOf(g: Tensor, l: Tensor): Tensor {
  const lower = transposed(l).matmul(g).tril();
  const strict = lower.tril(-1);
  const middle = lower.add(transposed(strict));
  const left = solveTriangle(transposed(l), middle, true, false);
  return transposed(solveTriangle(transposed(l), transposed(left), true, false)).mul(0.5);
}

/**
 * X of A X = B by the Cholesky factor of A.
 *
 * @param b Right sides [..., n, r].
 * @param factor Factors [..., n, n].
 * @param options Which factor it is, see {@linkcode CholeskyOptions}.
 * @throws {ShapeError} When the shapes do not fit each other.
 */
export function choleskySolve(b: Tensor, factor: Tensor, options: CholeskyOptions = {}): Tensor {
  requireMatrices("choleskySolve", b);
  requireSquare("choleskySolve", factor);
  requireRows("choleskySolve", factor, b);
  checkOptions("choleskySolve", options, rules);
  return compute(solveByFactor, b, factor, options.upper ?? false);
}

function solveByFactor(b: Tensor, factor: Tensor, upper: boolean): Tensor {
  const l = upper ? transposed(factor) : factor;
  return solveTriangle(transposed(l), solveTriangle(l, b, false, false), true, false);
}

/**
 * The inverse of A by its Cholesky factor.
 *
 * @param factor Factors [..., n, n].
 * @param options Which factor it is, see {@linkcode CholeskyOptions}.
 */
export function choleskyInverse(factor: Tensor, options: CholeskyOptions = {}): Tensor {
  requireSquare("choleskyInverse", factor);
  checkOptions("choleskyInverse", options, rules);
  return compute(solveByFactor, identityLike(factor), factor, options.upper ?? false);
}
