/** The symmetric factor of the polar decomposition, by products and factorizations. */
import { epsilon, type RealType } from "../ops/custom/matrix_kernel.ts";
import { concat } from "../ops/shaping/joining.ts";
import { factored } from "./cholesky.ts";
import { block, identityLike, sides, transposed } from "./common/matrices.ts";
import { factorQR } from "./qr.ts";
import { solveTriangle } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** Numbers of a step: x becomes x (a + b x²) / (1 + c x²). */
interface Step {
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

/** A larger `c` would lose digits by a Cholesky factor. */
const MAX_BY_CHOLESKY = 100;

/** Steps that bring all numbers from `low` to 1 near 1; each has the best bounds for what the last one left. */
function stepsFrom(low: number): Step[] {
  const steps: Step[] = [];
  for (let l = low; 1 - l > 1e-7;) {
    const square = l * l, d = Math.cbrt(4 * (1 - square) / (square * square));
    const root = Math.sqrt(1 + d);
    const a = root + Math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2;
    const b = (a - 1) ** 2 / 4, c = a + b - 1;
    steps.push({ a, b, c });
    l = Math.min(1, l * (a + b * square) / (1 + c * square));
  }
  return steps;
}

/**
 * H of A = U H, with orthonormal columns U and H the root of Aᵀ A: its eigenvalues are the singular values, its
 * eigenvectors the right singular vectors, to the digits of the largest one. Y. Nakatsukasa and N. Higham,
 * "Stable and efficient spectral divide and conquer algorithms" (2013): Halley's iteration with weights.
 *
 * @param a Matrices of as many rows as columns, of a largest element near 1.
 */
export function symmetricPolarFactor(a: Tensor): Tensor {
  const one = identityLike(a), [n] = sides(a);
  let x = a.div(a.square().sum([-2, -1], { keepDims: true }).sqrt());
  for (const step of stepsFrom(epsilon[a.dtype as RealType])) {
    const share = step.b / step.c, rest = x.mul(share), others = step.a - share;
    if (step.c > MAX_BY_CHOLESKY) {
      const root = Math.sqrt(step.c), { q } = factorQR(concat([x.mul(root), one], -2), n);
      const product = block(q, [0, n], null).matmul(transposed(block(q, [n, 2 * n], null)));
      x = rest.add(product.mul(others / root));
    } else {
      const { factor } = factored(transposed(x).matmul(x).mul(step.c).add(one));
      const half = solveTriangle(factor, transposed(x), false, false);
      const found = solveTriangle(transposed(factor), half, true, false);
      x = rest.add(transposed(found).mul(others));
    }
  }
  const h = transposed(x).matmul(a);
  return h.add(transposed(h)).mul(0.5);
}
