/** Four vectors as the rows of a matrix: its columns. */
import type { FunctionBuilder, Local } from "../assembler.ts";

/** The columns of four vectors: the first lanes of all, the second ones, and so on. */
export function transpose(
  f: FunctionBuilder,
  [a, b, c, d]: readonly [Local, Local, Local, Local],
): Local[] {
  const low = f.shuffle32(a, b, [0, 4, 1, 5]), high = f.shuffle32(a, b, [2, 6, 3, 7]);
  const low2 = f.shuffle32(c, d, [0, 4, 1, 5]), high2 = f.shuffle32(c, d, [2, 6, 3, 7]);
  return [[low, low2], [high, high2]].flatMap(([x, y]) =>
    [[0, 1, 4, 5], [2, 3, 6, 7]].map((lanes) => f.shuffle32(x!, y!, lanes))
  );
}
