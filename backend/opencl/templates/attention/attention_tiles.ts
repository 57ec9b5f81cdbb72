/**
 * Attention on GPUs without matrix units: a work-group of 16 by 16 items takes rows (queries; keys for the
 * gradients of keys and values), and walks the columns in blocks that travel through local memory. Each
 * item has a tile of the scores and of the sums in registers. Elements of all types are floats in local
 * memory; rows there are one element longer than needed, so that neighbours are in different banks.
 *
 * This folder (`attention/`) has the templates of attention; it imports `parts/`,
 * `opencl/codegen/`, `backend/codegen/` and `kernel/`. `lists.ts` asks it with attention kernels
 * and gets plans and OpenCL C.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import { storeText } from "../../codegen/types.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Planned, Template } from "../parts/template.ts";
import { AttentionText } from "./attention_text.ts";

/** Items of a group along each side of a tile. */
const SIDE = 16, GROUP = SIDE * SIDE;
/** Rows and columns of a tile, the fastest first. */
const TILES = [[64, 64], [64, 32], [32, 32], [32, 16], [16, 16]] as const;

interface Tile {
  readonly rows: number;
  readonly columns: number;
}

/** The matrices of a pass: those whose rows a group keeps, and those that it walks. */
interface TileSide {
  readonly name: string;
  readonly at: HeadMatrix;
  readonly features: number;
}

/** A work-group takes a tile of rows. */
export const tilesAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "tiled attention",
  matches: (kernel, target) => target.isGpu ? { kernel, target } : null,
  emit: ({ kernel, target }) => ({ kernels: kernelsOf(kernel, target) }),
  workItems: ({ kernel }) => headsOf(kernel) * Math.ceil(kernel.queries / SIDE) * GROUP,
};

function kernelsOf(kernel: AttentionKernel, target: Target): Generated[] {
  if (!kernel.backward) return [forward(kernel, target)];
  const kernels: Generated[] = [];
  if (kernel.stored.includes(0)) kernels.push(queryGradient(kernel, target));
  if (kernel.stored.some((output) => output > 0)) kernels.push(keyGradient(kernel, target));
  return kernels;
}

/** The largest tile whose local memory a group may have. */
function tileFor(kernel: AttentionKernel, target: Target, kept: readonly number[]): Tile {
  const longest = Math.max(kernel.features, kernel.valueFeatures);
  const fits = ([rows, columns]: readonly [number, number]): boolean => {
    const floats = kept.reduce((sum, n) => sum + rows * (n + 1), 0) + columns * (longest + 1) +
      rows * (columns + 1) + rows * (SIDE + 1);
    return 4 * floats <= target.localMemory;
  };
  const [rows, columns] = TILES.find(fits) ?? TILES.at(-1)!;
  return { rows, columns };
}

/** Declares what every kernel has: where the group is, the head, the first row, local memory. */
function begin(
  text: AttentionText,
  { rows, columns }: Tile,
  length: number,
  kept: readonly TileSide[],
): void {
  const { features, valueFeatures } = text.kernel;
  const n = text.index(Math.ceil(length / rows));
  text.add(
    `const int lid = get_local_id(0), tx = lid % ${SIDE}, ty = lid / ${SIDE};`,
    `const Index head = get_group_id(0) / ${n}, row0 = get_group_id(0) % ${n} * ${rows};`,
    `local float walked[${columns * (Math.max(features, valueFeatures) + 1)}];`,
    `local float tile[${rows * (columns + 1)}];`,
    ...kept.map(({ name, features }) => `local float kept_${name}[${rows * (features + 1)}];`),
  );
  text.placeHead("head");
}

/** Copies rows of a matrix to local memory; rows behind the last are zeros. */
function fill(
  text: AttentionText,
  into: string,
  { name, at, features }: TileSide,
  rows: number,
  first: string,
  length: string,
): void {
  text.add(
    `for (int t = lid; t < ${rows * features}; t += ${GROUP}) {`,
    `  const int r = t / ${features}, e = t % ${features};`,
    `  ${into}[r * ${features + 1} + e] = ${first} + r < ${length} ? ${
      text.load(name, at, `(${first} + r)`, "e")
    } : 0.0f;`,
    "}",
  );
}

const barrier = "barrier(CLK_LOCAL_MEM_FENCE);";

