/**
 * Attention of half types on matrix units (tensor cores), for NVIDIA devices of compute capability 8.0 and
 * later: by `mma.sync`, or `wgmma` where a device has it and rows have 64 features. A warp takes 16 or 32 rows;
 * scores stay in registers, where those of one product are an operand of the next as they lie. Tiles travel to
 * local memory by `cp.async`, two at a time.
 *
 * - Forward: rows are queries; exponentials are of base 2, sums are float32.
 * - Gradient of queries: rows are queries; scores are computed again from the saved logarithms.
 * - Gradients of keys and values: rows are keys, so no group adds to what another one writes.
 *
 * Measured on an H200, float16, 8 x 12 heads of 1024 x 64, in us: forward 85, gradient of queries 85, of keys and
 * values 114; by `mma.sync` 99, 132 and 188. Of 128 features 192, 240 and 374.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { Planned, Template } from "../parts/template.ts";
import { attentionKernels, AttentionText } from "./attention_text.ts";
import { type Units, unitsOf } from "./attention_units.ts";
import {
  clearSums,
  copyTile,
  declareGroup,
  eachScore,
  loadRows,
  storeSums,
  type Walked,
} from "./mma_text.ts";
import {
  divideSums,
  openScores,
  overTiles,
  softmaxStep,
  storeLogSums,
  weightOf,
} from "./score_text.ts";

/** Rows of a matrix instruction. */
const ROWS = 16;
/** Work-items of a warp. */
const WARP = 32;
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
  units: Units,
  walked: readonly Walked[],
  columns: number,
  [start, end]: readonly [string, string],
  also: (first: string, turn: string) => void = () => {},
): void {
  const threads = units.warps * WARP;
  text.add(`const Index begin = ${start}, end = ${end};`);
  for (const each of walked) copyTile(text, each, `smem + ${each.at}u`, "begin", threads);
  also("begin", "0");
  text.add(
    "MMA_COMMIT();",
    `for (Index first = begin, turn = 0; first < end; first += ${columns}, turn ^= 1) {`,
    "MMA_WAIT(0);",
    ...units.arrived,
    barrier,
    `if (first + ${columns} < end) {`,
  );
  for (const each of walked) {
    const into = `smem + ${each.at}u + (uint)(turn ^ 1) * ${each.bytes}u`;
    copyTile(text, each, into, `first + ${columns}`, threads);
  }
  also(`first + ${columns}`, "(turn ^ 1)");
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
  const { queries, keys, features, valueFeatures, dropout, isCausal } = kernel;
  const text = new AttentionText(kernel), units = unitsOf(kernel, target);
  const isPaired = units.holdsRows && Math.max(features, valueFeatures) <= 64 &&
    queries >= MIN_PAIRED_QUERIES && !isCausal;
  const tiles = isPaired ? 2 : 1, rows = units.warps * tiles * ROWS;
  const query = tileOf("query", kernel.query, rows, features, queries, 0);
  const key = tileOf("key", kernel.key, COLUMNS, features, keys, query.bytes);
  const value = tileOf("value", kernel.value, COLUMNS, valueFeatures, keys, key.at + 2 * key.bytes);
  const form = { tiles, alignment: units.alignment, isReversed: isCausal };
  declareGroup(text, value.at + 2 * value.bytes, queries, rows, form);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)];
  copyTile(text, query, "smem", "row0", units.warps * WARP);
  clearSums(text, "sum", tiles, valueFeatures);
  text.add(
    `float top[${tiles}][2], total[${tiles}][2];`,
    ...overTiles(tiles, "for (int h = 0; h < 2; ++h) { top[i][h] = -INFINITY; total[i][h] = 0; }"),
  );
  if (units.holdsRows) text.add(`uint x[${tiles}][${features / 16}][4];`);
  const end = isCausal ? `min(${s}, row0 + ${rows})` : s;
  openWalk(text, units, [key, value], COLUMNS, ["0", end]);
  holdRows(text, units, [["x", "smem", features]], tiles);
  const scores = scoresOf(units, "scores", "smem", "x", "key_tile", features);
  units.score(text, [scores], tiles, COLUMNS);
  const factor = openScores(text, tiles, COLUMNS);
  softmaxStep(text, { tiles, columns: COLUMNS, valueFeatures }, factor);
  if (dropout) {
    text.add(
      ...eachScore(tiles, COLUMNS, `scores[i][j][e] *= ${text.kept("head", "row", "column")};`),
    );
  }
  const weighed = { into: "sum", scores: "scores", tile: "value_tile", features: valueFeatures };
  units.add(text, [weighed], tiles, COLUMNS);
  text.add("}");
  divideSums(text, tiles);
  storeSums(text, 0, "sum", tiles, valueFeatures, l, " * inverse[i][e >> 1]");
  storeLogSums(text, tiles, l, factor);
  return finish(text, units, Math.ceil(queries / rows), target);
}

