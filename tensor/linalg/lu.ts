/** The LU factorization, and what is solved by it. */
import { compute } from "../core/operations.ts";
import { requireTensor } from "../core/apply.ts";
import { concat } from "../ops/shaping/joining.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { luByBlocks } from "./blocked/lu.ts";
import { luKernel } from "./kernels/factors.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { routine } from "../ops/routine.ts";
import {
  batchOf,
  block,
  broadcastBatches,
  differentiable,
  identityLike,
  requireMatrices,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import { requireRows, solveTriangle } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** More columns are factored block by block: most of the work is then products. */
const MAX_COLUMNS = 64;
/** A group holds a panel of so many rows in registers. */
const MAX_BLOCKED_ROWS = 16384;

/** The factors of A = P L U. */
export interface LU {
  /** Permutations [..., m, m]. */
  p: Tensor;
  /** Lower triangles with ones on the diagonal, [..., m, min(m, n)]. */
  l: Tensor;
  /** Upper triangles [..., min(m, n), n]. */
  u: Tensor;
}

/** LU in LAPACK's form, for {@linkcode luSolve}. */
export interface LUFactors {
  /** U, and L below its diagonal: [..., m, n]. */
  lu: Tensor;
  /** The row of A that each row of L U is, from 0: [..., m] of int32. */
  permutation: Tensor;
}

/** Results of the kernel. */
export interface Factored extends LUFactors {
  /** Number of exchanges of rows: [..., 1]. */
  swaps: Tensor;
  /** Not 0 for a singular matrix: [..., 1]. */
  info: Tensor;
}

/** Exchanges rows, as `gather` does. */
function permuteRows(a: Tensor, permutation: Tensor): Tensor {
  const n = sides(a)[1], batch = permutation.shape;
  return a.gather(-2, permutation.unsqueeze(-1).expand([...batch, n]));
}

/** The factorization without a gradient; with `fill`, no pivot is 0. */
export function factorLU(a: Tensor, fill = false): Factored {
  const [m, n] = sides(a), batch = batchOf(a);
  const half = Math.min(m, n) >> 1;
  if (runsInGroups(a.device) && a.size > 0 && m <= MAX_BLOCKED_ROWS) return luByBlocks(a, fill);
  if (Math.min(m, n) <= MAX_COLUMNS || fill) {
    const one = [...batch, 1], shapes = [a.shape, [...batch, m], one, one];
    const [lu, permutation, swaps, info] = callMatrixKernel(
      luKernel,
      [a],
      shapes,
      [m, n, +fill],
      m,
    );
    return { lu: lu!, permutation: permutation!, swaps: swaps!, info: info! };
  }
  const top = [0, half] as const, bottom = [half, m] as const, right = [half, n] as const;
  const first = factorLU(block(a, null, top));
  const others = permuteRows(block(a, null, right), first.permutation);
  const [l11, l21] = [block(first.lu, top, null), block(first.lu, bottom, null)];
  const u12 = solveTriangle(l11, block(others, top, null), false, true);
  const second = factorLU(block(others, bottom, null).sub(l21.matmul(u12)));
  const rows = (x: Tensor, range: readonly [number, number]) =>
    x.slice(...batch.map(() => null), range);
  const lower = concat([permuteRows(l21, second.permutation), second.lu], -1);
  const moved = rows(first.permutation, bottom).gather(-1, second.permutation);
  return {
    lu: concat([concat([l11, u12], -1), lower], -2),
    permutation: concat([rows(first.permutation, top), moved], -1),
    swaps: first.swaps.add(second.swaps),
    info: first.info.add(second.info),
  };
}

/**
 * The factors of A = P L U, with exchanges of rows.
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @returns The factors; singular matrices have them, too.
 */
export function lu(a: Tensor): LU {
  requireMatrices("lu", a);
  return compute(luOf, a);
}

function luOf(a: Tensor): LU {
  const { lu, permutation } = factorsOf(a), { l, u } = unpacked(lu);
  const inverse = permutation.argsort(-1);
  const p = inverse.unsqueeze(-1).eq(inverse.indexLike([sides(a)[0]])).cast(a.dtype);
  return { p, l, u };
}

/** Both triangles of factors in one matrix. */
function unpacked(lu: Tensor): { l: Tensor; u: Tensor } {
  const k = Math.min(...sides(lu)), first = [0, k] as const;
  const ones = identityLike(lu);
  return {
    l: block(lu.tril(-1).add(ones), null, first),
    u: block(lu.triu(), first, null),
  };
}

/** LAPACK's form with its gradient. */
function factorsOf(a: Tensor): LUFactors {
  const factors = () => routine(luAndOrder, [a]);
  const [lu, permutation] = differentiable("lu", [a], factors, ([g], [lu, permutation]) => {
    if (g === null) return [null];
    const { l, u } = unpacked(lu!), k = Math.min(...sides(a)), first = [0, k] as const;
    const back = gradientOfLU(block(g!.tril(-1), null, first), block(g!.triu(), first, null), l, u);
    return [permuteRows(back, permutation!.argsort(-1))];
  });
  return { lu: lu!, permutation: permutation! };
}

function luAndOrder([a]: Tensor[]): Tensor[] {
  const { lu, permutation } = factorLU(a!);
  return [lu, permutation];
}

/** The gradient of P⁻¹ A, as PyTorch's `linalg_lu`: square, wide and tall matrices. */
function gradientOfLU(gl: Tensor, gu: Tensor, l: Tensor, u: Tensor): Tensor {
  const m = sides(l)[0], n = sides(u)[1], k = Math.min(m, n);
  const first = [0, k] as const;
  const l1 = block(l, first, null), u1 = block(u, null, first);
  const over = (x: Tensor) => solveTriangle(transposed(l1), x, true, true);
  const under = (x: Tensor) => transposed(solveTriangle(u1, transposed(x), true, false));
  const left = transposed(l1).matmul(block(gl, first, null));
  const right = block(gu, null, first).matmul(transposed(u1));
  if (m > k) {
    // Rows below: A2 = L2 U, so that U's share of their gradient is taken off.
    const g2 = block(gl, [k, m], null), l2 = block(l, [k, m], null);
    const inner = left.tril(-1).add(right.sub(transposed(l2).matmul(g2)).triu());
    return concat([under(over(inner)), under(g2)], -2);
  }
  if (n > k) {
    const g2 = block(gu, null, [k, n]), u2 = block(u, null, [k, n]);
    const inner = left.sub(g2.matmul(transposed(u2))).tril(-1).add(right.triu());
    return concat([under(over(inner)), over(g2)], -1);
  }
  return under(over(left.tril(-1).add(right.triu())));
}

/**
 * LU in LAPACK's form: what {@linkcode luSolve} takes, for many right sides.
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 */
export function luFactor(a: Tensor): LUFactors {
  requireMatrices("luFactor", a);
  return compute(factorsOf, a);
}

/**
 * X of A X = B, by the factors of A. Gradients go to both.
 *
 * @param factors What {@linkcode luFactor} gave of square matrices.
 * @param b Right sides [..., n, r].
 * @throws {ShapeError} When the shapes do not fit each other.
 */
export function luSolve(factors: LUFactors, b: Tensor): Tensor {
  requireTensor("luSolve", factors?.lu);
  requireSquare("luSolve", factors.lu);
  requireMatrices("luSolve", b);
  requireRows("luSolve", factors.lu, b);
  return compute(solveByLU, factors.lu, factors.permutation, b);
}

/** See {@linkcode luSolve}. */
export function solveByLU(lu: Tensor, permutation: Tensor, b: Tensor): Tensor {
  const [, right] = broadcastBatches("luSolve", lu, b);
  const order = permutation.expand([...batchOf(right), sides(right)[0]]);
  return solveTriangle(lu, solveTriangle(lu, permuteRows(right, order), false, true), true, false);
}
