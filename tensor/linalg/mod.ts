/**
 * Linear algebra: matrices are the last two axes, leading axes are batches.
 *
 * This folder (`linalg/`) has factorizations with gradients and what is solved by them. Its kernels lie
 * in `kernels/`; it imports operations of `ops/`, `execution/` and `core/`.
 *
 * @module
 */
export { cholesky, choleskyInverse, type CholeskyOptions, choleskySolve } from "./cholesky.ts";
export { type ComplexEigen, eig, eigvals } from "./eig.ts";
export { type Eigen, eigh, type EighOptions, eigvalsh } from "./eigh.ts";
export { type LU, lu, luFactor, type LUFactors, luSolve } from "./lu.ts";
export { householder, type QR, qr, type QROptions } from "./qr.ts";
export {
  det,
  inv,
  logdet,
  type SignAndLog,
  slogdet,
  solve,
  type SolveOptions,
  tensorinv,
  tensorsolve,
} from "./solve.ts";
export {
  type HermitianOptions,
  lstsq,
  matrixRank,
  pinv,
  type RankOptions,
  type SVD,
  svd,
  type SVDOptions,
  svdvals,
} from "./svd.ts";
export { solveTriangular, type SolveTriangularOptions } from "./triangular.ts";
export {
  cond,
  matrixNorm,
  type MatrixNormOptions,
  type MatrixOrder,
  norm,
  vectorNorm,
  type VectorNormOptions,
} from "./norms.ts";
export {
  cross,
  kron,
  matrixExp,
  matrixPower,
  multiDot,
  tensordot,
  vander,
  vecdot,
} from "./products.ts";
export { blockDiag, diag, diagonal, diagonalEmbed, trace } from "./diagonals.ts";
