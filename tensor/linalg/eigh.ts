/** Eigenvalues and eigenvectors of symmetric matrices. */
import { compute } from "../core/operations.ts";
import { routine } from "../ops/routine.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { symmetricVectors } from "./blocked/jacobi.ts";
import { eighKernel } from "./kernels/jacobi.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import {
  batchOf,
  differentiable,
  identityLike,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import { tridiagonalEigen } from "./tridiagonal.ts";
import type { Tensor } from "../core/mod.ts";

/** Eigenvalues and eigenvectors. */
export interface Eigen {
  /** Ascending, [..., n]. */
  values: Tensor;
  /** Orthonormal columns in the order of the values, [..., n, n]; their signs are free. */
  vectors: Tensor;
}

/** Options of {@linkcode eigh} and {@linkcode eigvalsh}. */
export interface EighOptions {
  /** The upper triangle is read; default: the lower one. */
  upper?: boolean;
}

const rules: Rules<EighOptions> = { upper: takes.bool };

/**
 * Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read.
 *
 * Gradients through the vectors are infinite or NaN where eigenvalues are equal, and defined only for
 * what does not depend on the vectors' signs. On GPUs the values of more than 32 rows are
 * as accurate as the largest of them, not each by itself.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @param options See {@linkcode EighOptions}.
 */
export function eigh(a: Tensor, options: EighOptions = {}): Eigen {
  requireSquare("eigh", a);
  checkOptions("eigh", options, rules);
  return compute(eigenOf, options.upper ? transposed(a) : a);
}

/**
 * The eigenvalues of symmetric matrices, ascending.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @param options See {@linkcode EighOptions}.
 * @returns The values [..., n].
 */
export function eigvalsh(a: Tensor, options: EighOptions = {}): Tensor {
  requireSquare("eigvalsh", a);
  checkOptions("eigvalsh", options, rules);
  return compute(valuesOf, options.upper ? transposed(a) : a);
}

function valuesOf(a: Tensor): Tensor {
  return eigenOf(a).values;
}

/** See {@linkcode eigh}, of the lower triangle. */
export function eigenOf(a: Tensor): Eigen {
  const inOrder = () => routine(sorted, [a]);
  const [values, vectors] = differentiable("eigh", [a], inOrder, ([gd, gv], [d, v]) => {
    let middle = gd === null ? null : gd!.unsqueeze(-1).mul(identityLike(v!));
    if (gv !== null) {
      const part = offDiagonal(transposed(v!).matmul(gv!), d!);
      middle = middle === null ? part : middle.add(part);
    }
    return [middle === null ? null : v!.matmul(middle).matmul(transposed(v!))];
  });
  return { values: values!, vectors: vectors! };
}

function sorted([a]: Tensor[]): Tensor[] {
  const [n] = sides(a!), isLarge = n > MAX_ROTATED && a!.size > 0;
  if (isLarge && !runsInGroups(a!.device)) return tridiagonalEigen(a!);
  const [d, v] = isLarge ? byBlocks(a!) : byRotations(a!);
  if (a!.size === 0) return [d!, v!];
  const order = d!.argsort(-1);
  return [d!.gather(-1, order), columns(v!, order)];
}

/** Larger matrices are made tridiagonal; rotations keep more digits of small values. */
const MAX_ROTATED = 32;

/** Values and vectors in no order. */
function byRotations(a: Tensor): Tensor[] {
  const [n] = sides(a), half = (n + 1) >> 1, batch = batchOf(a);
  const shapes = [[...batch, n], a.shape, a.shape, [...batch, 2 * half], [...batch, 1]];
  return callMatrixKernel(eighKernel, [a], shapes, [n, half], n);
}

/** Values are the quotients of Rayleigh, whose errors are squares of those of the vectors. */
function byBlocks(a: Tensor): Tensor[] {
  const lower = a.tril(-1), whole = a.tril().add(transposed(lower));
  const vectors = symmetricVectors(whole);
  return [whole.matmul(vectors).mul(vectors).sum(-2), vectors];
}

/** Columns in an order [..., n]. */
export function columns(v: Tensor, order: Tensor): Tensor {
  return v.gather(
    -1,
    order.unsqueeze(-2).expand([...batchOf(v), sides(v)[0], order.shape.at(-1)!]),
  );
}

/** Elements beside the diagonal over the distances of the values: x_ij / (d_j - d_i); 0 on it. */
export function offDiagonal(x: Tensor, d: Tensor): Tensor {
  const one = identityLike(x);
  const distance = d.unsqueeze(-2).sub(d.unsqueeze(-1)).add(one);
  return x.sub(x.mul(one)).div(distance);
}
