/** Singular values, and what is computed from them: pseudo-inverses, least squares, ranks. */
import { compute } from "../core/operations.ts";
import { routine } from "../ops/routine.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { concat } from "../ops/shaping/joining.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { rightVectors } from "./blocked/jacobi.ts";
import { columns, eigenOf, offDiagonal } from "./eigh.ts";
import { svdKernel } from "./kernels/jacobi.ts";
import { callMatrixKernel, epsilon, type RealType } from "../ops/custom/matrix_kernel.ts";
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
import { symmetricPolarFactor } from "./polar.ts";
import { factorQR } from "./qr.ts";
import { requireRows } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** Options of {@linkcode svd}. */
export interface SVDOptions {
  /** U and V are square (default, as PyTorch's); false: they have min(m, n) columns. */
  fullMatrices?: boolean;
}

/** The factors of A = U diag(s) Vᵀ. */
export interface SVD {
  /** Orthonormal columns. */
  u: Tensor;
  /** Singular values, descending: [..., min(m, n)]. */
  s: Tensor;
  /** Orthonormal rows. */
  vh: Tensor;
}

const rules: Rules<SVDOptions> = { fullMatrices: takes.bool };

/**
 * The singular value decomposition A = U diag(s) Vᵀ. Up to 64 columns by rotations of columns (J. Demmel, K.
 * Veselić, Jacobi's method is more accurate than QR, 1992), which keep the digits of small values; beyond by
 * the polar decomposition (Y. Nakatsukasa, N. Higham, 2013), or on GPUs by rotations of blocks of columns: errors
 * are then those of the largest value, so that small ones lose digits.
 *
 * Gradients through U and V are infinite or NaN where singular values are equal, and defined only for
 * what does not depend on the signs of the vectors.
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @param options See {@linkcode SVDOptions}.
 */
export function svd(a: Tensor, options: SVDOptions = {}): SVD {
  requireMatrices("svd", a);
  checkOptions("svd", options, rules);
  return compute(svdOf, a, options.fullMatrices ?? true);
}

/**
 * The singular values, descending: [..., min(m, n)].
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 */
export function svdvals(a: Tensor): Tensor {
  requireMatrices("svdvals", a);
  return compute(valuesOf, a);
}

function valuesOf(a: Tensor): Tensor {
  return svdOf(a, false).s;
}

/** See {@linkcode svd}, of arguments that are right. */
export function svdOf(a: Tensor, full: boolean): SVD {
  const [m, n] = sides(a);
  if (m < n) {
    const { u, s, vh } = svdOf(transposed(a), full);
    return { u: transposed(vh), s, vh: transposed(u) };
  }
  const parts = () => routine(vectorsAndValues, [a], full ? m : n);
  const [u, s, v] = differentiable("svd", [a], parts, ([gu, gs, gv], [u, s, v]) => {
    const first = (x: Tensor) => block(x, null, [0, n]);
    return [gradientOf(gu ? first(gu) : null, gs!, gv!, first(u!), s!, v!)];
  });
  return { u: u!, s: s!, vh: transposed(v!) };
}

function vectorsAndValues([a]: Tensor[], count: number): Tensor[] {
  const { u, s, v } = factored(a!, count);
  return [u, s, v];
}

/** Larger matrices are decomposed by products. */
const MAX_ROTATED = 64;
/** The same where many groups rotate blocks of columns. */
const MAX_ROTATED_BY_GROUP = 32;

/** Results as of the rotations: the directions of A V, the lengths of its columns, and V. */
function byProducts(a: Tensor): Tensor[] {
  const [m, n] = sides(a), size = a.abs().max([-2, -1], { keepDims: true });
  // Squares stay in range; of a matrix of zeros all vectors are right.
  const isNone = size.eq(0), scaled = isNone.where(identityLike(a), a.div(isNone.where(1, size)));
  const square = m > n ? factorQR(scaled, n).r : scaled;
  const vectors = runsInGroups(a.device)
    ? rightVectors(square)
    : eigenOf(symmetricPolarFactor(square)).vectors;
  const w = scaled.matmul(vectors);
  return [w, w.square().sum(-2).sqrt().mul(size.squeeze(-1)), vectors];
}