/** The tile of products of kept rows and walked rows, over their features: `result[i][j]`. */
function rowProducts(
  text: AttentionText,
  { rows, columns }: Tile,
  result: string,
  kept: TileSide,
): void {
  const [tm, tn] = [rows / SIDE, columns / SIDE], pitch = kept.features + 1;
  text.add(
    `float ${result}[${tm}][${tn}];`,
    ...unrolled(tm, tn, `${result}[i][j] = 0.0f;`),
    `for (int e = 0; e < ${kept.features}; ++e) {`,
    `  float x[${tm}], y[${tn}];`,
    "  #pragma unroll",
    `  for (int i = 0; i < ${tm}; ++i) x[i] = kept_${kept.name}[(ty + i * ${SIDE}) * ${pitch} + e];`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${tn}; ++j) y[j] = walked[(tx + j * ${SIDE}) * ${pitch} + e];`,
    ...unrolled(tm, tn, `${result}[i][j] = fma(x[i], y[j], ${result}[i][j]);`),
    "}",
  );
}

/** Adds the products of the tile in local memory and the walked rows to `sum[i][c]`. */
function addProducts(
  text: AttentionText,
  { rows, columns }: Tile,
  sum: string,
  features: number,
): void {
  const tm = rows / SIDE, parts = Math.ceil(features / SIDE);
  text.add(
    `for (int j = 0; j < ${columns}; ++j) {`,
    `  float x[${tm}];`,
    "  #pragma unroll",
    `  for (int i = 0; i < ${tm}; ++i) x[i] = tile[(ty + i * ${SIDE}) * ${columns + 1} + j];`,
    "  #pragma unroll",
    `  for (int c = 0; c < ${parts}; ++c) {`,
    // Items behind the last feature repeat it: what they add is not stored.
    `    const float y = walked[j * ${features + 1} + min(tx + c * ${SIDE}, ${features - 1})];`,
    "    #pragma unroll",
    `    for (int i = 0; i < ${tm}; ++i) ${sum}[i][c] = fma(x[i], y, ${sum}[i][c]);`,
    "  }",
    "}",
  );
}

function unrolled(tm: number, tn: number, statement: string): string[] {
  return [
    "#pragma unroll",
    `for (int i = 0; i < ${tm}; ++i) {`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${tn}; ++j) { ${statement} }`,
    "}",
  ];
}

function declareSums(text: AttentionText, { rows }: Tile, sum: string, features: number): void {
  const tm = rows / SIDE, parts = Math.ceil(features / SIDE);
  text.add(`float ${sum}[${tm}][${parts}];`, ...unrolled(tm, parts, `${sum}[i][j] = 0.0f;`));
}

/** Stores the sums of a group's rows, each times `factor`, in which `i` is the row of the item. */
function storeSums(
  text: AttentionText,
  { rows }: Tile,
  output: number,
  sum: string,
  features: number,
  length: string,
  factor: string,
): void {
  const buffer = text.output(output);
  if (!buffer) return;
  const { dtype } = text.kernel.outputs[text.kernel.stored.indexOf(output)]!;
  const place = `((Index)head * ${length} + row) * ${features} + e`;
  text.add(
    ...unrolled(
      rows / SIDE,
      Math.ceil(features / SIDE),
      `const Index row = row0 + ty + i * ${SIDE}; const int e = tx + j * ${SIDE}; ` +
        `if (row < ${length} && e < ${features}) { ${
          storeText(buffer, dtype, place, `${sum}[i][j]${factor}`)
        } }`,
    ),
  );
}

/** The score of an element of the tile: -INFINITY where the query may not look. */
function score(text: AttentionText, value: string, i: string, j: string): string {
  const { isCausal, queries, keys } = text.kernel;
  const inside = `${i} < ${text.index(queries)} && ${j} < ${text.index(keys)}`;
  return `${inside}${isCausal ? ` && ${j} <= ${i}` : ""} ? ${text.masked(value, i, j)} : -INFINITY`;
}

function forward(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const text = new AttentionText(kernel);
  const tile = tileFor(kernel, target, [features]);
  const { rows, columns } = tile, tm = rows / SIDE, tn = columns / SIDE;
  const query = { name: "query", at: kernel.query, features };
  const key = { name: "key", at: kernel.key, features };
  const value = { name: "value", at: kernel.value, features: valueFeatures };
  begin(text, tile, queries, [query]);
  for (const { name, at } of [query, key, value]) text.placeMatrix(name, at);
  if (kernel.mask) text.placeMatrix("mask", kernel.mask.at);
  const [l, s] = [text.index(queries), text.index(keys)];
  fill(text, "kept_query", query, rows, "row0", l);
  text.add(
    `local float joined[${rows * (SIDE + 1)}];`,
    `float top[${tm}], total[${tm}];`,
    ...unrolled(tm, 1, "top[i] = -INFINITY; total[i] = 0.0f;"),
  );
  declareSums(text, tile, "sum", valueFeatures);
  text.add(
    `const Index end = ${isCausal ? `min(${s}, row0 + ${rows})` : s};`,
    `for (Index first = 0; first < end; first += ${columns}) {`,
    barrier,
  );
  fill(text, "walked", key, columns, "first", s);
  text.add(barrier);
  rowProducts(text, tile, "scores", query);
  const [i, j] = [`(row0 + ty + i * ${SIDE})`, `(first + tx + j * ${SIDE})`];
  text.add(
    ...unrolled(
      tm,
      tn,
      `const float v = scores[i][j] * ${text.float(scale)}; scores[i][j] = ${
        score(text, "v", i, j)
      };`,
    ),
    // A NaN stays the largest.
    ...unrolled(
      tm,
      1,
      `float most = scores[i][0]; for (int k = 1; k < ${tn}; ++k) most = nan_max_float(most, scores[i][k]); ` +
        `joined[(ty + i * ${SIDE}) * ${SIDE + 1} + tx] = most;`,
    ),
    barrier,
    ...unrolled(
      tm,
      1,
      `float most = top[i]; for (int k = 0; k < ${SIDE}; ++k) most = nan_max_float(most, joined[(ty + i * ${SIDE}) * ${
        SIDE + 1
      } + k]); ` +
        `const float low = most == -INFINITY ? 0.0f : most; const float factor = exp(top[i] - low); ` +
        `top[i] = most; total[i] *= factor; ` +
        `for (int c = 0; c < ${Math.ceil(valueFeatures / SIDE)}; ++c) sum[i][c] *= factor; ` +
        `for (int k = 0; k < ${tn}; ++k) { const float w = exp(scores[i][k] - low); total[i] += w; ` +
        `tile[(ty + i * ${SIDE}) * ${columns + 1} + tx + k * ${SIDE}] = w${
          dropout ? ` * ${text.kept("head", i, `(first + tx + k * ${SIDE})`)}` : ""
        }; }`,
    ),
  );
  fill(text, "walked", value, columns, "first", s);
  text.add(barrier);
  addProducts(text, tile, "sum", valueFeatures);
  text.add(
    "}",
    barrier,
    ...unrolled(tm, 1, `joined[(ty + i * ${SIDE}) * ${SIDE + 1} + tx] = total[i];`),
    barrier,
    `float inverse[${tm}];`,
    ...unrolled(
      tm,
      1,
      `float all = 0.0f; for (int k = 0; k < ${SIDE}; ++k) all += joined[(ty + i * ${SIDE}) * ${
        SIDE + 1
      } + k]; ` +
        `inverse[i] = top[i] == -INFINITY ? 0.0f : 1.0f / all; total[i] = all;`,
    ),
  );
  storeSums(text, tile, 0, "sum", valueFeatures, l, " * inverse[i]");
  const logSums = text.output(1);
  if (logSums) {
    text.add(
      ...unrolled(
        tm,
        1,
        `const Index row = row0 + ty + i * ${SIDE}; if (tx == 0 && row < ${l}) ` +
          `${logSums}[(Index)head * ${l} + row] = top[i] == -INFINITY ? INFINITY : top[i] + log(total[i]);`,
      ),
    );
  }
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), GROUP, target.narrowEnd);
}

