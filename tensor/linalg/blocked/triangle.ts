/** Triangular systems on GPUs: a launch a block, behind one that inverts the diagonal blocks. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { sides } from "../common/matrices.ts";
import { blockSides } from "./block_texts.ts";
import { callBlocks } from "./blocks.ts";
import { inversesText, solveStepText, VECTOR_BLOCKS, vectorStepText } from "./triangle_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** Few right sides: each has groups of its own, whose steps are larger. */
const MAX_VECTORS = 4;

/** X of A X = B for triangles A. */
export function solvedByBlocks(a: Tensor, b: Tensor, upper: boolean, unit: boolean): Tensor {
  const [n, r] = sides(b), side = blockSides[a.dtype as RealType];
  const blocks = Math.ceil(n / side), tiles = Math.ceil(r / side);
  const [inverses] = callBlocks(
    "triangle_inverses",
    inversesText,
    [a],
    [{ shape: [blocks, side, side] }],
    [n, +upper, +unit],
    blocks,
  );
  const isVector = r <= MAX_VECTORS, together = isVector ? VECTOR_BLOCKS : 1;
  const name = isVector ? "triangle_vector_step" : "triangle_step";
  const steps = Math.ceil(blocks / together);
  let x = b;
  for (let step = 0; step < steps; step++) {
    const now = upper ? steps - 1 - step : step;
    x = callBlocks(
      name,
      isVector ? vectorStepText : solveStepText,
      [a, inverses!, x],
      [{ shape: [n, r] }],
      [n, r, +upper, now * together],
      blocks * (isVector ? r : tiles),
    )[0]!;
  }
  return x;
}
