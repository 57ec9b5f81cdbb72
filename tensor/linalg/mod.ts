/**
 * Linear algebra: matrices are the last two axes, leading axes are batches.
 *
 * This folder (`linalg/`) has factorizations with gradients and what is solved by them. Its kernels lie
 * in `kernels/`; it imports operations of `ops/`, `execution/` and `core/`.
 *
 * @module
 */
export { cholesky, type CholeskyOptions } from "./cholesky.ts";
export { type ComplexEigen, eig, eigvals } from "./eig.ts";
export { type Eigen, eigh, eigvalsh } from "./eigh.ts";
export { type LU, lu, luFactor, type LUFactors, luSolve } from "./lu.ts";
export { householder, type QR, qr, type QROptions } from "./qr.ts";
export { det, inv, type SignAndLog, slogdet, solve } from "./solve.ts";
export {
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
export { cond, matrixNorm, type MatrixOrder, vectorNorm, type VectorNormOptions } from "./norms.ts";
export {
  cross,
  diagonal,
  diagonalEmbed,
  kron,
  matrixExp,
  matrixPower,
  multiDot,
  tensordot,
  trace,
} from "./products.ts";
