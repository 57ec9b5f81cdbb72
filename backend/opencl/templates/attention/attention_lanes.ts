/**
 * Attention on CPU devices: a work-item takes as many queries of a head as it has vector lanes for, and
 * walks the keys in blocks. Every product is `C[rows][lanes] += A[rows][k] * B[k][lanes]`: elements of A are
 * read one by one where they lie, B is in local memory with its lanes side by side. So scores are there with
 * a key a row and a query a lane, the softmax needs no sums across lanes, and keys and values are never
 * transposed. Gradients of keys and values are computed the same way with a key a lane.
 */
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { Planned, Template } from "../parts/template.ts";
import { AttentionText } from "./attention_text.ts";
import {
  BLOCK,
  blockRows,
  type Broadcast,
  ceilTo,
  keptBlock,
  maskBlock,
  openBlocks,
  packLanes,
  placeItem,
  product,
  storeLanes,
  tileFor,
  transposed,
} from "./lanes_text.ts";

/** A work-item takes the rows that vectors have lanes for: it fits every device. */
export const lanesAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "lanes attention",
  matches: (kernel, target) => ({ kernel, target }),
  emit: ({ kernel, target }) => ({ kernels: kernelsOf(kernel, target.narrowEnd) }),
  workItems: ({ kernel }) =>
    headsOf(kernel) * Math.ceil(kernel.queries / tileFor(kernel.queries).width),
};

function kernelsOf(kernel: AttentionKernel, narrowEnd: number): Generated[] {
  if (!kernel.backward) return [forward(kernel, narrowEnd)];
  const kernels: Generated[] = [];
  if (kernel.stored.includes(0)) kernels.push(queryGradient(kernel, narrowEnd));
  if (kernel.stored.some((output) => output > 0)) kernels.push(keyGradient(kernel, narrowEnd));
  return kernels;
}

function forward(kernel: AttentionKernel, narrowEnd: number): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal } = kernel;
  const text = new AttentionText(kernel), tile = tileFor(queries);
  const { vectors, rows, width } = tile;
  const lanes = Array.from({ length: vectors }, (_, v) => v);
  const blocks = Math.ceil(queries / width);
  placeItem(text, blocks, tile);
  const [l, s] = [text.index(queries), text.index(keys)];
  text.placeMatrix("query", kernel.query);
  text.placeMatrix("key", kernel.key);
  text.placeMatrix("value", kernel.value);
  if (kernel.mask) text.placeMatrix("mask", kernel.mask.at);
  packLanes(
    text,
    "query",
    kernel.query,
    features,
    tile,
    "lane0",
    l,
    ` * ${text.float(kernel.scale)}`,
  );
  text.add(
    `local float sb[${BLOCK * width}], acc[${ceilTo(valueFeatures, rows) * width}];`,
    ...(dropout ? [`local float kb[${BLOCK * width}];`] : []),
    `for (int k = 0; k < ${ceilTo(valueFeatures, rows) * vectors}; ++k) vstore16(0.0f, k, acc);`,
    ...lanes.map((v) => `float16 m${v} = -INFINITY, l${v} = 0.0f;`),
  );
  const key = blockRows(text, "key", kernel.key, features);
  const value = blockRows(text, "value", kernel.value, valueFeatures);
  const end = isCausal ? `min(${s}, lane0 + ${width})` : s;
  openBlocks(text, "0", end);
  text.add(
    ...key.fill,
    ...value.fill,
    ...product(tile, "sb", key.rows, "query", "count", "count - 1", `${features}`, "zero"),
    ...maskBlock(text, tile, false),
  );
  for (const v of lanes) {
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
  for (const v of lanes) {
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - low${v});`,
      `  l${v} += w${v};`,
      `  vstore16(w${v}${
        dropout ? ` * vload16(${v}, kb + r * ${width})` : ""
      }, ${v}, sb + r * ${width});`,
    );
  }
  text.add(
    "}",
    ...product(
      tile,
      "acc",
      transposed(value.rows),
      "sb",
      `${valueFeatures}`,
      `${valueFeatures - 1}`,
      "count",
      "scale",
    ),
    "}",
    `local float inverse[${width}], logs[${width}];`,
  );
  for (const v of lanes) {
    text.add(
      `vstore16(select(1.0f / l${v}, (float16)0.0f, m${v} == -INFINITY), ${v}, inverse);`,
      `vstore16(select(m${v} + log_16(l${v}), (float16)INFINITY, m${v} == -INFINITY), ${v}, logs);`,
    );
  }
  storeLanes(text, 0, "acc", valueFeatures, tile, l, " * inverse[lane]");
  const logSums = text.output(1);
  if (logSums) {
    text.add(
      `for (int lane = 0; lane < ${width} && lane0 + lane < ${l}; ++lane) ${logSums}[head * ${l} + lane0 + lane] = logs[lane];`,
    );
  }
  return text.finish(headsOf(kernel) * blocks, 1, narrowEnd);
}

/** Places everything that a backward pass reads. */
function placeBackward(text: AttentionText): void {
  const { query, key, value, mask, backward } = text.kernel;
  const { gradient, logSums, products } = backward!;
  const all = { query, key, value, gradient, logSums, products, ...(mask && { mask: mask.at }) };
  for (const [name, at] of Object.entries(all)) text.placeMatrix(name, at);
}

function queryGradient(kernel: AttentionKernel, narrowEnd: number): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient, logSums, products } = kernel.backward!;
  const text = new AttentionText(kernel), tile = tileFor(queries);
  const { vectors, rows, width } = tile;
  const lanes = Array.from({ length: vectors }, (_, v) => v);
  const blocks = Math.ceil(queries / width);
  placeItem(text, blocks, tile);
  const [l, s] = [text.index(queries), text.index(keys)];
  placeBackward(text);
  packLanes(text, "query", kernel.query, features, tile, "lane0", l, ` * ${text.float(scale)}`);
  packLanes(text, "gradient", gradient, valueFeatures, tile, "lane0", l, "");
  text.add(
    `local float sb[${BLOCK * width}], db[${BLOCK * width}];`,
    `local float acc[${ceilTo(features, rows) * width}], sums[${width}], apart[${width}];`,
    ...(dropout ? [`local float kb[${BLOCK * width}];`] : []),
    `for (int k = 0; k < ${ceilTo(features, rows) * vectors}; ++k) vstore16(0.0f, k, acc);`,
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
    ...product(tile, "sb", key.rows, "query", "count", "count - 1", `${features}`, "zero"),
    ...maskBlock(text, tile, false),
    ...product(
      tile,
      "db",
      value.rows,
      "gradient",
      "count",
      "count - 1",
      `${valueFeatures}`,
      "zero",
    ),
    ...(dropout ? keptBlock(text, tile, false) : []),
    "for (int r = 0; r < count; ++r) {",
  );
  for (const v of lanes) {
    const kept = dropout ? ` * vload16(${v}, kb + r * ${width})` : "";
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - vload16(${v}, sums));`,
      `  vstore16(w${v} * (vload16(${v}, db + r * ${width})${kept} - vload16(${v}, apart)), ${v}, sb + r * ${width});`,
    );
  }
  text.add(
    "}",
    ...product(
      tile,
      "acc",
      transposed(key.rows),
      "sb",
      `${features}`,
      `${features - 1}`,
      "count",
      "add",
    ),
    "}",
  );
  storeLanes(text, 0, "acc", features, tile, l, ` * ${text.float(scale)}`);
  return text.finish(headsOf(kernel) * blocks, 1, narrowEnd);
}

