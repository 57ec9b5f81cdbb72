/** Triangular systems on GPUs: a launch a block, behind one that inverts the diagonal blocks. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { sides } from "../common/matrices.ts";
import { blockSides } from "./block_texts.ts";
import { callBlocks } from "./blocks.ts";
import { inversesText, solveStepText } from "./triangle_texts.ts";
import type { Tensor } from "../../core/mod.ts";

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
  let x = b;
  for (let step = 0; step < blocks; step++) {
    const now = upper ? blocks - 1 - step : step;
    x = callBlocks(
      "triangle_step",
      solveStepText,
      [a, inverses!, x],
      [{ shape: [n, r] }],
      [n, r, +upper, now],
      blocks * tiles,
    )[0]!;
  }
  return x;
}
