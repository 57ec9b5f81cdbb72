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
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Planned, Template } from "../parts/template.ts";
import { attentionKernels, AttentionText } from "./attention_text.ts";
import {
  addProducts,
  barrier,
  begin,
  declareSums,
  fill,
  GROUP,
  rowProducts,
  score,
  SIDE,
  sidesOf,
  storeSums,
  type Tile,
  tileAt,
  tileFor,
  type TileSide,
  unrolled,
} from "./tiles_text.ts";

/** A work-group takes a tile of rows. */
export const tilesAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "tiled attention",
  matches: (kernel, target) => target.isGpu ? { kernel, target } : null,
  emit: (plan) => attentionKernels(plan, { forward, queryGradient, keyGradient }),
  workItems: ({ kernel }) => headsOf(kernel) * Math.ceil(kernel.queries / SIDE) * GROUP,
};

function forward(kernel: AttentionKernel, target: Target): Generated {
  const { queries, keys, features, valueFeatures, isCausal, scale } = kernel;
  const text = new AttentionText(kernel);
  const tile = tileFor(kernel, target, [features]);
  const { rows, columns } = tile, tm = rows / SIDE, tn = columns / SIDE;
  const { query, key, value } = sidesOf(kernel);
  begin(text, tile, queries, [query]);
  text.placeMatrices();
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
  );
  softmaxStep(text, tile);
  fill(text, "walked", value, columns, "first", s);
  text.add(barrier);
  addProducts(text, tile, "sum", valueFeatures);
  text.add("}");
  divideSums(text, tile);
  storeSums(text, tile, 0, "sum", valueFeatures, l, " * inverse[i]");
  storeLogSums(text, tile, l);
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), GROUP, target.narrowEnd);
}

/**
 * A score as it was compared with others: a difference would be joined with the product by the scale, which
 * then is not rounded. No compiler sees that this product is one by 1.
 */
function rounded(text: AttentionText, score: string): string {
  return `${score} * ${text.float(1)}`;
}

/** The weight and the gradient of the score of an element: `w`, `kept` and `d`. */
function weigh(text: AttentionText, i: string, j: string): string {
  const { backward, dropout, scale, queries } = text.kernel;
  const { logSums, products } = backward!;
  const row = `min(${i}, ${text.index(queries)} - 1)`;
  return `const float v = scores[i][j] * ${text.float(scale)}; ` +
    `const float w = exp(${rounded(text, `(${score(text, "v", i, j)})`)} - ${
      text.load("logSums", logSums, row, "0")
    }); ` +
    `const float kept = ${dropout ? text.kept("head", i, j) : "1.0f"}; ` +
    `const float d = w * (ofWeights[i][j] * kept - ${text.load("products", products, row, "0")});`;
}

/**
 * Turns scores into weights in local memory, against the largest score of a row so far; sums are scaled
 * down where that has grown.
 */
function softmaxStep(text: AttentionText, { rows, columns }: Tile): void {
  const { dropout, valueFeatures } = text.kernel, tm = rows / SIDE, tn = columns / SIDE;
  const i = `(row0 + ty + i * ${SIDE})`;
  text.add(
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
        `for (int k = 0; k < ${tn}; ++k) { const float w = exp(${
          rounded(text, "scores[i][k]")
        } - low); total[i] += w; ` +
        `tile[(ty + i * ${SIDE}) * ${columns + 1} + tx + k * ${SIDE}] = w${
          dropout ? ` * ${text.kept("head", i, `(first + tx + k * ${SIDE})`)}` : ""
        }; }`,
    ),
  );
}

