/** Eigenvalues and eigenvectors of general matrices, as complex tensors. */
import { Tensor } from "../class/tensor.ts";
import { compute } from "../core/operations.ts";
import { ComplexTensor } from "../ops/complex_tensor.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { schurKernel } from "./kernels/schur.ts";
import {
  batchOf,
  checked,
  differentiable,
  identityLike,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import { solve } from "./solve.ts";

/** Complex eigenvalues and eigenvectors. */
export interface ComplexEigen {
  /** [..., n], in no order; those that are not real come in conjugate pairs. */
  values: ComplexTensor;
  /** Columns of length 1 in the order of the values, [..., n, n]; a phase of each is free. */
  vectors: ComplexTensor;
}

/**
 * Eigenvalues and eigenvectors of general matrices.
 *
 * Gradients through the vectors are infinite or NaN where eigenvalues are equal, and defined only for what
 * does not depend on the vectors' phases.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @example A rotation has no real eigenvalue
 * ```ts
 * import { linalg, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const { values } = linalg.eig(Tensor.fromHost([[0, -1], [1, 0]]));
 * assertEquals((await values.abs().toArray() as number[]).map(Math.round), [1, 1]);
 * ```
 */
export function eig(a: Tensor): ComplexEigen {
  requireSquare("eig", a);
  const [wr, wi, vr, vi] = compute(eigenOf, a);
  return { values: new ComplexTensor(wr!, wi!), vectors: new ComplexTensor(vr!, vi!) };
}

/**
 * The eigenvalues of general matrices.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @returns The values [..., n], in no order.
 */
export function eigvals(a: Tensor): ComplexTensor {
  return eig(a).values;
}

/** Real and imaginary parts of values and vectors. */
function eigenOf(a: Tensor): Tensor[] {
  return differentiable("eig", [a], () => {
    const [n] = sides(a), batch = batchOf(a), row = [...batch, n], square = a.shape;
    const shapes = [row, row, square, square, [...batch, 1], square, square, square, square];
    const found = callMatrixKernel(schurKernel, [a], [...shapes, [...batch, n * 3]], [n], n);
    const [wr, wi, vr, vi, info] = found;
    if (a.size === 0) return [wr!, wi!, vr!, vi!];
    // Values are read with the check; vectors are computed with them.
    const sure = checked("eig", wr!.unsqueeze(-1), info!).squeeze(-1);
    return [sure, wi!, vr!, vi!];
  }, gradientOf);
}

/** As PyTorch's `linalg_eig_backward`. */
function gradientOf(gradients: (Tensor | null)[], parts: Tensor[]): (Tensor | null)[] {
  const [wr, wi, vr, vi] = parts as [Tensor, Tensor, Tensor, Tensor];
  const given = gradients.map((g, k) => g ?? parts[k]!.zerosLike());
  const one = identityLike(vr), rest = one.neg().add(1);
  const values = new ComplexTensor(wr, wi), vectors = new ComplexTensor(vr, vi);
  const adjoint = vectors.map(transposed).conj();
  const ofValues = new ComplexTensor(given[0]!, given[1]!).map((x) => x.unsqueeze(-1).mul(one));
  let middle = ofValues;
  if (gradients[2] !== null || gradients[3] !== null) {
    const product = adjoint.matmul(new ComplexTensor(given[2]!, given[3]!));
    const lengths = product.real.mul(one).sum(-2, { keepDims: true });
    const part = product.sub(adjoint.matmul(vectors.map((x) => x.mul(lengths))));
    const distance = values.map((x) => x.unsqueeze(-2).sub(x.unsqueeze(-1))).conj();
    const safe = new ComplexTensor(distance.real.add(one), distance.imag);
    middle = middle.add(part.map((x) => x.mul(rest)).div(safe));
  }
  return [solveComplex(adjoint, middle.matmul(adjoint)).real];
}

/** X of A X = B, as real equations of twice the size. */
function solveComplex(a: ComplexTensor, b: ComplexTensor): ComplexTensor {
  const [n] = sides(a.real);
  const left = Tensor.concat([
    Tensor.concat([a.real, a.imag.neg()], -1),
    Tensor.concat([a.imag, a.real], -1),
  ], -2);
  const x = solve(left, Tensor.concat([b.real, b.imag], -2));
  const half = (from: number, to: number) =>
    x.slice(...batchOf(x).map(() => null), [from, to], null);
  return new ComplexTensor(half(0, n), half(n, 2 * n));
}