function factored(a: Tensor, count: number): { u: Tensor; s: Tensor; v: Tensor } {
  const [m, n] = sides(a), batch = batchOf(a), half = (n + 1) >> 1;
  if (a.size === 0) {
    const { q } = factorQR(a, count);
    return { u: q, s: block(a, [0, n], null).diagonal(), v: block(a, [0, n], null) };
  }
  const most = runsInGroups(a.device) ? MAX_ROTATED_BY_GROUP : MAX_ROTATED;
  const [w, s, v] = n <= most
    ? callMatrixKernel(
      svdKernel,
      [a],
      [a.shape, [...batch, n], [...batch, n, n], [...batch, 1]],
      [m, n, half],
      half,
    )
    : byProducts(a);
  const order = s!.argsort(-1, { descending: true });
  // The columns over their lengths, and what completes them where a length is 0 or columns are missing.
  const { q, r } = factorQR(columns(w!, order), count);
  const isNegative = r.diagonal().lt(0).unsqueeze(-2);
  const first = block(q, null, [0, n]);
  const signed = isNegative.where(first.neg(), first);
  const u = count === n ? signed : concat([signed, block(q, null, [n, count])], -1);
  return { u, s: s!.gather(-1, order), v: columns(v!, order) };
}

/** J. Townsend, "Differentiating the singular value decomposition" (2016); A is square or tall. */
function gradientOf(
  gu: Tensor | null,
  gs: Tensor | null,
  gv: Tensor | null,
  u: Tensor,
  s: Tensor,
  v: Tensor,
): Tensor | null {
  const row = s.unsqueeze(-2), column = s.unsqueeze(-1), squares = s.square(), vh = transposed(v);
  let middle = gs === null ? null : gs.unsqueeze(-1).mul(identityLike(v));
  const plus = (x: Tensor) => middle = middle === null ? x : middle.add(x);
  let total: Tensor | null = null;
  if (gu !== null) {
    const inner = transposed(u).matmul(gu);
    plus(offDiagonal(inner.sub(transposed(inner)), squares).mul(row));
    // The part outside of the columns' space, which square matrices have not.
    if (sides(u)[0] > sides(u)[1]) total = gu.sub(u.matmul(inner)).div(row).matmul(vh);
  }
  if (gv !== null) {
    const inner = vh.matmul(gv);
    plus(offDiagonal(inner.sub(transposed(inner)), squares).mul(column));
  }
  if (middle === null) return total;
  const inside = u.matmul(middle).matmul(vh);
  return total === null ? inside : inside.add(total);
}

/** Options of {@linkcode pinv}, {@linkcode lstsq} and {@linkcode matrixRank}. */
export interface RankOptions {
  /** Singular values up to this one are 0, and those that `rtol` says; default 0. */
  atol?: number;
  /**
   * Singular values up to so much of the largest one are 0; default: max(m, n) times the type's epsilon, or 0
   * where `atol` is above 0.
   */
  rtol?: number;
}

const rankRules: Rules<RankOptions> = { atol: takes.nonNegative, rtol: takes.nonNegative };

/** Options of {@linkcode pinv} and {@linkcode matrixRank}. */
export interface HermitianOptions extends RankOptions {
  /**
   * True when the matrices are symmetric, of which the lower triangles are read: eigenvalues take
   * the place of singular ones. Default false.
   */
  hermitian?: boolean;
}

const hermitianRules: Rules<HermitianOptions> = { ...rankRules, hermitian: takes.bool };

