/** Diagonals and triangles of matrices. */
import { shapeError } from "../../core/rules/errors.ts";
import { pad, slice } from "./slices.ts";
import type { SliceRange } from "../../core/arguments.ts";
import { reshape, unsqueeze } from "./views.ts";
import type { Tensor } from "../../core/mod.ts";

/** The diagonal of the last two axes, of any sizes, as a view: every element `n + 1` of the square. */
export function diagonalView(x: Tensor): Tensor {
  const lead = x.shape.slice(0, -2), n = Math.min(...x.shape.slice(-2));
  const all = lead.map((): SliceRange => null);
  const square = slice(x, [...all, [0, n], [0, n]]);
  const flat = reshape(square, [...lead, n * n]);
  const extended = pad(flat, [...lead.map((): [number, number] => [0, 0]), [0, n]]);
  return slice(reshape(extended, [...lead, n, n + 1]), [...all, null, 0]);
}

/** The diagonal of the last two axes, or of a vector the matrix that has it. */
export function diagonal(x: Tensor): Tensor {
  if (x.ndim === 0) {
    throw shapeError("diagonal")`Cannot take the diagonal of a scalar: it has no axes`;
  }
  if (x.ndim === 1) {
    const n = x.size;
    return eyeLike(x, n).ne(0).where(unsqueeze(x, 1), x.zerosLike([1]));
  }
  return diagonalView(x);
}

function eyeLike(x: Tensor, n: number): Tensor {
  return x.indexLike([n]).unsqueeze(1).eq(x.indexLike([n])).cast(x.dtype);
}

/** The lower triangle of the last two axes, zeros above a diagonal. */
export function tril(x: Tensor, diagonal = 0): Tensor {
  return triangle("tril", x, diagonal, 0).where(x, x.zerosLike());
}

/** The upper triangle of the last two axes, zeros below a diagonal. */
export function triu(x: Tensor, diagonal = 0): Tensor {
  return triangle("triu", x, diagonal, -1).where(x.zerosLike(), x);
}

/** True in the lower triangle. */
function triangle(op: string, x: Tensor, diagonal: number, offset: number): Tensor {
  if (x.ndim < 2 || !Number.isInteger(diagonal)) {
    throw shapeError(op)`
      Cannot take the ${op} of a tensor of shape ${x.shape}: it takes matrices, and a whole number`;
  }
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  const row = x.indexLike([rows]).unsqueeze(1), column = x.indexLike([columns]);
  return column.le(row.add(diagonal + offset));
}
