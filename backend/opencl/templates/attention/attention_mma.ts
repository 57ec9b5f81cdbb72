/**
 * Attention of half types on matrix units (tensor cores) by `mma.sync`, for NVIDIA devices of compute
 * capability 8.0 and later. A warp takes 16 or 32 rows; scores stay in registers, where those of one product
 * are an operand of the next as they lie. Tiles travel to local memory by `cp.async`, two at a time.
 *
 * - Forward: rows are queries; exponentials are of base 2, sums are float32.
 * - Gradient of queries: rows are queries; scores are computed again from the saved logarithms.
 * - Gradients of keys and values: rows are keys, so no group adds to what another one writes.
 *
 * Measured on an H100, float16, 8 x 12 heads of 1024 x 64, in ms: forward 0.12, with gradients 0.56 (several
 * operations 1.6, PyTorch 2.11 0.27); causal 0.09 and 0.41; 128 features 0.21 and 0.94.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { Planned, Template } from "../parts/template.ts";
import { attentionKernels, AttentionText } from "./attention_text.ts";
import {
  addProducts,
  clearSums,
  copyTile,
  declareGroup,
  eachScore,
  loadRows,
  rowProducts,
  storeSums,
  tileProducts,
  type Walked,
} from "./mma_text.ts";

/** Warps of a group, and work-items. */
const WARPS = 4, THREADS = 32 * WARPS;
/** Rows of a matrix instruction. */
const ROWS = 16;
/** Columns that are walked at a time. */
const COLUMNS = 64;
/** Rows of more features would not leave registers for the sums. */
const MAX_FEATURES = 128;
/** From this many queries on a warp takes two rows of instructions. */
const MIN_PAIRED_QUERIES = 512;

/** Attention of half types whose rows lie in pieces of 16 bytes. */
export const mmaAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "mma attention",
  matches: (kernel, target) => target.matrixUnits && fits(kernel) ? { kernel, target } : null,
  emit: (plan) => attentionKernels(plan, { forward, queryGradient, keyGradient }),
  workItems: ({ kernel }) => headsOf(kernel) * Math.ceil(kernel.queries / ROWS) * 32,
};

function fits(kernel: AttentionKernel): boolean {
  const { query, key, value, features, valueFeatures, backward } = kernel;
  const { dtype } = query;
  if (dtype !== "float16" && dtype !== "bfloat16") return false;
  const sizes = [features, valueFeatures];
  if (sizes.some((n) => n % ROWS !== 0 || n > MAX_FEATURES)) return false;
  const matrices = [query, key, value, ...(backward ? [backward.gradient] : [])];
  return matrices.every((at) => at.dtype === dtype && liesInPieces(at));
}

/** True where rows are contiguous and begin at multiples of 16 bytes. */
function liesInPieces({ column, row, offset, lead }: HeadMatrix): boolean {
  return column === 1 && [row, offset, ...lead].every((step) => step % 8 === 0);
}

const barrier = "barrier(CLK_LOCAL_MEM_FENCE);";
const LOG2E = Math.LOG2E;

/** Opens the loop over columns from `start` to `end`, in which two tiles of each matrix take turns. */
function openWalk(
  text: AttentionText,
  walked: readonly Walked[],
  columns: number,
  start: string,
  end: string,
): void {
  text.add(`const Index begin = ${start}, end = ${end};`);
  for (const each of walked) copyTile(text, each, `smem + ${each.at}u`, "begin", THREADS);
  text.add(
    "MMA_COMMIT();",
    `for (Index first = begin, turn = 0; first < end; first += ${columns}, turn ^= 1) {`,
    "MMA_WAIT(0);",
    barrier,
    `if (first + ${columns} < end) {`,
  );
  for (const each of walked) {
    const into = `smem + ${each.at}u + (uint)(turn ^ 1) * ${each.bytes}u`;
    copyTile(text, each, into, `first + ${columns}`, THREADS);
  }
  text.add("}", "MMA_COMMIT();");
  for (const { name, at, bytes } of walked) {
    text.add(`const uint ${name}_tile = smem + ${at}u + (uint)turn * ${bytes}u;`);
  }
}

