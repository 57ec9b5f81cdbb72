/**
 * Attention on CPU devices: a work-item takes as many queries of a head as it has vector lanes for, and
 * walks the keys in blocks. Every product is `C[rows][lanes] += A[rows][k] * B[k][lanes]`: elements of A are
 * read one by one where they lie, B is in local memory with its lanes side by side. So scores are there with
 * a key a row and a query a lane, the softmax needs no sums across lanes, and keys and values are never
 * transposed. Gradients of keys and values are computed the same way with a key a lane.
 */
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Generated } from "../../codegen/generated.ts";
import { ceilTo, laneProducts, LANES, type Tile } from "../parts/lane_products.ts";
import { type Planned, single, type Template } from "../parts/template.ts";
import { attentionKernels, AttentionText } from "./attention_text.ts";
import {
  addProducts,
  BLOCK,
  blockRows,
  keptBlock,
  maskBlock,
  openBlocks,
  packLanes,
  placeItem,
  rowProducts,
  storeLanes,
  tileFor,
} from "./lanes_text.ts";

/** A work-item takes the rows that vectors have lanes for: it fits every device. */
export const lanesAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "lanes attention",
  matches: (kernel, target) => ({ kernel, target }),
  emit: (plan) =>
    takesHeads(plan)
      ? single(headGradients(plan.kernel, plan.target))
      : attentionKernels(plan, { forward, queryGradient, keyGradient }),
  workItems: ({ kernel }) =>
    headsOf(kernel) * Math.ceil(kernel.queries / tileFor(kernel.queries).width),
};

/** No core has so much more work than the others that computing scores once does not make up for it. */
const MAX_IMBALANCE = 1.25;

/** True when a work-item computes all gradients of a head: float32, rows of whole vectors. */
function takesHeads({ kernel, target }: Planned<AttentionKernel>): boolean {
  const { stored, outputs, features, isInterleaved } = kernel, heads = headsOf(kernel);
  const turns = Math.ceil(heads / target.computeUnits);
  const tile = tileFor(kernel.keys), columns = features + kernel.valueFeatures;
  const floats = tile.width * (2 * columns + features + 3 * BLOCK) + BLOCK * (columns + features);
  return kernel.backward !== null && stored.includes(0) && stored.length > 1 && !isInterleaved &&
    !target.isGpu && 4 * floats <= target.localMemory &&
    outputs[stored.indexOf(0)]!.dtype === "float32" && features % LANES === 0 &&
    turns * target.computeUnits <= MAX_IMBALANCE * heads;
}

/** A kernel with queries, or keys, on the lanes. */
interface LaneKernel {
  readonly text: AttentionText;
  readonly tile: Tile;
  /** The vectors of a tile, by number. */
  readonly vectors: readonly number[];
  /** Work-items, each a group of its own. */
  readonly items: number;
  /** Numbers of a head's queries, and of its keys. */
  readonly l: string;
  readonly s: string;
}

function beginLanes(kernel: AttentionKernel, lanesAre: "queries" | "keys"): LaneKernel {
  const text = new AttentionText(kernel), tile = tileFor(kernel[lanesAre]);
  const blocks = Math.ceil(kernel[lanesAre] / tile.width);
  placeItem(text, blocks, tile);
  const [l, s] = [text.index(kernel.queries), text.index(kernel.keys)];
  text.placeMatrices();
  const vectors = Array.from({ length: tile.vectors }, (_, v) => v);
  return { text, tile, vectors, items: headsOf(kernel) * blocks, l, s };
}

