/** Pieces of the kernels whose queries (or keys) are on vector lanes: products, blocks, masks, stores. */
import type { HeadMatrix } from "../../../kernel/attention.ts";
import { type Broadcast, laneProducts, LANES, type Tile } from "../parts/lane_products.ts";
import { type AttentionText, liesAsFloats } from "./attention_text.ts";

/** Rows of a block: keys, or queries where keys are on the lanes. */
export const BLOCK = 64;

export function tileFor(length: number): Tile {
  const vectors = length <= LANES ? 1 : length <= 2 * LANES ? 2 : 4;
  return { vectors, rows: vectors === 4 ? 4 : 8, width: vectors * LANES };
}

/** The lines that compute a block: its rows times what is on the lanes, over their features. */
export function rowProducts(
  tile: Tile,
  block: string,
  rows: Broadcast,
  lanes: string,
  features: number,
): string[] {
  return laneProducts(tile, block, rows, lanes, "count", "count - 1", `${features}`, "zero");
}

/**
 * The lines that add the products of a block and of its rows to a sum of so many columns; with "scale" the
 * sum so far is multiplied by `scale0`, `scale1`, ...
 */
export function addProducts(
  tile: Tile,
  sum: string,
  { row, column, ...rows }: Broadcast,
  block: string,
  columns: number,
  start: "add" | "scale",
): string[] {
  const transposed = { ...rows, row: column, column: row };
  return laneProducts(tile, sum, transposed, block, `${columns}`, `${columns - 1}`, "count", start);
}

/** A matrix with its rows on the lanes, in local memory; floats are transposed square by square. */
export function packLanes(
  text: AttentionText,
  name: string,
  at: HeadMatrix,
  columns: number,
  tile: Tile,
  first: string,
  length: string,
  factor: string,
): void {
  const { width } = tile;
  const square = `load_transposed_16(a${at.input} + ${
    text.place(name, at, `(${first} + lane)`, "e")
  }, ${text.index(at.row)}, ${name} + e * ${width} + lane, ${width})`;
  text.local(name, columns * width);
  text.add(
    `for (int lane = 0; lane < ${width}; ++lane) {`,
    ...liesAsFloats(at) ? bySquares(columns, `${first} + lane`, length, square) : [],
    `  const int has = ${first} + lane < ${length};`,
    `  for (int e = 0; e < ${columns}; ++e) ${name}[e * ${width} + lane] = has ? ${
      text.load(name, at, `(${first} + lane)`, "e")
    } : 0.0f;`,
    "}",
    ...scaled(tile, name, columns, factor),
  );
}

/** The lines that move 16 rows at once, where there are as many, for all squares of their columns. */
function bySquares(columns: number, row: string, length: string, square: string): string[] {
  if (columns % LANES !== 0) return [];
  return [
    `  if (lane % ${LANES} == 0 && ${row} + ${LANES} <= ${length}) {`,
    `    for (int e = 0; e < ${columns}; e += ${LANES}) ${square};`,
    `    lane += ${LANES - 1};`,
    "    continue;",
    "  }",
  ];
}

/** The lines that multiply what is on the lanes by a factor, of vector `v`. */
function scaled({ vectors }: Tile, name: string, columns: number, factor: string): string[] {
  if (factor === "") return [];
  return [
    `for (int k = 0; k < ${columns * vectors}; ++k) {`,
    `  const int v = k % ${vectors};`,
    `  vstore16(vload16(k, ${name})${factor}, k, ${name});`,
    "}",
  ];
}

/** The rows of a block of a matrix: where they lie, or as floats in local memory. */
export function blockRows(
  text: AttentionText,
  name: string,
  at: HeadMatrix,
  columns: number,
): { readonly rows: Broadcast; readonly fill: string[] } {
  if (liesAsFloats(at)) {
    const row = text.index(at.row);
    return {
      rows: {
        name: `(a${at.input} + at_${name} + first * ${row})`,
        pointer: "global",
        row,
        column: "1",
      },
      fill: [],
    };
  }
  text.local(`rows_${name}`, BLOCK * columns);
  return {
    rows: { name: `rows_${name}`, pointer: "local", row: `${columns}`, column: "1" },
    fill: [
      `for (int r = 0; r < count; ++r) for (int e = 0; e < ${columns}; ++e) rows_${name}[r * ${columns} + e] = ${
        text.load(name, at, "(first + r)", "e")
      };`,
    ],
  };
}

