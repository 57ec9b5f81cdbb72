/** The QR factorization, and products of reflections. */
import { formatShape } from "../../backend/internal.ts";
import { compute } from "../core/operations.ts";
import { routine } from "../ops/routine.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { concat } from "../ops/shaping/joining.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { isReflectable, qrByBlocks } from "./blocked/qr.ts";
import { qrKernel } from "./kernels/factors.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import {
  batchOf,
  block,
  differentiable,
  identityLike,
  padded,
  requireMatrices,
  requireReal,
  sides,
  transposed,
} from "./common/matrices.ts";
import { blocksOf, factored, MAX_COLUMNS, productOf } from "./reflections.ts";
import { solveTriangle } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** Options of {@linkcode qr}. */
export interface QROptions {
  /** Columns of Q: min(m, n) (default), m, or none: R only, and Q is empty. */
  mode?: "reduced" | "complete" | "r";
}

/** The factors of A = Q R. */
export interface QR {
  /** Orthonormal columns. */
  q: Tensor;
  /** An upper triangle. */
  r: Tensor;
}

const rules: Rules<QROptions> = { mode: takes.oneOf("reduced", "complete", "r") };

/**
 * The factors of A = Q R by reflections, with LAPACK's signs.
 *
 * @param a Matrices [..., m, n] of float32 or float64.
 * @param options See {@linkcode QROptions}.
 * @throws {Error} From `backward`, as PyTorch: for mode "r", and for "complete" where m > n.
 */
export function qr(a: Tensor, options: QROptions = {}): QR {
  requireMatrices("qr", a);
  checkOptions("qr", options, rules);
  return compute(qrOf, a, options.mode ?? "reduced");
}

/** Q of `columns` columns, and R of as many rows or of min(m, n), without gradients. */
export function factorQR(a: Tensor, columns: number): QR {
  const [m, n] = sides(a), t = Math.min(m, n), rows = Math.max(columns, t);
  if (runsInGroups(a.device) && a.size > 0 && isReflectable(a)) return qrByBlocks(a, columns);
  if (t <= MAX_COLUMNS) {
    const shapes = [a.shape, [...batchOf(a), t], [...batchOf(a), m, columns]];
    const sizes = [m, n, columns, t], items = Math.max(n, columns);
    const [w, , q] = callMatrixKernel(qrKernel, [a], shapes, sizes, items);
    const isEmpty = a.size === 0;
    return { q: isEmpty ? identityLike(q!) : q!, r: block(w!, [0, rows], null).triu() };
  }
  const { parts, r } = factored(a);
  const q = columns > 0 ? productOf(parts, columns) : block(a, null, [0, 0]);
  return { q, r: padded(r, [0, rows - t], [0, 0]) };
}

function qrOf(a: Tensor, mode: "reduced" | "complete" | "r"): QR {
  const [m, n] = sides(a), t = Math.min(m, n);
  const columns = mode === "complete" ? m : mode === "r" ? 0 : t;
  const factors = () => routine(qAndR, [a], columns);
  const [q, r] = differentiable("qr", [a], factors, ([gq, gr], [q, r]) => {
    if (columns !== t) {
      throw new Error(
        `Cannot go backward through qr of shape ${formatShape(a.shape)} with the mode "${mode}": ` +
          `the columns of Q are not determined by it; pass { mode: "reduced" }`,
      );
    }
    return [gradientOf(a, gq ?? q!.zerosLike(), gr ?? r!.zerosLike(), q!, r!)];
  });
  return { q: q!, r: r! };
}

function qAndR([a]: Tensor[], columns: number): Tensor[] {
  const { q, r } = factorQR(a!, columns);
  return [q, r];
}

/** H.-J. Liao et al., "Differentiable programming tensor networks" (2019), and for wide A as PyTorch. */
function gradientOf(a: Tensor, gq: Tensor, gr: Tensor, q: Tensor, r: Tensor): Tensor {
  const [m, n] = sides(a);
  if (m >= n) return gradientOfTall(gq, gr, q, r);
  const left = [0, m] as const, right = [m, n] as const;
  const further = block(gr, null, right);
  const total = gq.add(block(a, null, right).matmul(transposed(further)));
  const first = gradientOfTall(total, block(gr, null, left), q, block(r, null, left));
  return concat([first, q.matmul(further)], -1);
}

function gradientOfTall(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor): Tensor {
  const m = r.matmul(transposed(gr)).sub(transposed(gq).matmul(q));
  const symmetric = m.tril().add(transposed(m.tril(-1)));
  const total = gq.add(q.matmul(symmetric));
  return transposed(solveTriangle(r, transposed(total), true, false));
}

/**
 * Q of reflections in LAPACK's form: the first columns of H1 H2 ... Hk with Hi = I - tau v vᵀ, where v
 * is 1 on the diagonal and stands below it.
 *
 * @param v Matrices [..., m, n], of which what is below the diagonal is read; m >= n.
 * @param tau Factors [..., k], k <= n.
 * @returns Orthonormal columns [..., m, n].
 */
export function householder(v: Tensor, tau: Tensor): Tensor {
  requireMatrices("householder", v);
  requireReal("householder", tau);
  const [m, n] = sides(v), k = tau.shape.at(-1) ?? -1;
  const fits = formatShape(tau.shape.slice(0, -1)) === formatShape(batchOf(v)) && k <= n && n <= m;
  if (!fits || tau.dtype !== v.dtype) {
    throw shapeError("householder")`
      Cannot take the householder product of ${v.dtype} ${v.shape} and ${tau.dtype} ${tau.shape}:
      pass [..., m, n] and [..., k] of one type with m >= n >= k`;
  }
  return compute(householderOf, v, tau);
}

function householderOf(v: Tensor, tau: Tensor): Tensor {
  const n = sides(v)[1];
  return tau.size > 0 ? productOf(blocksOf(v, tau), n) : identityLike(v);
}