function forward(kernel: AttentionKernel, target: Target): Generated {
  const { features, valueFeatures, dropout, isCausal, scale } = kernel;
  const begun = beginLanes(kernel, "queries"), { text, tile, vectors, l, s } = begun;
  const { width } = tile, padded = ceilTo(valueFeatures, tile.rows);
  packLanes(text, "query", kernel.query, features, tile, "lane0", l, ` * ${text.float(scale)}`);
  text.add(
    `local float sb[${BLOCK * width}], acc[${padded * width}];`,
    ...(dropout ? [`local float kb[${BLOCK * width}];`] : []),
    `for (int k = 0; k < ${padded * tile.vectors}; ++k) vstore16(0.0f, k, acc);`,
    ...vectors.map((v) => `float16 m${v} = -INFINITY, l${v} = 0.0f;`),
  );
  const key = blockRows(text, "key", kernel.key, features);
  const value = blockRows(text, "value", kernel.value, valueFeatures);
  openBlocks(text, "0", isCausal ? `min(${s}, lane0 + ${width})` : s);
  text.add(
    ...key.fill,
    ...value.fill,
    ...rowProducts(tile, "sb", key.rows, "query", features),
    ...maskBlock(text, tile, false),
  );
  softmaxStep(begun);
  text.add(...addProducts(tile, "acc", value.rows, "sb", valueFeatures, "scale"), "}");
  divideSums(begun);
  storeLanes(text, 0, "acc", valueFeatures, tile, l, " * vload16(v, inverse)");
  storeLogSums(begun);
  return text.finish(begun.items, 1, target.narrowEnd);
}

/**
 * Turns a block of scores into weights, against the largest score of a query so far; `scale0`, ... is what
 * the sums so far are multiplied by where that has grown.
 */
function softmaxStep({ text, tile, vectors }: LaneKernel): void {
  const { width } = tile, { dropout } = text.kernel;
  for (const v of vectors) {
    text.add(
      `float16 top${v} = m${v};`,
      "for (int r = 0; r < count; ++r) {",
      `  const float16 s = vload16(${v}, sb + r * ${width});`,
      `  top${v} = select(top${v}, s, (s > top${v}) | (s != s));`,
      "}",
      // Where nothing was seen yet the largest score is no number to subtract.
      `const float16 low${v} = select(top${v}, (float16)0.0f, top${v} == -INFINITY);`,
      `const float16 scale${v} = exp_16(m${v} - low${v});`,
      `m${v} = top${v}; l${v} *= scale${v};`,
    );
  }
  if (dropout) text.add(...keptBlock(text, tile, false));
  text.add("for (int r = 0; r < count; ++r) {");
  for (const v of vectors) {
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - low${v});`,
      `  l${v} += w${v};`,
      `  vstore16(w${v}${keptAt(text, tile, v)}, ${v}, sb + r * ${width});`,
    );
  }
  text.add("}");
}

/** Factor of a weight of row `r`, where weights are dropped. */
function keptAt({ kernel }: AttentionText, { width }: Tile, v: number): string {
  return kernel.dropout ? ` * vload16(${v}, kb + r * ${width})` : "";
}

/** Declares what the sums of a query are multiplied by, 0 where it may look at no key, and its `logs`. */
function divideSums({ text, tile: { width }, vectors }: LaneKernel): void {
  text.add(`local float inverse[${width}], logs[${width}];`);
  for (const v of vectors) {
    text.add(
      `vstore16(select(1.0f / l${v}, (float16)0.0f, m${v} == -INFINITY), ${v}, inverse);`,
      `vstore16(select(m${v} + log_16(l${v}), (float16)INFINITY, m${v} == -INFINITY), ${v}, logs);`,
    );
  }
}

/** Stores the logarithms of the sums of exponentials, where they are read. */
function storeLogSums({ text, tile: { width }, l }: LaneKernel): void {
  const logSums = text.output(1);
  if (!logSums) return;
  text.add(
    `for (int lane = 0; lane < ${width} && lane0 + lane < ${l}; ++lane) ${logSums}[head * ${l} + lane0 + lane] = logs[lane];`,
  );
}

function queryGradient(kernel: AttentionKernel, target: Target): Generated {
  const { features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient, logSums, products } = kernel.backward!;
  const { text, tile, vectors, items, l, s } = beginLanes(kernel, "queries");
  const { width } = tile, padded = ceilTo(features, tile.rows);
  packLanes(text, "query", kernel.query, features, tile, "lane0", l, ` * ${text.float(scale)}`);
  packLanes(text, "gradient", gradient, valueFeatures, tile, "lane0", l, "");
  text.add(
    `local float sb[${BLOCK * width}], db[${BLOCK * width}];`,
    `local float acc[${padded * width}], sums[${width}], apart[${width}];`,
    ...(dropout ? [`local float kb[${BLOCK * width}];`] : []),
    `for (int k = 0; k < ${padded * tile.vectors}; ++k) vstore16(0.0f, k, acc);`,
    `for (int lane = 0; lane < ${width}; ++lane) {`,
    `  const int has = lane0 + lane < ${l};`,
    `  sums[lane] = has ? ${text.load("logSums", logSums, "(lane0 + lane)", "0")} : INFINITY;`,
    `  apart[lane] = has ? ${text.load("products", products, "(lane0 + lane)", "0")} : 0.0f;`,
    "}",
  );
  const key = blockRows(text, "key", kernel.key, features);
  const value = blockRows(text, "value", kernel.value, valueFeatures);
  openBlocks(text, "0", isCausal ? `min(${s}, lane0 + ${width})` : s);
  text.add(
    ...key.fill,
    ...value.fill,
    ...rowProducts(tile, "sb", key.rows, "query", features),
    ...maskBlock(text, tile, false),
    ...rowProducts(tile, "db", value.rows, "gradient", valueFeatures),
    ...(dropout ? keptBlock(text, tile, false) : []),
    "for (int r = 0; r < count; ++r) {",
  );
  for (const v of vectors) {
    const kept = keptAt(text, tile, v);
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - vload16(${v}, sums));`,
      `  vstore16(w${v} * (vload16(${v}, db + r * ${width})${kept} - vload16(${v}, apart)), ${v}, sb + r * ${width});`,
    );
  }
  text.add("}", ...addProducts(tile, "acc", key.rows, "sb", features, "add"), "}");
  storeLanes(text, 0, "acc", features, tile, l, ` * ${text.float(scale)}`);
  return text.finish(items, 1, target.narrowEnd);
}

