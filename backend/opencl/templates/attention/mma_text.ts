/** Pieces of the kernels of attention on matrix units: tiles in local memory, operands in registers, sums. */
import type { HeadMatrix } from "../../../kernel/attention.ts";
import type { AttentionText } from "./attention_text.ts";

/** A tile of rows of a matrix in local memory. */
export interface Walked {
  readonly name: string;
  readonly matrix: HeadMatrix;
  readonly rows: number;
  readonly features: number;
  /** Rows of a head. */
  readonly length: number;
  /** Offset in local memory, and length, in bytes. */
  readonly at: number;
  readonly bytes: number;
}

/** Elements of a piece of 16 bytes. */
const PIECE = 8;

/** Place of piece `ch` in a row of local memory: an instruction's rows use different banks. */
function swizzled(features: number, r: string, ch: string): string {
  const pieces = features / PIECE;
  if (pieces % 8 === 0) return `(${ch} ^ (${r} & 7))`;
  if (pieces % 4 === 0) return `(${ch} ^ ((${r} >> 1) & 3))`;
  return `(${ch} ^ ((${r} >> 2) & 1))`;
}

function pieceAt(tile: string, features: number, r: string, ch: string): string {
  return `${tile} + (uint)((${r}) * ${features * 2} + ${
    swizzled(features, `(${r})`, `(${ch})`)
  } * 16)`;
}

/** Form of a group. */
export interface GroupForm {
  /** Rows of instructions of a warp. */
  readonly tiles: number;
  /** Bytes at whose multiples local memory begins. */
  readonly alignment: number;
  /** True when the last rows come first. */
  readonly isReversed: boolean;
}

/** Declares local memory, where the work-item is in its group, and which head and rows the group takes. */
export function declareGroup(
  text: AttentionText,
  localBytes: number,
  length: number,
  rows: number,
  { tiles, alignment, isReversed }: GroupForm,
): void {
  const n = text.index(Math.ceil(length / rows));
  // Under a causal mask the last rows take longest: they come first.
  const place = isReversed ? `${n} - 1 - get_group_id(0) % ${n}` : `get_group_id(0) % ${n}`;
  text.add(
    `local uchar sm[${localBytes}] __attribute__((aligned(${alignment})));`,
    "const uint smem = (uint)(size_t)sm;",
    "const int lid = get_local_id(0), lane = lid & 31, warp = lid >> 5;",
    `const int warp_row = warp * ${16 * tiles};`,
    `const Index head = get_group_id(0) / ${n}, row0 = (Index)(${place}) * ${rows};`,
  );
  text.placeHead("head");
}

/** Starts copying a tile whose first row is `first`; rows behind the last are zeros. */
export function copyTile(
  text: AttentionText,
  { name, matrix, rows, features, length }: Walked,
  into: string,
  first: string,
  threads: number,
): void {
  const pieces = features / PIECE, all = rows * pieces;
  text.add(
    "#pragma unroll",
    `for (int u = 0; u < ${Math.ceil(all / threads)}; ++u) {`,
    `  const int piece = lid + u * ${threads}, r = piece / ${pieces}, ch = piece % ${pieces};`,
    ...(all % threads === 0 ? [] : [`  if (piece >= ${all}) break;`]),
    `  const int has = ${first} + r < ${text.index(length)};`,
    `  MMA_COPY16(${pieceAt(into, features, "r", "ch")}, a${matrix.input} + (has ? ${
      text.place(name, matrix, `(${first} + r)`, `ch * ${PIECE}`)
    } : 0), has ? 16 : 0);`,
    "}",
  );
}

/** Sums of a warp: 16 rows and 8 columns in four registers of each work-item. */
export function clearSums(text: AttentionText, name: string, tiles: number, columns: number): void {
  text.add(
    `float ${name}[${tiles}][${columns / 8}][4];`,
    ...nested(tiles, columns / 8, `for (int e = 0; e < 4; ++e) ${name}[i][j][e] = 0;`),
  );
}