function finish(text: AttentionText, units: Units, groups: number, target: Target): Generated {
  return text.finish(headsOf(text.kernel) * groups, units.warps * WARP, target.narrowEnd);
}

/** Scores of rows in registers, where the units hold them there, or in the tile at `rows`. */
function scoresOf(
  { holdsRows }: Units,
  into: string,
  rows: string,
  held: string,
  tile: string,
  features: number,
) {
  return { into, rows, held: holdsRows ? held : null, tile, features };
}

/** Loads the rows of a warp into registers in the first turn, where the units hold them there. */
function holdRows(
  text: AttentionText,
  { holdsRows }: Units,
  all: readonly (readonly [held: string, tile: string, features: number])[],
  tiles: number,
): void {
  if (!holdsRows) return;
  text.add("if (first == begin) {");
  for (const [held, tile, features] of all) loadRows(text, held, tile, tiles, features);
  text.add("}");
}

function queryGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient: g, logSums, products } = kernel.backward!;
  const text = new AttentionText(kernel), units = unitsOf(kernel, target);
  const rows = units.warps * ROWS, threads = units.warps * WARP;
  const query = tileOf("query", kernel.query, rows, features, queries, 0);
  const gradient = tileOf("gradient", g, rows, valueFeatures, queries, query.bytes);
  const key = tileOf("key", kernel.key, COLUMNS, features, keys, gradient.at + gradient.bytes);
  const value = tileOf("value", kernel.value, COLUMNS, valueFeatures, keys, key.at + 2 * key.bytes);
  const form = { tiles: 1, alignment: units.alignment, isReversed: isCausal };
  declareGroup(text, value.at + 2 * value.bytes, queries, rows, form);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)], gradients = `smem + ${gradient.at}u`;
  copyTile(text, query, "smem", "row0", threads);
  copyTile(text, gradient, gradients, "row0", threads);
  clearSums(text, "sum", 1, features);
  if (units.holdsRows) {
    text.add(`uint x[1][${features / 16}][4], y[1][${valueFeatures / 16}][4];`);
  }
  text.add(
    "float logs[2], apart[2];",
    "for (int h = 0; h < 2; ++h) {",
    "  const Index row = row0 + warp_row + (lane >> 2) + h * 8;",
    `  logs[h] = row < ${l} ? ${text.load("logSums", logSums, "row", "0")} * ${
      text.float(LOG2E)
    } : INFINITY;`,
    `  apart[h] = row < ${l} ? ${text.load("products", products, "row", "0")} : 0.0f;`,
    "}",
  );
  const end = isCausal ? `min(${s}, row0 + ${rows})` : s;
  openWalk(text, units, [key, value], COLUMNS, ["0", end]);
  holdRows(text, units, [["x", "smem", features], ["y", gradients, valueFeatures]], 1);
  units.score(
    text,
    [
      scoresOf(units, "scores", "smem", "x", "key_tile", features),
      scoresOf(units, "ofWeights", gradients, "y", "value_tile", valueFeatures),
    ],
    1,
    COLUMNS,
  );
  const factor = openScores(text, 1, COLUMNS);
  text.add(...eachScore(
    1,
    COLUMNS,
    `const float w = ${weightOf(factor, "logs[e >> 1]")};
    scores[i][j][e] = w * (ofWeights[i][j][e]${
      dropout ? ` * ${text.kept("head", "row", "column")}` : ""
    } - apart[e >> 1]);`,
  ));
  units.add(text, [{ into: "sum", scores: "scores", tile: "key_tile", features }], 1, COLUMNS);
  text.add("}");
  storeSums(text, 0, "sum", 1, features, l, ` * ${text.float(scale)}`);
  return finish(text, units, Math.ceil(queries / rows), target);
}

function keyGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, isCausal, scale } = kernel;
  const text = new AttentionText(kernel), units = unitsOf(kernel, target);
  const rows = units.warps * ROWS, threads = units.warps * WARP;
  const { columns, key, value, query, gradient, numbers } = keyTiles(kernel, rows);
  const form = { tiles: 1, alignment: units.alignment, isReversed: false };
  declareGroup(text, numbers + 16 * columns, keys, rows, form);
  text.placeMatrices();
  const [l, s] = [text.index(queries), text.index(keys)], values = `smem + ${value.at}u`;
  copyTile(text, key, "smem", "row0", threads);
  copyTile(text, value, values, "row0", threads);
  clearSums(text, "keySum", 1, features);
  clearSums(text, "valueSum", 1, valueFeatures);
  // Queries before the first key of the group see none of its keys.
  const start = isCausal ? `row0 / ${columns} * ${columns}` : "0";
  openWalk(
    text,
    units,
    [query, gradient],
    columns,
    [start, l],
    (first, turn) =>
      copyNumbers(text, first, `smem + ${numbers}u + (uint)${turn} * ${8 * columns}u`, columns),
  );
  text.add(
    `local const float* logs = (local const float*)(sm + ${numbers} + turn * ${8 * columns});`,
    `local const float* apart = logs + ${columns};`,
  );
  const score = (into: string, rows: string, tile: string, features: number) => ({
    into,
    rows,
    held: null,
    tile,
    features,
  });
  units.score(
    text,
    [
      score("scores", "smem", "query_tile", features),
      score("ofWeights", values, "gradient_tile", valueFeatures),
    ],
    1,
    columns,
  );
  weighColumns(text, columns);
  units.add(
    text,
    [
      { into: "valueSum", scores: "scores", tile: "gradient_tile", features: valueFeatures },
      { into: "keySum", scores: "ofWeights", tile: "query_tile", features },
    ],
    1,
    columns,
  );
  text.add("}");
  storeSums(text, 1, "keySum", 1, features, s, ` * ${text.float(scale)}`);
  storeSums(text, 2, "valueSum", 1, valueFeatures, s, "");
  return finish(text, units, Math.ceil(keys / rows), target);
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

/**
 * Starts copying the saved logarithm of each query of a turn, and what its gradients are reduced by. Those of
 * queries that are not there are 0, as are their rows: they add 0.
 */
function copyNumbers(text: AttentionText, first: string, into: string, columns: number): void {
  const { logSums, products } = text.kernel.backward!;
  text.add(
    `if (lid < ${columns}) {`,
    `  const Index column = ${first} + lid;`,
    `  const int has = column < ${text.index(text.kernel.queries)};`,
  );
  [["logSums", logSums] as const, ["products", products] as const].forEach(([name, at], k) => {
    const from = `a${at.input} + (has ? ${text.place(name, at, "column", "0")} : 0)`;
    text.add(`  MMA_COPY4(${into} + (uint)(${k * columns} + lid) * 4u, ${from}, has ? 4 : 0);`);
  });
  text.add("}");
}

/** Makes the weight of a key (row) and a query (column), and the gradient of their score. */
function weighColumns(text: AttentionText, columns: number): void {
  const { dropout } = text.kernel, at = "(j * 8 + (lane & 3) * 2 + (e & 1))";
  const factor = openScores(text, 1, columns, true);
  text.add(...eachScore(
    1,
    columns,
    `const float base2 = logs[${at}] * ${text.float(LOG2E)};
    const float w = ${weightOf(factor, "base2")};
    const float kept = ${dropout ? text.kept("head", "column", "row") : "1.0f"};
    scores[i][j][e] = w * kept;
    ofWeights[i][j][e] = w * (ofWeights[i][j][e] * kept - apart[${at}]);`,
  ));
}