function keyGradient(kernel: AttentionKernel, target: Target): Generated {
  const begun = beginLanes(kernel, "keys");
  keyTile(begun, null);
  return begun.text.finish(begun.items, 1, target.narrowEnd);
}

/**
 * All gradients of a head by one work-item, which computes scores and their gradients once, not for the
 * queries and for the keys. Those of queries are added up where they are stored, tile by tile of keys.
 */
function headGradients(kernel: AttentionKernel, target: Target): Generated {
  const text = new AttentionText(kernel), tile = tileFor(kernel.keys);
  text.add("const Index head = get_global_id(0);");
  text.placeHead("head");
  const [l, s] = [text.index(kernel.queries), text.index(kernel.keys)];
  text.placeMatrices();
  text.add(`for (Index lane0 = 0; lane0 < ${s}; lane0 += ${tile.width}) {`);
  const vectors = Array.from({ length: tile.vectors }, (_, v) => v);
  keyTile({ text, tile, vectors, items: headsOf(kernel), l, s }, queryRows(text, tile, l, s));
  text.add("}");
  return text.finish(headsOf(kernel), 1, target.narrowEnd);
}

/** Statements that add up queries' gradients, behind a block of scores' gradients. */
function queryRows(text: AttentionText, tile: Tile, l: string, s: string): string[] {
  const { features, key, scale } = text.kernel, { width } = tile;
  text.local("keyRows", width * features);
  text.local("queryRows", BLOCK * features);
  text.add(
    `for (int r = 0; r < ${width}; ++r) for (int e = 0; e < ${features}; ++e)`,
    `  keyRows[r * ${features} + e] = lane0 + r < ${s} ? ${text.float(scale)} * ${
      text.load("key", key, `(lane0 + r)`, "e")
    } : 0.0f;`,
  );
  const vectors = [4, 3, 2, 1].find((n) => features / LANES % n === 0)!;
  const rows = `${text.output(0)} + ${text.placeRow(l, "first", features)}`;
  return [
    `for (int k = 0; k < count * ${features / LANES}; ++k)`,
    `  vstore16(lane0 == 0 ? (float16)0.0f : vload16(k, ${rows}), k, queryRows);`,
    `for (int j = 0; j < ${features}; j += ${vectors * LANES}) {`,
    ...laneProducts(
      { vectors, rows: vectors > 2 ? 4 : 8, width: features },
      "queryRows + j",
      { name: "db", pointer: "local", row: `${width}`, column: "1" },
      "keyRows + j",
      "count",
      "count - 1",
      `(int)min((Index)${width}, ${s} - lane0)`,
      "add",
    ),
    "}",
    `for (int k = 0; k < count * ${
      features / LANES
    }; ++k) vstore16(vload16(k, queryRows), k, ${rows});`,
  ];
}

