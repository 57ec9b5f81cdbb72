/** Along which loops the operands of a contraction lie contiguous: which template may read them in vectors. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel, Output } from "../../../kernel/kernel.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import { last, type RowLoops } from "./contraction_shape.ts";

/** The fewest elements along which vectors are worth their trouble. */
export const MIN_VECTOR = 4;

/** Orders of vectors in a contraction. */
export interface OperandOrder {
  /** Both operands are contiguous along the summed axis. */
  readonly isInner: boolean;
  /** The same, and that axis has the elements of a whole vector. */
  readonly isLongInner: boolean;
  /** The loops of a tile whose columns lie contiguous; null where neither operand's do. */
  readonly loops: RowLoops | null;
}

export function operandOrder(kernel: LoopKernel): OperandOrder {
  const { sizes, outputs } = kernel, c = kernel.contraction!;
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const spans = (index: AffineExpr, symbol: number, least: number): boolean =>
    coefficient(index, symbol) === 1 && sizes[symbol]! >= least;
  const isInner = spans(c.a.index, k, MIN_VECTOR) && spans(c.b.index, k, MIN_VECTOR);
  const least = isInner ? LANES : MIN_VECTOR;
  const alongN = spans(c.b.index, n, least), alongM = spans(c.a.index, m, least);
  // Where both will do, the axis along which results lie, so that they are written as vectors.
  const isTransposed = liesAlong(outputs, m);
  return {
    isInner,
    isLongInner: isInner && sizes[k]! >= LANES,
    loops: alongN && !(alongM && isTransposed)
      ? columnsOfB(kernel)
      : alongM
      ? columnsOfA(kernel)
      : null,
  };
}

function liesAlong(outputs: readonly Output[], symbol: number): boolean {
  return outputs.every(({ index }) => coefficient(index, symbol) === 1);
}

/** The loops of a tile whose columns are the rows of the left operand. */
function columnsOfA({ contraction }: LoopKernel): RowLoops {
  const c = contraction!;
  return { row: last(c.n), column: last(c.m), scalar: c.b, vector: c.a };
}

/** The loops of a tile along whose columns results lie; null where they lie along neither. */
export function columnsOfResults(kernel: LoopKernel): RowLoops | null {
  const { outputs, contraction } = kernel;
  if (liesAlong(outputs, last(contraction!.n))) return columnsOfB(kernel);
  return liesAlong(outputs, last(contraction!.m)) ? columnsOfA(kernel) : null;
}

/** The loops of a tile whose columns are those of the right operand. */
export function columnsOfB({ contraction, sizes }: LoopKernel): RowLoops {
  const c = contraction!,
    row = last(c.m),
    [longest] = c.m.toSorted((s, t) => sizes[t]! - sizes[s]!);
  // A phase of a transposed convolution is too short for the rows of a tile.
  const rows = sizes[row]! < MIN_VECTOR ? longest! : row;
  return { row: rows, column: last(c.n), scalar: c.a, vector: c.b };
}

/** True for a loop that walks an operand in steps of a few elements, as a convolution's stride does. */
export function isApart(
  { sizes }: LoopKernel,
  { vector, column }: RowLoops,
  most: number,
): boolean {
  const step = coefficient(vector.index, column);
  return step > 1 && step <= most && sizes[column]! >= MIN_VECTOR;
}
