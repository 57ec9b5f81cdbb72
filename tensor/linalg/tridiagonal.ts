/** Eigenvalues and eigenvectors of larger symmetric matrices on processors: their tridiagonal form by halves. */
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { batchOf, block, sides, transposed } from "./common/matrices.ts";
import { mergeKernel } from "./kernels/merge.ts";
import { reductionKernel, sweepsKernel } from "./kernels/tridiagonal.ts";
import { appliedTo, blocksOf } from "./reflections.ts";
import type { Tensor } from "../core/mod.ts";

/** Rows of a part whose values are found by sweeps. */
const MAX_ROWS = 32;

/** Values in ascending order, and their vectors as columns, of the lower triangles of matrices of 2 rows or more. */
export function tridiagonalEigen(a: Tensor): Tensor[] {
  const batch = batchOf(a), [n] = sides(a), row = [...batch, n];
  const parts = 2 ** Math.max(0, Math.ceil(Math.log2(n / MAX_ROWS))), s = Math.ceil(n / parts);
  const m = s * parts, long = [...batch, m];
  const shapes = [a.shape, row, long, long, [...batch, 1], row, row, row, row];
  const [w, tau, d, e, scale] = callMatrixKernel(reductionKernel, [a], shapes, [n, m, s], n);
  const [values, rows] = byHalves(d!, e!, s);
  const order = values!.argsort(-1).slice(...batch.map(() => null), [0, n]);
  const kept = block(rows!, null, [0, n]);
  const vectors = transposed(
    kept.gather(-2, order.unsqueeze(-1).expand([...batch, n, n])),
  );
  // Reflections turn all rows but the first.
  const reflections = block(transposed(w!), [1, n], [0, n - 1]);
  const factors = tau!.slice(...batch.map(() => null), [0, n - 1]);
  return [
    values!.gather(-1, order).div(scale!),
    appliedTo(blocksOf(reflections, factors), vectors),
  ];
}

/** Values and vectors, the rows, of tridiagonal matrices whose parts have `s` rows; in no order. */
function byHalves(d: Tensor, e: Tensor, s: number): Tensor[] {
  const batch = d.shape.slice(0, -1), m = d.shape.at(-1)!;
  const parts = [...batch, m / s], row = [...parts, s], own = (x: Tensor) => x.reshape(row);
  let [values, rows] = callMatrixKernel(
    sweepsKernel,
    [own(d), own(e)],
    [row, [...row, s], row, [...row, 2]],
    [s],
    s,
  ) as [Tensor, Tensor];
  for (let h = s; h < m; h *= 2) {
    const n = 2 * h, nodes = [...batch, m / n], line = [...nodes, n], whole = [...nodes, 2, n, h];
    const between = e.reshape(line).slice(...nodes.map(() => null), [h - 1, h]);
    const inner = rows.reshape([...nodes, 2, h, h]);
    const shapes = [line, whole, whole, line, line, line, [...line, 2], line];
    const [next, v] = callMatrixKernel(
      mergeKernel,
      [values.reshape(line), inner, between],
      [...shapes, line, line, line, line, [...line, 2]],
      [h],
      n,
    );
    values = next!;
    rows = v!.matmul(inner).transpose(-3, -2).reshape([...nodes, n, n]);
  }
  return [values.reshape([...batch, m]), rows.reshape([...batch, m, m])];
}