function nested(tiles: number, parts: number, statement: string): string[] {
  return [
    "#pragma unroll",
    `for (int i = 0; i < ${tiles}; ++i) {`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${parts}; ++j) {`,
    "    #pragma unroll",
    `    ${statement}`,
    "  }",
    "}",
  ];
}

/** A statement for each score of a work-item, with its `row` and `column`. */
export function eachScore(tiles: number, columns: number, statement: string): string[] {
  return nested(
    tiles,
    columns / 8,
    `for (int e = 0; e < 4; ++e) {
    const Index row = row0 + warp_row + i * 16 + (lane >> 2) + (e >> 1) * 8;
    const Index column = first + j * 8 + (lane & 3) * 2 + (e & 1);
    ${statement}
    }`,
  );
}

/** Loads the rows of a warp from a tile, as left operands. */
export function loadRows(
  text: AttentionText,
  into: string,
  tile: string,
  tiles: number,
  features: number,
): void {
  text.add(
    "#pragma unroll",
    `for (int i = 0; i < ${tiles}; ++i) {`,
    "  #pragma unroll",
    `  for (int k = 0; k < ${features / 16}; ++k) {`,
    "    const int r = warp_row + i * 16 + (lane & 15), ch = k * 2 + (lane >> 4);",
    `    MMA_LOAD4(${into}[i][k][0], ${into}[i][k][1], ${into}[i][k][2], ${into}[i][k][3], ${
      pieceAt(tile, features, "r", "ch")
    });`,
    "  }",
    "}",
  );
}

/** Suffix of the names of helpers for the operands' type. */
export function suffixOf(text: AttentionText): string {
  return text.kernel.query.dtype === "float16" ? "F16" : "BF16";
}

function product(text: AttentionText): string {
  return `MMA_${suffixOf(text)}`;
}

function packing(text: AttentionText): string {
  return `MMA_PACK_${suffixOf(text)}`;
}

/** The statements that round 16 columns of scores to four words, for row of instructions `i`. */
function pack(text: AttentionText, into: string, scores: string): string[] {
  const packed = (h: number, j: string, e: number): string =>
    `${packing(text)}(${into}[${h}], ${scores}[${j}][${e}], ${scores}[${j}][${e + 1}]);`;
  return [
    `${packed(0, "2 * k", 0)} ${packed(1, "2 * k", 2)}`,
    `${packed(2, "2 * k + 1", 0)} ${packed(3, "2 * k + 1", 2)}`,
  ];
}

/** Declares the scores of a warp's 16 rows, rounded to the half type, as left operands. */
export function packedRows(
  text: AttentionText,
  name: string,
  scores: string,
  columns: number,
): string[] {
  return [
    `uint ${name}[${columns / 16}][4];`,
    "#pragma unroll",
    `for (int k = 0; k < ${columns / 16}; ++k) {`,
    ...pack(text, `${name}[k]`, `${scores}[0]`).map((line) => `  ${line}`),
    "}",
  ];
}

/** Adds the products of the warp's rows of one tile and the rows of another, over their features. */
export function tileProducts(
  text: AttentionText,
  into: string,
  rows: string,
  tile: string,
  features: number,
  columns: number,
): void {
  text.add(
    "#pragma unroll",
    `for (int k = 0; k < ${features / 16}; ++k) {`,
    "  uint a[4];",
    "  const int q = warp_row + (lane & 15), half_row = k * 2 + (lane >> 4);",
    `  MMA_LOAD4(a[0], a[1], a[2], a[3], ${pieceAt(rows, features, "q", "half_row")});`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${columns / 8}; j += 2) {`,
    "    const int r = j * 8 + (lane & 7) + (lane >> 4) * 8, ch = k * 2 + ((lane >> 3) & 1);",
    "    uint b[2][2];",
    `    MMA_LOAD4(b[0][0], b[0][1], b[1][0], b[1][1], ${pieceAt(tile, features, "r", "ch")});`,
    `    ${product(text)}(${into}[0][j], a, b[0]);`,
    `    ${product(text)}(${into}[0][j + 1], a, b[1]);`,
    "  }",
    "}",
  );
}

/** Adds the products of `a`, of each row of instructions, and two neighbouring operands `b`. */
function pairOfProducts(text: AttentionText, into: string, a: string, tiles: number): string[] {
  return [
    "    #pragma unroll",
    `    for (int i = 0; i < ${tiles}; ++i) {`,
    `      ${product(text)}(${into}[i][j], ${a}, b[0]);`,
    `      ${product(text)}(${into}[i][j + 1], ${a}, b[1]);`,
    "    }",
  ];
}

/** Adds the products of rows in registers and rows of a tile, over their features. */
export function rowProducts(
  text: AttentionText,
  into: string,
  rows: string,
  tile: string,
  tiles: number,
  features: number,
  columns: number,
): void {
  text.add(
    "#pragma unroll",
    `for (int k = 0; k < ${features / 16}; ++k) {`,
    "  #pragma unroll",
    `  for (int j = 0; j < ${columns / 8}; j += 2) {`,
    "    const int r = j * 8 + (lane & 7) + (lane >> 4) * 8, ch = k * 2 + ((lane >> 3) & 1);",
    "    uint b[2][2];",
    `    MMA_LOAD4(b[0][0], b[0][1], b[1][0], b[1][1], ${pieceAt(tile, features, "r", "ch")});`,
    ...pairOfProducts(text, into, `${rows}[i][k]`, tiles),
    "  }",
    "}",
  );
}

/** Adds the products of scores in registers, rounded to the half type, and the rows of a tile. */
export function addProducts(
  text: AttentionText,
  into: string,
  scores: string,
  tile: string,
  tiles: number,
  columns: number,
  features: number,
): void {
  text.add(
    "#pragma unroll",
    `for (int k = 0; k < ${columns / 16}; ++k) {`,
    `  uint p[${tiles}][4];`,
    "  #pragma unroll",
    `  for (int i = 0; i < ${tiles}; ++i) {`,
    ...pack(text, "p[i]", `${scores}[i]`).map((line) => `    ${line}`),
    "  }",
    "  #pragma unroll",
    `  for (int j = 0; j < ${features / 8}; j += 2) {`,
    "    const int r = k * 16 + (lane & 7) + ((lane >> 3) & 1) * 8, ch = j + (lane >> 4);",
    "    uint b[2][2];",
    `    MMA_LOAD4T(b[0][0], b[0][1], b[1][0], b[1][1], ${pieceAt(tile, features, "r", "ch")});`,
    ...pairOfProducts(text, into, "p[i]", tiles),
    "  }",
    "}",
  );
}

/** Stores the sums of a warp's rows, each times `factor`; two neighbours are one word. */
export function storeSums(
  text: AttentionText,
  output: number,
  sum: string,
  tiles: number,
  features: number,
  length: string,
  factor: string,
): void {
  const buffer = text.output(output);
  if (!buffer) return;
  const { dtype } = text.kernel.outputs[text.kernel.stored.indexOf(output)]!;
  const both = (e: string): string => `${sum}[i][j][${e}]${factor}`;
  const place = `${text.placeRow(length, "row", features)} + j * 8 + (lane & 3) * 2`;
  const [pack, store] = dtype === "float32"
    ? ["", `vstore2((float2)(${both("e")}, ${both("e + 1")}), 0, ${buffer} + ${place})`]
    : [
      `uint both; ${packing(text)}(both, ${both("e")}, ${both("e + 1")});`,
      `((global uint*)${buffer})[(${place}) / 2] = both`,
    ];
  text.add(...nested(
    tiles,
    features / 8,
    `for (int e = 0; e < 4; e += 2) {
    const Index row = row0 + warp_row + i * 16 + (lane >> 2) + (e >> 1) * 8;
    ${pack}
    if (row < ${length}) ${store};
    }`,
  ));
}