/** Columns u and v and values s of A = u diag(s) vᵀ; of symmetric matrices the signs are those of v. */
function factorsOf(
  a: Tensor,
  { hermitian = false }: HermitianOptions,
): { u: Tensor; s: Tensor; v: Tensor } {
  if (!hermitian) {
    const { u, s, vh } = svdOf(a, false);
    return { u, s, v: transposed(vh) };
  }
  const { values, vectors } = eigenOf(a);
  return {
    u: vectors.mul(values.lt(0).where(-1, values.onesLike()).unsqueeze(-2)),
    s: values.abs(),
    v: vectors,
  };
}

function requireRankable(op: string, a: Tensor, options: HermitianOptions): void {
  requireMatrices(op, a);
  checkOptions(op, options, hermitianRules);
  if (options.hermitian) requireSquare(op, a);
}

/**
 * The pseudo-inverse of Moore and Penrose, [..., n, m].
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @param options See {@linkcode HermitianOptions}.
 */
export function pinv(a: Tensor, options: HermitianOptions = {}): Tensor {
  requireRankable("pinv", a, options);
  return compute(pseudoInverse, a, options);
}

function isNonzero(a: Tensor, s: Tensor, { atol = 0, rtol }: RankOptions): Tensor {
  const share = rtol ?? (atol > 0 ? 0 : Math.max(...sides(a)) * epsilon[a.dtype as RealType]);
  return s.gt(s.max(-1, { keepDims: true }).mul(share).clamp(atol));
}

function pseudoInverse(a: Tensor, options: HermitianOptions): Tensor {
  const [p] = differentiable("pinv", [a], () => {
    if (a.size === 0) return [transposed(a)];
    const { u, s, v } = factorsOf(a, options);
    const isKept = isNonzero(a, s, options);
    const inverse = isKept.where(isKept.where(s, 1).reciprocal(), 0);
    return [v.mul(inverse.unsqueeze(-2)).matmul(transposed(u))];
  }, ([g], [p]) => {
    if (g === null) return [null];
    // G. Golub and V. Pereyra (1973), for matrices of one rank.
    const pt = transposed(p!), gt = transposed(g!);
    const outside = gt.matmul(p!).matmul(pt), inside = pt.matmul(p!).matmul(gt);
    return [
      pt.matmul(g!).matmul(pt).neg()
        .add(outside.sub(a.matmul(p!).matmul(outside)))
        .add(inside.sub(inside.matmul(p!).matmul(a))),
    ];
  });
  return p!;
}

/**
 * X of the least ‖A X - B‖ and, where many have it, of the least ‖X‖.
 *
 * @param a Matrices [..., m, n] of any rank, float32 or float64.
 * @param b Right sides [..., m, r].
 * @param options See {@linkcode RankOptions}.
 * @returns The solutions [..., n, r].
 * @throws {ShapeError} When the shapes do not fit each other.
 */
export function lstsq(a: Tensor, b: Tensor, options: RankOptions = {}): Tensor {
  requireMatrices("lstsq", a);
  requireMatrices("lstsq", b);
  requireRows("lstsq", a, b);
  broadcastBatches("lstsq", a, b);
  checkOptions("lstsq", options, rankRules);
  return compute(leastSquares, a, b, options);
}

function leastSquares(a: Tensor, b: Tensor, options: RankOptions): Tensor {
  return pseudoInverse(a, options).matmul(b);
}

/**
 * The number of singular values that are not 0, [...] of int32.
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @param options See {@linkcode HermitianOptions}.
 */
export function matrixRank(a: Tensor, options: HermitianOptions = {}): Tensor {
  requireRankable("matrixRank", a, options);
  return compute(rankOf, a.detach(), options);
}

function rankOf(a: Tensor, options: HermitianOptions): Tensor {
  if (a.size === 0) return a.cast("int32").sum([-2, -1]);
  return isNonzero(a, factorsOf(a, options).s, options).cast("int32").sum(-1);
}