/** Places everything that a backward pass reads; gives its sides. */
function backwardSides(
  text: AttentionText,
): Record<"query" | "key" | "value" | "gradient", TileSide> {
  const { query, key, value, mask, backward, features, valueFeatures } = text.kernel;
  const { gradient, logSums, products } = backward!;
  const all = { query, key, value, gradient, logSums, products, ...(mask && { mask: mask.at }) };
  for (const [name, at] of Object.entries(all)) text.placeMatrix(name, at);
  return {
    query: { name: "query", at: query, features },
    key: { name: "key", at: key, features },
    value: { name: "value", at: value, features: valueFeatures },
    gradient: { name: "gradient", at: gradient, features: valueFeatures },
  };
}

/** The weight and the gradient of the score of an element: `w`, `kept` and `d`. */
function weigh(text: AttentionText, i: string, j: string): string {
  const { backward, dropout, scale, queries } = text.kernel;
  const { logSums, products } = backward!;
  const row = `min(${i}, ${text.index(queries)} - 1)`;
  return `const float v = scores[i][j] * ${text.float(scale)}; ` +
    `const float w = exp((${score(text, "v", i, j)}) - ${
      text.load("logSums", logSums, row, "0")
    }); ` +
    `const float kept = ${dropout ? text.kept("head", i, j) : "1.0f"}; ` +
    `const float d = w * (ofWeights[i][j] * kept - ${text.load("products", products, row, "0")});`;
}

function queryGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, isCausal, scale } = kernel;
  const text = new AttentionText(kernel);
  const tile = tileFor(kernel, target, [features, valueFeatures]);
  const { rows, columns } = tile, tm = rows / SIDE, tn = columns / SIDE;
  const query = { name: "query", at: kernel.query, features };
  const gradient = { name: "gradient", at: kernel.backward!.gradient, features: valueFeatures };
  begin(text, tile, queries, [query, gradient]);
  const sides = backwardSides(text);
  const [l, s] = [text.index(queries), text.index(keys)];
  fill(text, "kept_query", query, rows, "row0", l);
  fill(text, "kept_gradient", gradient, rows, "row0", l);
  declareSums(text, tile, "sum", features);
  text.add(
    `const Index end = ${isCausal ? `min(${s}, row0 + ${rows})` : s};`,
    `for (Index first = 0; first < end; first += ${columns}) {`,
    barrier,
  );
  fill(text, "walked", sides.key, columns, "first", s);
  text.add(barrier);
  rowProducts(text, tile, "scores", query);
  text.add(barrier);
  fill(text, "walked", sides.value, columns, "first", s);
  text.add(barrier);
  rowProducts(text, tile, "ofWeights", gradient);
  const [i, j] = [`(row0 + ty + i * ${SIDE})`, `(first + tx + j * ${SIDE})`];
  text.add(
    ...unrolled(
      tm,
      tn,
      `${weigh(text, i, j)} tile[(ty + i * ${SIDE}) * ${columns + 1} + tx + j * ${SIDE}] = d;`,
    ),
    barrier,
  );
  fill(text, "walked", sides.key, columns, "first", s);
  text.add(barrier);
  addProducts(text, tile, "sum", features);
  text.add("}");
  storeSums(text, tile, 0, "sum", features, l, ` * ${text.float(scale)}`);
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), GROUP, target.narrowEnd);
}

function keyGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, isCausal, scale } = kernel;
  const text = new AttentionText(kernel);
  const tile = tileFor(kernel, target, [features, valueFeatures]);
  const { rows, columns } = tile, tm = rows / SIDE, tn = columns / SIDE;
  const key = { name: "key", at: kernel.key, features };
  const value = { name: "value", at: kernel.value, features: valueFeatures };
  begin(text, tile, keys, [key, value]);
  const sides = backwardSides(text);
  const [l, s] = [text.index(queries), text.index(keys)];
  fill(text, "kept_key", key, rows, "row0", s);
  fill(text, "kept_value", value, rows, "row0", s);
  declareSums(text, tile, "keySum", features);
  declareSums(text, tile, "valueSum", valueFeatures);
  // Queries before the first key of the group see none of its keys.
  const start = isCausal ? `row0 / ${columns} * ${columns}` : "0";
  text.add(`for (Index first = ${start}; first < ${l}; first += ${columns}) {`, barrier);
  fill(text, "walked", sides.query, columns, "first", l);
  text.add(barrier);
  rowProducts(text, tile, "scores", key);
  text.add(barrier);
  fill(text, "walked", sides.gradient, columns, "first", l);
  text.add(barrier);
  rowProducts(text, tile, "ofWeights", value);
  // Rows are keys here, and columns queries.
  const [i, j] = [`(first + tx + j * ${SIDE})`, `(row0 + ty + i * ${SIDE})`];
  const place = `tile[(ty + i * ${SIDE}) * ${columns + 1} + tx + j * ${SIDE}]`;
  text.add(
    ...unrolled(tm, tn, `${weigh(text, i, j)} ${place} = w * kept; scores[i][j] = d;`),
    barrier,
  );
  addProducts(text, tile, "valueSum", valueFeatures);
  text.add(barrier, ...unrolled(tm, tn, `${place} = scores[i][j];`));
  fill(text, "walked", sides.query, columns, "first", l);
  text.add(barrier);
  addProducts(text, tile, "keySum", features);
  text.add("}");
  storeSums(text, tile, 1, "keySum", features, s, ` * ${text.float(scale)}`);
  storeSums(text, tile, 2, "valueSum", valueFeatures, s, "");
  return text.finish(headsOf(kernel) * Math.ceil(keys / rows), GROUP, target.narrowEnd);
}