function keyGradient(kernel: AttentionKernel, narrowEnd: number): Generated {
  const { queries, keys, features, valueFeatures, dropout, isCausal, scale } = kernel;
  const { gradient, logSums, products } = kernel.backward!;
  const text = new AttentionText(kernel), tile = tileFor(keys);
  const { vectors, rows, width } = tile;
  const lanes = Array.from({ length: vectors }, (_, v) => v);
  const blocks = Math.ceil(keys / width);
  placeItem(text, blocks, tile);
  const [l, s] = [text.index(queries), text.index(keys)];
  placeBackward(text);
  packLanes(text, "key", kernel.key, features, tile, "lane0", s, ` * ${text.float(scale)}`);
  packLanes(text, "value", kernel.value, valueFeatures, tile, "lane0", s, "");
  const sized = (columns: number): number => ceilTo(columns, rows);
  text.add(
    `local float sb[${BLOCK * width}], db[${BLOCK * width}];`,
    `local float keySum[${sized(features) * width}], valueSum[${sized(valueFeatures) * width}];`,
    ...(dropout ? [`local float kb[${BLOCK * width}];`] : []),
    `for (int k = 0; k < ${sized(features) * vectors}; ++k) vstore16(0.0f, k, keySum);`,
    `for (int k = 0; k < ${sized(valueFeatures) * vectors}; ++k) vstore16(0.0f, k, valueSum);`,
  );
  const query = blockRows(text, "query", kernel.query, features);
  const g = blockRows(text, "gradient", gradient, valueFeatures);
  // Queries before the first key of the lanes see none of them.
  openBlocks(text, isCausal ? `lane0 / ${BLOCK} * ${BLOCK}` : "0", l);
  text.add(
    ...query.fill,
    ...g.fill,
    ...product(tile, "sb", query.rows, "key", "count", "count - 1", `${features}`, "zero"),
    ...maskBlock(text, tile, true),
    ...product(tile, "db", g.rows, "value", "count", "count - 1", `${valueFeatures}`, "zero"),
    ...(dropout ? keptBlock(text, tile, true) : []),
    "for (int r = 0; r < count; ++r) {",
    `  const float sum = ${text.load("logSums", logSums, "(first + r)", "0")};`,
    `  const float apart = ${text.load("products", products, "(first + r)", "0")};`,
  );
  for (const v of lanes) {
    const kept = dropout ? ` * vload16(${v}, kb + r * ${width})` : "";
    text.add(
      `  const float16 w${v} = exp_16(vload16(${v}, sb + r * ${width}) - sum);`,
      `  vstore16(w${v}${kept}, ${v}, sb + r * ${width});`,
      `  vstore16(w${v} * (vload16(${v}, db + r * ${width})${kept} - apart), ${v}, db + r * ${width});`,
    );
  }
  text.add("}");
  const summed = (sum: string, a: Broadcast, b: string, columns: number): string[] =>
    product(tile, sum, transposed(a), b, `${columns}`, `${columns - 1}`, "count", "add");
  if (text.output(2)) text.add(...summed("valueSum", g.rows, "sb", valueFeatures));
  if (text.output(1)) text.add(...summed("keySum", query.rows, "db", features));
  text.add("}");
  storeLanes(text, 1, "keySum", features, tile, s, ` * ${text.float(scale)}`);
  storeLanes(text, 2, "valueSum", valueFeatures, tile, s, "");
  return text.finish(headsOf(kernel) * blocks, 1, narrowEnd);
}