/** Opens the loop over blocks of `BLOCK` rows: `first`, and how many there are, `count`. */
export function openBlocks(text: AttentionText, start: string, end: string): void {
  text.add(
    `for (Index first = ${start}; first < ${end}; first += ${BLOCK}) {`,
    `const int count = (int)min((Index)${BLOCK}, ${end} - first);`,
  );
}

/** Declares the head and the first element on the lanes of this work-item. */
export function placeItem(text: AttentionText, blocks: number, { width }: Tile): void {
  const n = text.index(blocks);
  text.add(
    "const Index item = get_global_id(0);",
    `const Index head = item / ${n}, lane0 = item % ${n} * ${width};`,
  );
  text.placeHead("head");
}

/** Masks a block of scores whose lanes are queries (or keys), and rows keys (or queries). */
export function maskBlock(text: AttentionText, tile: Tile, lanesAreKeys: boolean): string[] {
  const { mask, isCausal, queries, keys } = text.kernel;
  const { vectors, width } = tile;
  const lines: string[] = [];
  if (mask) {
    const length = text.index(lanesAreKeys ? keys : queries);
    const lane = `min(lane0 + lane, ${length} - 1)`, row = "(first + r)";
    const [i, j] = lanesAreKeys ? [row, lane] : [lane, row];
    lines.push(
      `for (int r = 0; r < count; ++r) for (int lane = 0; lane < ${width}; ++lane) {`,
      `  const float s = sb[r * ${width} + lane];`,
      `  sb[r * ${width} + lane] = ${text.masked("s", i, j)};`,
      "}",
    );
  }
  if (isCausal) {
    const beyond = lanesAreKeys ? `first < lane0 + ${width}` : "first + count > lane0";
    lines.push(`if (${beyond}) for (int r = 0; r < count; ++r) {`);
    for (let v = 0; v < vectors; v++) {
      lines.push(
        `  { const int16 lane = (int16)((int)(lane0 - first) + ${v * LANES} - r) + lanes16();`,
        `  const float16 s = vload16(${v}, sb + r * ${width});`,
        `  vstore16(select((float16)(-INFINITY), s, lane ${
          lanesAreKeys ? "<=" : ">="
        } 0), ${v}, sb + r * ${width}); }`,
      );
    }
    lines.push("}");
  }
  return lines;
}

/** Fills `kb` with what the weights of a block are multiplied by. */
export function keptBlock(text: AttentionText, { width }: Tile, lanesAreKeys: boolean): string[] {
  const [i, j] = lanesAreKeys ? ["first + r", "lane0 + lane"] : ["lane0 + lane", "first + r"];
  const kept = text.keptLanes(lanesAreKeys ? "columns" : "rows", "head", i, j);
  return [
    `for (int r = 0; r < count; ++r) for (int lane = 0; lane < ${width}; lane += ${LANES})`,
    `  vstore16(${kept}, 0, kb + r * ${width} + lane);`,
  ];
}

/** Stores a transposed sum: a row for each lane; floats are transposed square by square. */
export function storeLanes(
  text: AttentionText,
  output: number,
  sum: string,
  columns: number,
  tile: Tile,
  length: string,
  factor: string,
): void {
  const { width } = tile, buffer = text.output(output);
  const row = "lane0 + lane", element = `${sum}[e * ${width} + lane]`;
  const stored = text.store(output, length, row, columns, element);
  if (stored === null) return;
  const to = `${buffer} + ((Index)head * ${length} + ${row}) * ${columns} + e`;
  const square = `store_transposed_16(${sum} + e * ${width} + lane, ${width}, ${to}, ${columns})`;
  const isFloat = text.kernel.outputs[text.kernel.stored.indexOf(output)]!.dtype === "float32";
  text.add(
    ...scaled(tile, sum, columns, factor),
    `for (int lane = 0; lane < ${width} && ${row} < ${length}; ++lane) {`,
    ...isFloat ? bySquares(columns, row, length, square) : [],
    `  for (int e = 0; e < ${columns}; ++e) { ${stored} }`,
    "}",
  );
}