function tileOf(
  name: string,
  matrix: HeadMatrix,
  rows: number,
  features: number,
  length: number,
  at: number,
): Walked {
  return { name, matrix, rows, features, length, at, bytes: rows * features * 2 };
}

function forward(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const text = new AttentionText(kernel);
  const tiles =
    Math.max(features, valueFeatures) <= 64 && queries >= MIN_PAIRED_QUERIES && !isCausal ? 2 : 1;
  const rows = WARPS * tiles * ROWS;
  const query = tileOf("query", kernel.query, rows, features, queries, 0);
  const key = tileOf("key", kernel.key, COLUMNS, features, keys, query.bytes);
  const value = tileOf("value", kernel.value, COLUMNS, valueFeatures, keys, key.at + 2 * key.bytes);
  declareGroup(text, value.at + 2 * value.bytes, queries, rows, tiles, isCausal);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)];
  copyTile(text, query, "smem", "row0", THREADS);
  clearSums(text, "sum", tiles, valueFeatures);
  text.add(
    `float top[${tiles}][2], total[${tiles}][2]; uint x[${tiles}][${features / 16}][4];`,
    ...overTiles(tiles, "for (int h = 0; h < 2; ++h) { top[i][h] = -INFINITY; total[i][h] = 0; }"),
  );
  openWalk(text, [key, value], COLUMNS, "0", isCausal ? `min(${s}, row0 + ${rows})` : s);
  text.add("if (first == begin) {");
  loadRows(text, "x", "smem", tiles, features);
  text.add("}");
  clearSums(text, "scores", tiles, COLUMNS);
  rowProducts(text, "scores", "x", "key_tile", tiles, features, COLUMNS);
  text.add(...eachScore(tiles, COLUMNS, scoreText(text, text.float(scale * LOG2E))));
  softmaxStep(text, tiles, valueFeatures);
  if (dropout) {
    text.add(
      ...eachScore(tiles, COLUMNS, `scores[i][j][e] *= ${text.kept("head", "row", "column")};`),
    );
  }
  addProducts(text, "sum", "scores", "value_tile", tiles, COLUMNS, valueFeatures);
  text.add("}");
  divideSums(text, tiles);
  storeSums(text, 0, "sum", tiles, valueFeatures, l, " * inverse[i][e >> 1]");
  storeLogSums(text, tiles, l);
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), THREADS, target.narrowEnd);
}

/**
 * Turns scores into weights, against the largest score of a row so far; `sum` and `total` are scaled down
 * where that has grown.
 */
function softmaxStep(text: AttentionText, tiles: number, valueFeatures: number): void {
  text.add(...overTiles(
    tiles,
    `for (int h = 0; h < 2; ++h) {
    float most = top[i][h];
    #pragma unroll
    for (int j = 0; j < ${
      COLUMNS / 8
    }; ++j) most = fmax(most, fmax(scores[i][j][2 * h], scores[i][j][2 * h + 1]));
    most = fmax(most, MMA_SHUFFLE(most, 1));
    most = fmax(most, MMA_SHUFFLE(most, 2));
    const float low = most == -INFINITY ? 0.0f : most, factor = MMA_EXP2(top[i][h] - low);
    float added = 0;
    #pragma unroll
    for (int j = 0; j < ${COLUMNS / 8}; ++j) {
      scores[i][j][2 * h] = MMA_EXP2(scores[i][j][2 * h] - low);
      scores[i][j][2 * h + 1] = MMA_EXP2(scores[i][j][2 * h + 1] - low);
      added += scores[i][j][2 * h] + scores[i][j][2 * h + 1];
    }
    top[i][h] = most; total[i][h] = total[i][h] * factor + added;
    #pragma unroll
    for (int j = 0; j < ${
      valueFeatures / 8
    }; ++j) { sum[i][j][2 * h] *= factor; sum[i][j][2 * h + 1] *= factor; }
  }`,
  ));
}

