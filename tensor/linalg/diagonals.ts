/** Diagonals of matrices, and matrices of them. */
import { requireTensor, sameDevice } from "../core/apply.ts";
import { compute, observedCall } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { concat } from "../ops/shaping/joining.ts";
import { block, sides } from "./common/matrices.ts";
import type { Tensor } from "../core/mod.ts";

/**
 * The sum of the diagonal, [...].
 *
 * @param a Matrices [..., m, n].
 */
export function trace(a: Tensor): Tensor {
  requireTensor("trace", a);
  if (a.ndim < 2) {
    throw shapeError("trace")`Cannot take the trace of shape ${a.shape}: pass matrices`;
  }
  return compute(traceOf, a);
}

function traceOf(a: Tensor): Tensor {
  return a.ndim === 2 ? a.diagonal().sum() : diagonalOf(a, 0).sum(-1);
}

/**
 * A diagonal of matrices, [..., length]; empty where it lies outside.
 *
 * @param a Matrices [..., m, n].
 * @param offset 0 (default) is the main one, above it are positive ones.
 */
export function diagonal(a: Tensor, offset = 0): Tensor {
  requireTensor("diagonal", a);
  requireValue("diagonal", "offset", offset, takes.integer);
  if (a.ndim < 2) {
    throw shapeError("diagonal")`Cannot take a diagonal of shape ${a.shape}: pass matrices`;
  }
  return compute(diagonalOf, a, offset);
}

function diagonalOf(a: Tensor, offset: number): Tensor {
  const [m, n] = sides(a);
  const [top, left] = [Math.min(m, Math.max(0, -offset)), Math.min(n, Math.max(0, offset))];
  return block(a, [top, m], [left, n]).diagonal();
}

/**
 * Matrices that have the vectors of the last axis as a diagonal, zeros elsewhere.
 *
 * @param x Vectors [..., n].
 * @param offset 0 (default) is the main diagonal, above it are positive ones.
 * @returns Matrices [..., n + |offset|, n + |offset|].
 */
export function diagonalEmbed(x: Tensor, offset = 0): Tensor {
  requireTensor("diagonalEmbed", x);
  requireValue("diagonalEmbed", "offset", offset, takes.integer);
  if (x.ndim === 0) {
    throw shapeError("diagonalEmbed")`
    Cannot diagonalEmbed a scalar: pass vectors [..., n]`;
  }
  return compute(embedOf, x, offset);
}

function embedOf(x: Tensor, offset: number): Tensor {
  const n = x.shape[x.ndim - 1]!, places = x.detach().indexLike([n]);
  const main = places.unsqueeze(-1).eq(places).where(x.unsqueeze(-1), 0);
  const lead = Array(x.ndim - 1).fill([0, 0]) as [number, number][];
  const before = [Math.max(0, -offset), Math.max(0, offset)] as const;
  return offset === 0 ? main : main.pad([...lead, [before[0], before[1]], [before[1], before[0]]]);
}

/**
 * A matrix that has a vector as a diagonal, or the diagonal of a matrix, as `torch.diag`.
 *
 * @param x A vector [n] or a matrix [m, n].
 * @param offset 0 (default) is the main diagonal, above it are positive ones.
 */
export function diag(x: Tensor, offset = 0): Tensor {
  requireTensor("diag", x);
  if (x.ndim === 1) return diagonalEmbed(x, offset);
  if (x.ndim === 2) return diagonal(x, offset);
  throw shapeError("diag")`Cannot diag of shape ${x.shape}: pass a vector or a matrix`;
}

/**
 * A matrix that has matrices along its diagonal, zeros elsewhere.
 *
 * @param blocks Matrices [m, n]; vectors are rows, scalars have one element.
 */
export function blockDiag(blocks: Tensor[]): Tensor {
  requireValue("blockDiag", "blocks", blocks, takes.list);
  sameDevice("blockDiag", blocks);
  if (blocks.length === 0 || blocks.some(({ ndim }) => ndim > 2)) {
    throw shapeError("blockDiag")`
      Cannot blockDiag of shapes ${blocks.map(({ shape }) => shape)}: pass one matrix or more`;
  }
  return observedCall("compute", blockDiagOf, undefined, [blocks]) as Tensor;
}

function blockDiagOf(blocks: Tensor[]): Tensor {
  const matrices = blocks.map((x) => x.ndim === 2 ? x : x.reshape([1, x.size]));
  const columns = matrices.reduce((sum, x) => sum + sides(x)[1], 0);
  let left = 0;
  return concat(
    matrices.map((x) => {
      const n = sides(x)[1], row = x.pad([[0, 0], [left, columns - left - n]]);
      left += n;
      return row;
    }),
    0,
  );
}
