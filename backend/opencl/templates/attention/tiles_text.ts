/** Pieces of the kernels of attention on tiles in local memory: what is copied there, products, sums. */
import type { AttentionKernel, HeadMatrix } from "../../../kernel/attention.ts";
import type { Target } from "../../../kernel/target.ts";
import type { AttentionText } from "./attention_text.ts";

/** Items of a group along each side of a tile. */
export const SIDE = 16, GROUP = SIDE * SIDE;
/** Rows and columns of a tile, the fastest first. */
const TILES = [[64, 64], [64, 32], [32, 32], [32, 16], [16, 16]] as const;

/** Number of rows kept, and of rows walked at a time. */
export interface Tile {
  readonly rows: number;
  readonly columns: number;
}

/** The matrices of a pass: those whose rows a group keeps, and those that it walks. */
export interface TileSide {
  readonly name: string;
  readonly at: HeadMatrix;
  readonly features: number;
}

/** The largest tile whose local memory a group may have. */
export function tileFor(kernel: AttentionKernel, target: Target, kept: readonly number[]): Tile {
  const longest = Math.max(kernel.features, kernel.valueFeatures);
  const fits = ([rows, columns]: readonly [number, number]): boolean => {
    const floats = kept.reduce((sum, n) => sum + rows * (n + 1), 0) + columns * (longest + 1) +
      rows * (columns + 1) + rows * (SIDE + 1);
    return 4 * floats <= target.localMemory;
  };
  const [rows, columns] = TILES.find(fits) ?? TILES.at(-1)!;
  return { rows, columns };
}

/** The matrices of a kernel; `gradient` only of a backward pass. */
export function sidesOf(
  { query, key, value, backward, features, valueFeatures }: AttentionKernel,
): Record<"query" | "key" | "value" | "gradient", TileSide> {
  const gradient = backward?.gradient ?? value;
  return {
    query: { name: "query", at: query, features },
    key: { name: "key", at: key, features },
    value: { name: "value", at: value, features: valueFeatures },
    gradient: { name: "gradient", at: gradient, features: valueFeatures },
  };
}

/** Declares what every kernel has: where the group is, the head, the first row, local memory. */
export function begin(
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
export function fill(
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

export const barrier = "barrier(CLK_LOCAL_MEM_FENCE);";

/** The tile of products of kept rows and walked rows, over their features: `result[i][j]`. */
export function rowProducts(
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
export function addProducts(
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

/** A statement for each element `[i][j]` of an item's tile. */
export function unrolled(tm: number, tn: number, statement: string): string[] {
  return [
    "#pragma unroll",
    `for (int i = 0; i < ${tm}; ++i) {`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${tn}; ++j) { ${statement} }`,
    "}",
  ];
}

/** Declares the sums of the rows of a group, and clears them. */
export function declareSums(
  text: AttentionText,
  { rows }: Tile,
  sum: string,
  features: number,
): void {
  const tm = rows / SIDE, parts = Math.ceil(features / SIDE);
  text.add(`float ${sum}[${tm}][${parts}];`, ...unrolled(tm, parts, `${sum}[i][j] = 0.0f;`));
}

/** Stores the sums of a group's rows, each times `factor`, in which `i` is the row of the item. */
export function storeSums(
  text: AttentionText,
  { rows }: Tile,
  output: number,
  sum: string,
  features: number,
  length: string,
  factor: string,
): void {
  const stored = text.store(output, length, "row", features, `${sum}[i][j]${factor}`);
  if (stored === null) return;
  text.add(
    ...unrolled(
      rows / SIDE,
      Math.ceil(features / SIDE),
      `const Index row = row0 + ty + i * ${SIDE}; const int e = tx + j * ${SIDE}; ` +
        `if (row < ${length} && e < ${features}) { ${stored} }`,
    ),
  );
}

/** The score of an element of the tile: -INFINITY where the query may not look. */
export function score(text: AttentionText, value: string, i: string, j: string): string {
  const { isCausal, queries, keys } = text.kernel;
  const inside = `${i} < ${text.index(queries)} && ${j} < ${text.index(keys)}`;
  return `${inside}${isCausal ? ` && ${j} <= ${i}` : ""} ? ${text.masked(value, i, j)} : -INFINITY`;
}

/** The element of the tile in local memory that is the item's `[i][j]`. */
export function tileAt(columns: number): string {
  return `tile[(ty + i * ${SIDE}) * ${columns + 1} + tx + j * ${SIDE}]`;
}
