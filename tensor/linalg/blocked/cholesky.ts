/** Cholesky factorizations on GPUs: two launches a block. */
import { sides } from "../common/matrices.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { blockSides } from "./block_texts.ts";
import { callBlocks } from "./blocks.ts";
import { belowText, firstBlockText, stepText } from "./cholesky_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** The lower factor, and the first bad pivot from 1, or 0: [..., 1]. */
export function choleskyByBlocks(a: Tensor): { factor: Tensor; info: Tensor } {
  const [n] = sides(a), side = blockSides[a.dtype as RealType], blocks = Math.ceil(n / side);
  const one = { shape: [1], isWhole: true }, pair = { shape: [2, side, side] };
  let [done, info] = callBlocks("cholesky_block", firstBlockText, [a], [pair, one], [n], 1);
  let matrix = a;
  for (let last = 0; last < blocks; last++) {
    const rest = blocks - last - 1;
    const below = rest === 0 ? done! : callBlocks(
      "cholesky_below",
      belowText,
      [matrix, done!],
      [{ shape: [rest, side, side] }],
      [n, last * side],
      rest,
    )[0]!;
    [matrix, done, info] = callBlocks(
      "cholesky_step",
      stepText,
      [matrix, done!, below, info!],
      [{ shape: [n, n] }, pair, one],
      [n, last],
      blocks * blocks,
    ) as [Tensor, Tensor, Tensor];
  }
  return { factor: matrix, info: info! };
}