/** Declares `inverse`, what a row's sum is multiplied by: 0 where a query may look at no key. */
function divideSums(text: AttentionText, tiles: number): void {
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
function storeLogSums(text: AttentionText, tiles: number, l: string): void {
  const logSums = text.output(1);
  if (!logSums) return;
  text.add(...overTiles(
    tiles,
    `for (int h = 0; h < 2; ++h) {
    const Index row = row0 + warp_row + i * 16 + (lane >> 2) + h * 8;
    if ((lane & 3) == 0 && row < ${l}) ${logSums}[head * ${l} + row] =
      top[i][h] == -INFINITY ? INFINITY : ${text.float(Math.LN2)} * (top[i][h] + log2(total[i][h]));
  }`,
  ));
}

/** A statement for each row of instructions of a warp. */
function overTiles(tiles: number, statement: string): string[] {
  return [
    "#pragma unroll",
    `for (int i = 0; i < ${tiles}; ++i) {`,
    "  #pragma unroll",
    `  ${statement}`,
    "}",
  ];
}

/**
 * The statement that makes a score of a product of queries (rows) and keys (columns), or the other way
 * round: of base 2, -INFINITY where a query may not look.
 */
function scoreText(text: AttentionText, factor: string, rowsAreKeys = false): string {
  const { queries, keys, isCausal, mask } = text.kernel;
  const [i, j] = rowsAreKeys ? ["column", "row"] : ["row", "column"];
  const isOpen = [
    `${i} < ${text.index(queries)}`,
    `${j} < ${text.index(keys)}`,
    ...(isCausal ? [`${j} <= ${i}`] : []),
  ].join(" && ");
  const plain = `scores[i][j][e] * ${factor}`;
  let open = plain;
  if (mask) {
    const element = text.load("mask", mask.at, i, j);
    open = mask.kind === "bool"
      ? `(${element} ? ${plain} : -INFINITY)`
      : `${plain} + ${element} * ${text.float(LOG2E)}`;
  }
  return `scores[i][j][e] = ${isOpen} ? ${open} : -INFINITY;`;
}

function queryGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient: g, logSums, products } = kernel.backward!;
  const text = new AttentionText(kernel), rows = WARPS * ROWS;
  const query = tileOf("query", kernel.query, rows, features, queries, 0);
  const gradient = tileOf("gradient", g, rows, valueFeatures, queries, query.bytes);
  const key = tileOf("key", kernel.key, COLUMNS, features, keys, gradient.at + gradient.bytes);
  const value = tileOf("value", kernel.value, COLUMNS, valueFeatures, keys, key.at + 2 * key.bytes);
  declareGroup(text, value.at + 2 * value.bytes, queries, rows, 1, isCausal);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)];
  copyTile(text, query, "smem", "row0", THREADS);
  copyTile(text, gradient, `smem + ${gradient.at}u`, "row0", THREADS);
  clearSums(text, "sum", 1, features);
  text.add(
    `uint x[1][${features / 16}][4], y[1][${valueFeatures / 16}][4]; float logs[2], apart[2];`,
    "for (int h = 0; h < 2; ++h) {",
    "  const Index row = row0 + warp_row + (lane >> 2) + h * 8;",
    `  logs[h] = row < ${l} ? ${text.load("logSums", logSums, "row", "0")} * ${
      text.float(LOG2E)
    } : INFINITY;`,
    `  apart[h] = row < ${l} ? ${text.load("products", products, "row", "0")} : 0.0f;`,
    "}",
  );
  openWalk(text, [key, value], COLUMNS, "0", isCausal ? `min(${s}, row0 + ${rows})` : s);
  text.add("if (first == begin) {");
  loadRows(text, "x", "smem", 1, features);
  loadRows(text, "y", `smem + ${gradient.at}u`, 1, valueFeatures);
  text.add("}");
  clearSums(text, "scores", 1, COLUMNS);
  rowProducts(text, "scores", "x", "key_tile", 1, features, COLUMNS);
  clearSums(text, "ofWeights", 1, COLUMNS);
  rowProducts(text, "ofWeights", "y", "value_tile", 1, valueFeatures, COLUMNS);
  text.add(...eachScore(
    1,
    COLUMNS,
    `${scoreText(text, text.float(scale * LOG2E))}
    const float w = MMA_EXP2(scores[i][j][e] - logs[e >> 1]);
    scores[i][j][e] = w * (ofWeights[i][j][e]${
      dropout ? ` * ${text.kept("head", "row", "column")}` : ""
    } - apart[e >> 1]);`,
  ));
  addProducts(text, "sum", "scores", "key_tile", 1, COLUMNS, features);
  text.add("}");
  storeSums(text, 0, "sum", 1, features, l, ` * ${text.float(scale)}`);
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), THREADS, target.narrowEnd);
}

function keyGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, isCausal, scale } = kernel;
  const text = new AttentionText(kernel), rows = WARPS * ROWS;
  const { columns, key, value, query, gradient, numbers } = keyTiles(kernel, rows);
  declareGroup(text, numbers + 8 * columns, keys, rows, 1, false);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)];
  copyTile(text, key, "smem", "row0", THREADS);
  copyTile(text, value, `smem + ${value.at}u`, "row0", THREADS);
  clearSums(text, "keySum", 1, features);
  clearSums(text, "valueSum", 1, valueFeatures);
  text.add(
    `local float* logs = (local float*)(sm + ${numbers}), * apart = logs + ${columns};`,
  );
  // Queries before the first key of the group see none of its keys.
  openWalk(text, [query, gradient], columns, isCausal ? `row0 / ${columns} * ${columns}` : "0", l);
  loadColumnNumbers(text, columns, l);
  clearSums(text, "scores", 1, columns);
  tileProducts(text, "scores", "smem", "query_tile", features, columns);
  clearSums(text, "ofWeights", 1, columns);
  tileProducts(text, "ofWeights", `smem + ${value.at}u`, "gradient_tile", valueFeatures, columns);
  text.add(barrier, ...eachScore(1, columns, weighColumns(text)));
  addProducts(text, "valueSum", "scores", "gradient_tile", 1, columns, valueFeatures);
  addProducts(text, "keySum", "ofWeights", "query_tile", 1, columns, features);
  // The numbers of this turn are read until here.
  text.add(barrier, "}");
  storeSums(text, 1, "keySum", 1, features, s, ` * ${text.float(scale)}`);
  storeSums(text, 2, "valueSum", 1, valueFeatures, s, "");
  return text.finish(headsOf(kernel) * Math.ceil(keys / rows), THREADS, target.narrowEnd);
}

/** The tiles of the gradients of keys and values in local memory, and where two numbers a column lie. */
function keyTiles(kernel: AttentionKernel, rows: number) {
  const { queries, keys, features, valueFeatures, backward } = kernel;
  // Both sums and both tiles of scores must fit into the registers.
  const columns = Math.max(features, valueFeatures) > 64 ? COLUMNS / 2 : COLUMNS;
  const key = tileOf("key", kernel.key, rows, features, keys, 0);
  const value = tileOf("value", kernel.value, rows, valueFeatures, keys, key.bytes);
  const query = tileOf("query", kernel.query, columns, features, queries, value.at + value.bytes);
  const gradient = tileOf(
    "gradient",
    backward!.gradient,
    columns,
    valueFeatures,
    queries,
    query.at + 2 * query.bytes,
  );
  return { columns, key, value, query, gradient, numbers: gradient.at + 2 * gradient.bytes };
}

/** Loads the saved logarithm of each query of a turn, of base 2, and what its gradients are reduced by. */
function loadColumnNumbers(text: AttentionText, columns: number, l: string): void {
  const { logSums, products } = text.kernel.backward!;
  text.add(
    `if (lid < ${columns}) {`,
    "  const Index column = first + lid;",
    `  logs[lid] = column < ${l} ? ${text.load("logSums", logSums, "column", "0")} * ${
      text.float(LOG2E)
    } : INFINITY;`,
    `  apart[lid] = column < ${l} ? ${text.load("products", products, "column", "0")} : 0.0f;`,
    "}",
  );
}

/** Makes the weight of a key (row) and a query (column), and the gradient of their score. */
function weighColumns(text: AttentionText): string {
  const { dropout, scale } = text.kernel, at = "(j * 8 + (lane & 3) * 2 + (e & 1))";
  return `${scoreText(text, text.float(scale * LOG2E), true)}
    const float w = MMA_EXP2(scores[i][j][e] - logs[${at}]);
    const float kept = ${dropout ? text.kept("head", "column", "row") : "1.0f"};
    scores[i][j][e] = w * kept;
    ofWeights[i][j][e] = w * (ofWeights[i][j][e] * kept - apart[${at}]);`;
}
