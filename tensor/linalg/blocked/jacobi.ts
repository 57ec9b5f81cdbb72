/** Eigenvectors and singular vectors on GPUs, by one-sided Jacobi rotations of blocks of columns. */
import { epsilon, type RealType } from "../../ops/custom/matrix_kernel.ts";
import { full } from "../../ops/creation/sequences.ts";
import { concat } from "../../ops/shaping/joining.ts";
import { batchOf, block, identityLike, sides, transposed } from "../common/matrices.ts";
import { callBlocks } from "./blocks.ts";
import { choleskyByBlocks } from "./cholesky.ts";
import { JACOBI_BLOCK, jacobiText } from "./jacobi_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** Most sweeps; random matrices take 9 to 12, and those behind the last one that is needed copy. */
const MAX_SWEEPS = 14;

/** Columns turned until those of the first `measured` rows are orthogonal. */
function orthogonalized(z: Tensor, measured: number): Tensor {
  const [rows, n] = sides(z), batch = batchOf(z), { device } = z;
  const blocks = Math.ceil(n / JACOBI_BLOCK), players = blocks + blocks % 2, pairs = players / 2;
  const top = block(z, [0, measured], null), dtype = z.dtype as RealType;
  const least = top.square().sum([-2, -1]).sqrt().mul(4 * epsilon[dtype]).unsqueeze(-1);
  let before = full("make", [...batch, pairs], 0, { device, dtype: "int32" }), moved = before;
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    for (let round = 0; round < players - 1; round++) {
      [z, moved] = callBlocks(
        "jacobi_round",
        jacobiText,
        [z, least, before, moved],
        [{ shape: [rows, n] }, { shape: [pairs], isWhole: true }],
        [rows, measured, n, players, round, +(round === 0), +(sweep === 0)],
        pairs,
      ) as [Tensor, Tensor];
    }
    before = moved;
  }
  return z;
}

/** Columns that are nearly orthonormal, more so: a step of Newton's method (G. Schulz, 1933). */
function polished(v: Tensor): Tensor {
  const rest = identityLike(v).mul(1.5).sub(transposed(v).matmul(v).mul(0.5));
  return v.matmul(rest);
}

/** V of A = U diag(s) Vᵀ, of matrices of as many rows as columns or more; in no order. */
export function rightVectors(a: Tensor): Tensor {
  const [m, n] = sides(a), one = identityLike(block(a, [0, n], null));
  return polished(block(orthogonalized(concat([a, one], -2), m), [m, m + n], null));
}

/** At least the largest magnitude of an eigenvalue of symmetric matrices, and less than twice it: [..., 1, 1]. */
function boundOf(a: Tensor): Tensor {
  const norm = (x: Tensor) => x.square().sum([-2, -1], { keepDims: true }).sqrt();
  const length = norm(a), scaled = a.div(length.eq(0).where(1, length));
  const second = scaled.matmul(scaled), fourth = second.matmul(second);
  return norm(fourth.matmul(fourth)).pow(1 / 8).mul(length);
}

/**
 * Eigenvectors of symmetric matrices, in no order: the left singular vectors of the Cholesky factor of a matrix
 * with the same ones, whose values are positive. Those of A itself are found by the vectors, to A's own digits.
 */
export function symmetricVectors(a: Tensor): Tensor {
  const bound = boundOf(a), shift = bound.eq(0).where(1, bound.mul(1.25));
  const { factor } = choleskyByBlocks(a.add(identityLike(a).mul(shift)));
  const w = orthogonalized(factor, sides(a)[0]);
  return polished(w.div(w.square().sum(-2, { keepDims: true }).sqrt()));
}