/** Declares `inverse`, what a row's sum is multiplied by: 0 where a query may look at no key. */
function divideSums(text: AttentionText, { rows }: Tile): void {
  const tm = rows / SIDE;
  text.add(
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
}

/** Stores the logarithms of the sums of exponentials, where they are read. */
function storeLogSums(text: AttentionText, { rows }: Tile, l: string): void {
  const logSums = text.output(1);
  if (!logSums) return;
  text.add(
    ...unrolled(
      rows / SIDE,
      1,
      `const Index row = row0 + ty + i * ${SIDE}; if (tx == 0 && row < ${l}) ` +
        `${logSums}[(Index)head * ${l} + row] = top[i] == -INFINITY ? INFINITY : top[i] + log(total[i]);`,
    ),
  );
}

type TilePair = readonly [kept: TileSide, walked: TileSide];

/** A kernel of gradients: its rows, of two matrices, are kept, and those of the two others walked. */
interface GradientKernel {
  readonly text: AttentionText;
  readonly tile: Tile;
  /** Tiles kept and walked for the scores, and for the gradients of the weights. */
  readonly pairs: readonly [TilePair, TilePair];
  /** Numbers of a head's queries, and of its keys. */
  readonly l: string;
  readonly s: string;
}

/** Declares what a kernel of gradients keeps. */
function beginGradient(
  kernel: AttentionKernel,
  target: Target,
  rowsAre: "queries" | "keys",
): GradientKernel {
  const { features, valueFeatures } = kernel, text = new AttentionText(kernel);
  const tile = tileFor(kernel, target, [features, valueFeatures]);
  const { query, key, value, gradient } = sidesOf(kernel);
  const pairs: GradientKernel["pairs"] = rowsAre === "queries"
    ? [[query, key], [gradient, value]]
    : [[key, query], [value, gradient]];
  begin(text, tile, kernel[rowsAre], pairs.map(([kept]) => kept));
  text.placeMatrices();
  const [l, s] = [text.index(kernel.queries), text.index(kernel.keys)];
  const length = rowsAre === "queries" ? l : s;
  for (const [kept] of pairs) fill(text, `kept_${kept.name}`, kept, tile.rows, "row0", length);
  return { text, tile, pairs, l, s };
}

/** The products of kept and of walked rows: `scores`, and `ofWeights`, the gradients of the weights. */
function gradientProducts({ text, tile, pairs }: GradientKernel, length: string): void {
  pairs.forEach(([kept, walked], k) => {
    if (k > 0) text.add(barrier);
    fill(text, "walked", walked, tile.columns, "first", length);
    text.add(barrier);
    rowProducts(text, tile, k === 0 ? "scores" : "ofWeights", kept);
  });
}

function queryGradient(kernel: AttentionKernel, target: Target): Generated {
  const { queries, features, isCausal, scale } = kernel;
  const begun = beginGradient(kernel, target, "queries"), { text, tile, l, s } = begun;
  const { rows, columns } = tile, [[, key]] = begun.pairs;
  declareSums(text, tile, "sum", features);
  text.add(
    `const Index end = ${isCausal ? `min(${s}, row0 + ${rows})` : s};`,
    `for (Index first = 0; first < end; first += ${columns}) {`,
    barrier,
  );
  gradientProducts(begun, s);
  const [i, j] = [`(row0 + ty + i * ${SIDE})`, `(first + tx + j * ${SIDE})`];
  text.add(
    ...unrolled(
      rows / SIDE,
      columns / SIDE,
      `${weigh(text, i, j)} ${tileAt(columns)} = d;`,
    ),
    barrier,
  );
  fill(text, "walked", key, columns, "first", s);
  text.add(barrier);
  addProducts(text, tile, "sum", features);
  text.add("}");
  storeSums(text, tile, 0, "sum", features, l, ` * ${text.float(scale)}`);
  return text.finish(headsOf(kernel) * Math.ceil(queries / rows), GROUP, target.narrowEnd);
}

function keyGradient(kernel: AttentionKernel, target: Target): Generated {
  const { keys, features, valueFeatures, isCausal, scale } = kernel;
  const begun = beginGradient(kernel, target, "keys"), { text, tile, l, s } = begun;
  const { rows, columns } = tile, tm = rows / SIDE, tn = columns / SIDE;
  const [[, query]] = begun.pairs;
  declareSums(text, tile, "keySum", features);
  declareSums(text, tile, "valueSum", valueFeatures);
  // Queries before the first key of the group see none of its keys.
  const start = isCausal ? `row0 / ${columns} * ${columns}` : "0";
  text.add(`for (Index first = ${start}; first < ${l}; first += ${columns}) {`, barrier);
  gradientProducts(begun, l);
  // Rows are keys here, and columns queries.
  const [i, j] = [`(first + tx + j * ${SIDE})`, `(row0 + ty + i * ${SIDE})`];
  const place = tileAt(columns);
  text.add(
    ...unrolled(tm, tn, `${weigh(text, i, j)} ${place} = w * kept; scores[i][j] = d;`),
    barrier,
  );
  addProducts(text, tile, "valueSum", valueFeatures);
  text.add(barrier, ...unrolled(tm, tn, `${place} = scores[i][j];`));
  fill(text, "walked", query, columns, "first", l);
  text.add(barrier);
  addProducts(text, tile, "keySum", features);
  text.add("}");
  storeSums(text, tile, 1, "keySum", features, s, ` * ${text.float(scale)}`);
  storeSums(text, tile, 2, "valueSum", valueFeatures, s, "");
  return text.finish(headsOf(kernel) * Math.ceil(keys / rows), GROUP, target.narrowEnd);
}
