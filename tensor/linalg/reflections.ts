/**
 * Reflections in blocks: H1 H2 ... Hk = I - V T Vᵀ (R. Schreiber, C. Van Loan, 1989), so that factorizations and
 * reductions are products but for panels of few columns.
 */
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { concat } from "../ops/shaping/joining.ts";
import { batchOf, block, identityLike, padded, sides, transposed } from "./common/matrices.ts";
import { panelKernel } from "./kernels/factors.ts";
import { solveTriangle } from "./triangular.ts";
import type { Tensor } from "../core/mod.ts";

/** The product of some reflections. */
export interface Reflections {
  /** Their vectors [..., m, k]: ones on the diagonal, zeros above. */
  readonly v: Tensor;
  /** An upper triangle [..., k, k]. */
  readonly t: Tensor;
}

/** The reflections of a matrix, and the triangle that it becomes by them. */
interface Panel extends Reflections {
  readonly r: Tensor;
}

/** Columns that a kernel reflects one by one. */
export const MAX_COLUMNS = 32;
/** Reflections of a product; of more, T and its products would be much of the work. */
const BLOCK = 256;
/** The same where T is solved for: more are much work for one core. */
const SMALL_BLOCK = 128;

/** The product, or its transpose, times a matrix. */
function reflected({ v, t }: Reflections, c: Tensor, isTransposed = false): Tensor {
  const inner = (isTransposed ? transposed(t) : t).matmul(transposed(v).matmul(c));
  return c.sub(v.matmul(inner));
}

/** The vectors of reflections in LAPACK's form: what stands below the diagonal, with ones on it. */
function vectorsOf(w: Tensor, count: number): Tensor {
  const first = block(w, null, [0, count]).tril(-1);
  return first.add(identityLike(first)).contiguous();
}

/** T of reflections (C. Puglisi, "Modification of the Householder method based on the compact WY representation", 1992). */
function triangleOf(v: Tensor, tau: Tensor): Tensor {
  const products = transposed(v).matmul(v), column = tau.unsqueeze(-1);
  const diagonal = identityLike(products).mul(column);
  return solveTriangle(products.triu(1).mul(column), diagonal, true, true);
}

/** Two upper triangles on the diagonal, and what stands above the second. */
function joined(first: Tensor, above: Tensor, second: Tensor): Tensor {
  const left = padded(second, [0, 0], [sides(first)[1], 0]);
  return concat([concat([first, above], -1), left], -2);
}

/** The reflections of a matrix of as many rows as columns or more: of the left half, then of what is left of the right. */
function panelOf(a: Tensor): Panel {
  const [m, n] = sides(a);
  if (n <= MAX_COLUMNS) {
    const columns = transposed(a).contiguous(), square = [...batchOf(a), n, n];
    const shapes = [columns.shape, square, square.slice(0, -1)];
    const [w, t] = callMatrixKernel(panelKernel, [columns], shapes, [m, n], m);
    const rows = transposed(w!);
    return { v: vectorsOf(rows, n), t: t!, r: block(rows, [0, n], null).triu() };
  }
  const half = MAX_COLUMNS * Math.ceil(n / MAX_COLUMNS / 2);
  const first = panelOf(block(a, null, [0, half]));
  const right = reflected(first, block(a, null, [half, n]), true);
  const second = panelOf(block(right, [half, m], null));
  const products = transposed(block(first.v, [half, m], null)).matmul(second.v);
  return {
    v: concat([first.v, padded(second.v, [half, 0], [0, 0])], -1),
    t: joined(first.t, first.t.matmul(products).matmul(second.t).neg(), second.t),
    r: joined(first.r, block(right, [0, half], null), second.r),
  };
}

/** The reflections of a matrix, block by block, and R of min(m, n) rows. */
export function factored(a: Tensor): { parts: Reflections[]; r: Tensor } {
  const [m, n] = sides(a), t = Math.min(m, n), parts: Reflections[] = [], rows: Tensor[] = [];
  let rest = a;
  for (let from = 0; from < t; from += BLOCK) {
    const width = Math.min(BLOCK, t - from), panel = panelOf(block(rest, null, [0, width]));
    parts.push(panel);
    if (from + width === n) {
      rows.push(padded(panel.r, [0, 0], [from, 0]));
      break;
    }
    const right = reflected(panel, block(rest, null, [width, n - from]), true);
    const row = concat([panel.r, block(right, [0, width], null)], -1);
    rows.push(padded(row, [0, 0], [from, 0]));
    rest = block(right, [width, m - from], null);
  }
  return { parts, r: rows.length > 1 ? concat(rows, -2) : rows[0]! };
}

/** The blocks of reflections in LAPACK's form, of which each has a factor. */
export function blocksOf(w: Tensor, tau: Tensor): Reflections[] {
  const [m] = sides(w), count = tau.shape.at(-1)!, starts = Math.ceil(count / SMALL_BLOCK);
  return Array.from({ length: starts }, (_, k) => {
    const from = k * SMALL_BLOCK, to = Math.min(from + SMALL_BLOCK, count);
    const v = vectorsOf(block(w, [from, m], [from, to]), to - from);
    const own = tau.slice(...batchOf(w).map(() => null), [from, to]);
    return { v, t: triangleOf(v, own) };
  });
}

/** The product of all blocks times a matrix, whose first rows they leave as they are where they have fewer. */
export function appliedTo(parts: readonly Reflections[], c: Tensor): Tensor {
  const [m] = sides(c);
  let done = m, rest: Tensor | null = null;
  for (const part of parts.toReversed()) {
    const from = m - sides(part.v)[0], own = block(c, [from, done], null);
    rest = reflected(part, rest ? concat([own, rest], -2) : own);
    done = from;
  }
  return rest === null || done === 0 ? rest ?? c : concat([block(c, [0, done], null), rest], -2);
}

/** So many columns of the product of all blocks, as many as there are reflections or more. */
export function productOf(parts: readonly Reflections[], columns: number): Tensor {
  const m = sides(parts[0]!.v)[0];
  let q: Tensor | null = null;
  for (const { v, t } of parts.toReversed()) {
    // A block leaves the columns left of it as they are.
    const [rows, width] = sides(v), top = block(v, [0, q ? width : columns - m + rows], null);
    if (q === null) {
      const product = v.matmul(t.matmul(transposed(top)));
      q = identityLike(product).sub(product);
    } else {
      const right = transposed(block(v, [width, rows], null)).matmul(q);
      const product = v.matmul(t.matmul(concat([transposed(top), right], -1)));
      const one = padded(identityLike(t), [0, rows - width], [0, sides(q)[1]]);
      q = padded(q, [width, 0], [width, 0]).add(one).sub(product);
    }
  }
  return q!;
}
