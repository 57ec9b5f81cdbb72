/** Systems of equations whose matrix is a triangle. */
import { compute } from "../core/operations.ts";
import { routine } from "../ops/routine.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { concat } from "../ops/shaping/joining.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { solvedByBlocks } from "./blocked/triangle.ts";
import { triangularKernel } from "./kernels/factors.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import {
  block,
  broadcastBatches,
  differentiable,
  requireMatrices,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import type { Tensor } from "../core/mod.ts";

/** More rows are solved block by block: most of the work is then products. */
const MAX_ROWS = 128;
/** The same where many groups solve them, which copy the solution each step. */
const MAX_BLOCKED_ROWS = 2048;

/** Options of {@linkcode solveTriangular}. */
export interface SolveTriangularOptions {
  /** The upper triangle is the matrix; else the lower one. */
  upper: boolean;
  /** False for X of X A = B; default true, A X = B. */
  left?: boolean;
  /** True when the diagonal is taken as ones and not read; default false. */
  unitriangular?: boolean;
}

const rules: Rules<SolveTriangularOptions> = {
  upper: takes.bool,
  left: takes.bool,
  unitriangular: takes.bool,
};

/**
 * X of A X = B for triangular matrices A; the other triangle is not read. A zero on the diagonal gives
 * infinite or NaN elements.
 *
 * @param a Matrices [..., n, n].
 * @param b Right sides [..., n, r].
 * @param options See {@linkcode SolveTriangularOptions}.
 * @returns The solutions [..., n, r].
 * @throws {ShapeError} When the shapes do not fit each other.
 */
export function solveTriangular(a: Tensor, b: Tensor, options: SolveTriangularOptions): Tensor {
  const op = "solveTriangular";
  requireSquare(op, a);
  requireMatrices(op, b);
  checkOptions(op, options, rules, ["upper"]);
  const { upper, left = true, unitriangular = false } = options;
  requireRows(op, a, left ? b : transposed(b));
  if (left) return compute(solveTriangle, a, b, upper, unitriangular);
  return compute(solveFromRight, a, b, upper, unitriangular);
}

/** @throws {ShapeError} Unless there is a right side for each row. */
export function requireRows(op: string, a: Tensor, b: Tensor): void {
  if (sides(a)[0] === sides(b)[0]) return;
  throw shapeError(op)`
    Cannot ${op} of shapes ${a.shape} and ${b.shape}: the right sides have as many rows as the
    matrix`;
}

function solveFromRight(a: Tensor, b: Tensor, upper: boolean, unit: boolean): Tensor {
  return transposed(solveTriangle(transposed(a), transposed(b), !upper, unit));
}

/** See {@linkcode solveTriangular}, of arguments that fit each other. */
export function solveTriangle(a: Tensor, b: Tensor, upper: boolean, unit: boolean): Tensor {
  const [p, q] = broadcastBatches("solveTriangular", a, b);
  const [x] = differentiable(
    "solveTriangular",
    [p, q],
    () => routine(solution, [p, q], upper, unit),
    ([g], [x]) => {
      if (g === null) return [null, null];
      const right = solveTriangle(transposed(p), g!, !upper, unit);
      const full = right.matmul(transposed(x!)).neg();
      return [upper ? full.triu(unit ? 1 : 0) : full.tril(unit ? -1 : 0), right];
    },
  );
  return x!;
}

function solution([a, b]: Tensor[], upper: boolean, unit: boolean): Tensor[] {
  return [solved(a!, b!, upper, unit)];
}

function solved(a: Tensor, b: Tensor, upper: boolean, unit: boolean): Tensor {
  const [n, r] = sides(b), isByBlocks = runsInGroups(a.device) && b.size > 0;
  if (isByBlocks && n <= MAX_BLOCKED_ROWS) return solvedByBlocks(a, b, upper, unit);
  if (!isByBlocks && n <= MAX_ROWS) {
    return callMatrixKernel(triangularKernel, [a, b], [b.shape], [n, r, +upper, +unit], r)[0]!;
  }
  const half = n >> 1, top = [0, half] as const, bottom = [half, n] as const;
  const [first, second] = upper ? [bottom, top] : [top, bottom];
  const known = solved(block(a, first, first), block(b, first, null), upper, unit);
  const rest = block(b, second, null).sub(block(a, second, first).matmul(known));
  const other = solved(block(a, second, second), rest, upper, unit);
  return concat(upper ? [other, known] : [known, other], -2);
}
