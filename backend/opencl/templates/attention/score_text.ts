/** Pieces of the kernels of attention on matrix units: scores, their masks, and the weights that follow. */
import type { AttentionText } from "./attention_text.ts";
import { eachScore } from "./mma_text.ts";

/** Rows of a matrix instruction. */
const ROWS = 16;
const LOG2E = Math.LOG2E;

/** Largest growth of weights beyond 1, as a power of 2, before scaling down: halves hold it. */
const MAX_GROWTH = 8;

/**
 * Turns scores into weights, against a score of the row that the largest so far exceeds by little; `sum` and
 * `total` are scaled down where it exceeds that by more. Scores times `factor` are of base 2; null: they are so
 * already.
 */
export function softmaxStep(
  text: AttentionText,
  { tiles, columns, valueFeatures }: {
    readonly tiles: number;
    readonly columns: number;
    readonly valueFeatures: number;
  },
  factor: string | null,
): void {
  const times = factor === null ? "" : ` * ${factor}`;
  const power = (score: string): string =>
    factor === null ? `MMA_EXP2(${score} - low)` : `MMA_EXP2(fma(${score}, ${factor}, -low))`;
  text.add(...overTiles(
    tiles,
    `for (int h = 0; h < 2; ++h) {
    float most = top[i][h];
    #pragma unroll
    for (int j = 0; j < ${columns / 8}; ++j)
      most = fmax(most, fmax(scores[i][j][2 * h], scores[i][j][2 * h + 1]));
    most = fmax(most, MMA_SHUFFLE(most, 1));
    most = fmax(most, MMA_SHUFFLE(most, 2));
    if ((most - top[i][h])${times} > ${MAX_GROWTH}.0f) {
      const float less = MMA_EXP2((top[i][h] - most)${times});
      top[i][h] = most; total[i][h] *= less;
      #pragma unroll
      for (int j = 0; j < ${valueFeatures / 8}; ++j) {
        sum[i][j][2 * h] *= less; sum[i][j][2 * h + 1] *= less;
      }
    }
    const float low = top[i][h] == -INFINITY ? 0.0f : top[i][h]${times};
    float added = 0;
    #pragma unroll
    for (int j = 0; j < ${columns / 8}; ++j) {
      scores[i][j][2 * h] = ${power("scores[i][j][2 * h]")};
      scores[i][j][2 * h + 1] = ${power("scores[i][j][2 * h + 1]")};
      added += scores[i][j][2 * h] + scores[i][j][2 * h + 1];
    }
    total[i][h] += added;
  }`,
  ));
}

/** Declares `inverse`, what a row's sum is multiplied by: 0 where a query may look at no key. */
export function divideSums(text: AttentionText, tiles: number): void {
  text.add(
    `float inverse[${tiles}][2];`,
    ...overTiles(
      tiles,
      `for (int h = 0; h < 2; ++h) {
    float all = total[i][h];
    all += MMA_SHUFFLE(all, 1);
    all += MMA_SHUFFLE(all, 2);
    inverse[i][h] = top[i][h] == -INFINITY ? 0.0f : 1.0f / all;
    total[i][h] = all;
  }`,
    ),
  );
}

/** Stores the logarithms of the sums of exponentials, where they are read. */
export function storeLogSums(
  text: AttentionText,
  tiles: number,
  l: string,
  factor: string | null,
): void {
  const logSums = text.output(1);
  if (!logSums) return;
  const top = factor === null ? "top[i][h]" : `top[i][h] * ${factor}`;
  text.add(...overTiles(
    tiles,
    `for (int h = 0; h < 2; ++h) {
    const Index row = row0 + warp_row + i * 16 + (lane >> 2) + h * 8;
    if ((lane & 3) == 0 && row < ${l}) ${logSums}[head * ${l} + row] =
      top[i][h] == -INFINITY ? INFINITY : ${text.float(Math.LN2)} * (${top} + log2(total[i][h]));
  }`,
  ));
}

/** A statement for each row of instructions of a warp. */
export function overTiles(tiles: number, statement: string): string[] {
  return [
    "#pragma unroll",
    `for (int i = 0; i < ${tiles}; ++i) {`,
    "  #pragma unroll",
    `  ${statement}`,
    "}",
  ];
}

/**
 * Closes the scores of queries (rows) and keys (columns), or the other way round, where a query may not look:
 * -INFINITY.
 *
 * @returns What they are multiplied by to be of base 2; null where they are already.
 */
export function openScores(
  text: AttentionText,
  tiles: number,
  columns: number,
  rowsAreKeys = false,
): string | null {
  const { mask, scale, keys, isCausal } = text.kernel, factor = text.float(scale * LOG2E);
  const [i, j] = rowsAreKeys ? ["column", "row"] : ["row", "column"];
  const isKey = `${j} < ${text.index(keys)}`, isSeen = `${j} <= ${i}`;
  if (mask !== null || !(scale > 0)) {
    const isOpen = [
      `${i} < ${text.index(text.kernel.queries)}`,
      isKey,
      ...isCausal ? [isSeen] : [],
    ];
    const open = maskedScore(text, `scores[i][j][e] * ${factor}`, i, j);
    const closed = `${isOpen.join(" && ")} ? ${open} : -INFINITY`;
    text.add(...eachScore(tiles, columns, `scores[i][j][e] = ${closed};`));
    return null;
  }
  // Most tiles have neither the last key nor the diagonal in them. Keys that are rows are not stored behind
  // the last; what queries that are not there make is 0.
  const lastRow = `row0 + warp_row + ${tiles * ROWS - 1}`;
  const edges = [
    ...rowsAreKeys ? [] : [`first + ${columns} > ${text.index(keys)}`],
    ...isCausal
      ? [rowsAreKeys ? `first < ${lastRow}` : `first + ${columns - 1} > row0 + warp_row`]
      : [],
  ];
  if (edges.length === 0) return factor;
  const open = [...rowsAreKeys ? [] : [isKey], ...isCausal ? [isSeen] : []].join(" && ");
  const close = `if (!(${open})) scores[i][j][e] = -INFINITY;`;
  text.add(`if (${edges.join(" || ")}) {`, ...eachScore(tiles, columns, close), "}");
  return factor;
}

/** A score with the mask. */
function maskedScore(text: AttentionText, plain: string, i: string, j: string): string {
  const { mask } = text.kernel;
  if (mask === null) return plain;
  const element = text.load("mask", mask.at, i, j);
  return mask.kind === "bool"
    ? `(${element} ? ${plain} : -INFINITY)`
    : `${plain} + ${element} * ${text.float(LOG2E)}`;
}

/** The weight of a score, whose row has so large a logarithm of base 2. */
export function weightOf(factor: string | null, logSum: string): string {
  const score = "scores[i][j][e]";
  return factor === null
    ? `MMA_EXP2(${score} - ${logSum})`
    : `MMA_EXP2(fma(${score}, ${factor}, -${logSum}))`;
}