/** The gradients of the keys on the lanes, and of their values; `behind` follows each block of queries. */
function keyTile(
  { text, tile, vectors, l, s }: LaneKernel,
  behind: readonly string[] | null,
): void {
  const { kernel } = text, { features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient, logSums, products } = kernel.backward!, { width } = tile;
  packLanes(text, "key", kernel.key, features, tile, "lane0", s, ` * ${text.float(scale)}`);
  packLanes(text, "value", kernel.value, valueFeatures, tile, "lane0", s, "");
  const sums = { keySum: features, valueSum: valueFeatures };
  for (const block of ["sb", "db", ...(dropout ? ["kb"] : [])]) text.local(block, BLOCK * width);
  for (const [name, columns] of Object.entries(sums)) {
    const padded = ceilTo(columns, tile.rows);
    text.local(name, padded * width);
    text.add(`for (int k = 0; k < ${padded * tile.vectors}; ++k) vstore16(0.0f, k, ${name});`);
  }
  const query = blockRows(text, "query", kernel.query, features);
  const g = blockRows(text, "gradient", gradient, valueFeatures);
  // Queries before the first key of the lanes see none of them.
  openBlocks(text, isCausal ? `lane0 / ${BLOCK} * ${BLOCK}` : "0", l);
  text.add(
    ...query.fill,
    ...g.fill,
    ...rowProducts(tile, "sb", query.rows, "key", features),
    ...maskBlock(text, tile, true),
    ...rowProducts(tile, "db", g.rows, "value", valueFeatures),
    ...(dropout ? keptBlock(text, tile, true) : []),
    "for (int r = 0; r < count; ++r) {",
    `  const float sum = ${text.load("logSums", logSums, "(first + r)", "0")};`,
    `  const float apart = ${text.load("products", products, "(first + r)", "0")};`,
  );
  for (const v of vectors) {
    const kept = keptAt(text, tile, v);
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - sum);`,
      `  vstore16(w${v}${kept}, ${v}, sb + r * ${width});`,
      `  vstore16(w${v} * (vload16(${v}, db + r * ${width})${kept} - apart), ${v}, db + r * ${width});`,
    );
  }
  text.add("}");
  if (text.output(2)) {
    text.add(...addProducts(tile, "valueSum", g.rows, "sb", valueFeatures, "add"));
  }
  if (text.output(1)) text.add(...addProducts(tile, "keySum", query.rows, "db", features, "add"));
  text.add(...behind ?? [], "}");
  storeLanes(text, 1, "keySum", features, tile, s, ` * ${text.float(scale)}`);
  storeLanes(text, 2, "valueSum", valueFeatures, tile, s, "");
}
