/**
 * The block product of a CPU's work-item: a tile of sums in registers, rows of scalars times columns in
 * vectors; and how it is stored.
 */
import { BLOCK_PRODUCTS, blocksOf } from "../../../kernel/accumulation.ts";
import { neededBy, variesWith } from "../../../kernel/analysis.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import type { Load } from "../../../kernel/kernel.ts";
import { openBlocks, openLoop } from "../../../codegen/loops.ts";
import { TileSums } from "../../codegen/tile_sums.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import type { RowLoops } from "./contraction_shape.ts";
import { type RegisterTile, vectorWidth } from "./register_tile.ts";
import { storeTile, without } from "./tile_text.ts";

/** Loops of at most this many iterations are written with their bounds, so that the compiler unrolls them. */
const MAX_UNROLLED = 8;

/** The columns of a tile: vectors of `width`, the last one moved back to end with the tile. */
export interface Columns {
  readonly count: number;
  readonly width: number;
  /** Start of each vector. */
  readonly starts: readonly number[];
}

/** Tiles of `count` columns. */
export function columnsOf(count: number, width = vectorWidth(count)): Columns {
  const starts = Array.from(
    { length: Math.ceil(count / width) },
    (_, v) => Math.max(0, Math.min(v * width, count - width)),
  );
  return { count, width, starts };
}

/** Tile of a work-item: rows of scalars times columns of vectors. */
export interface PlacedTile {
  readonly row: number;
  readonly column: number;
  readonly scalar: Load;
  readonly height: number;
  readonly columns: Columns;
}

/** A tile on the loops that it goes over. */
export function placeTile(
  { rows }: RegisterTile,
  { row, column, scalar }: RowLoops,
  columns: Columns,
): PlacedTile {
  return { row, column, scalar, height: rows, columns };
}

/** Addresses of the terms of a tile's sums. */
export interface TermSources {
  /** The type of the pointer to a term's scalars, and where they begin. */
  readonly pointer: string;
  readonly scalars: string;
  /** From one scalar to the next. */
  readonly move: string;
  /** Start of a term's vectors. */
  readonly vectors: string;
  /** Distance from its vectors to the next term's, where they are asked for before their turn. */
  readonly stride?: string | undefined;
}

/**
 * Vectors are asked for so many terms before their turn: they lie apart, so that no prefetcher has them in
 * the first cache (128x768x512 with PoCL 3.1 on two AVX-512 cores: 470 us, 365).
 */
const PREFETCH_TERMS = 8;

/** Adds up `c0_0`, `c0_1`, ...: for each of some rows, vectors of sums of products. */
export function sumProducts(
  emitter: Emitter,
  dialect: Dialect,
  height: number,
  { width, starts }: Pick<Columns, "width" | "starts">,
  source: () => TermSources,
): void {
  const { inner: sum } = emitter.kernel;
  const V = `float${width}`;
  const names = Array.from({ length: height }, (_, r) => starts.map((_, v) => `c${r}_${v}`)).flat();
  const blocks = blocksOf(emitter.kernel, (_, size) => size, BLOCK_PRODUCTS);
  const sums = new TileSums(emitter, V, names, blocks);
  sums.declare();
  sum.forEach((s, at) => openSum(emitter, dialect, s, at === sum.length - 1, sums));
  const { pointer, scalars, move, vectors, stride } = source();
  emitter.line(`${pointer} x = ${scalars};`);
  starts.forEach((start, v) => {
    if (stride !== undefined) {
      emitter.line(`prefetch_16(${vectors} + ${PREFETCH_TERMS} * ${stride} + ${start});`);
    }
    emitter.line(`const ${V} b${v} = vload${width}(0, ${vectors} + ${start});`);
  });
  for (let r = 0; r < height; r++) {
    emitter.line(`const ${V} s${r} = (${V})(x[${r} * ${move}]);`);
    starts.forEach((_, v) => emitter.line(`c${r}_${v} = fma(s${r}, b${v}, c${r}_${v});`));
  }
  for (const s of sum.toReversed()) closeSum(emitter, s, sums);
  sums.finish();
}

/**
 * Sums up a tile and stores it; `move` is from row to row, `source` says where a term's vectors are read.
 *
 * @param packed Where a term's scalars begin that were copied side by side; else they are read in place.
 */
export function emitBlock(
  emitter: Emitter,
  dialect: Dialect,
  { row, column, scalar, height: tm, columns }: PlacedTile,
  move: string,
  source: () => Pick<TermSources, "vectors" | "stride">,
  packed: (() => string) | null = null,
): void {
  const { count: tn, width, starts } = columns;
  const isVectors = width === LANES && canVectorize(emitter.kernel, column);
  if (isVectors) askEarly(emitter, row, column, tm, columns);
  sumProducts(emitter, dialect, tm, columns, () => ({
    ...packed ? { pointer: "local const float*", scalars: packed(), move: "1" } : {
      pointer: "global const float*",
      scalars: `a${scalar.input} + ${without(emitter, scalar.index, [row])} + row * ${move}`,
      move,
    },
    ...source(),
  }));
  const { sizes } = emitter.kernel, isWhole = sizes[column]! % tn === 0;
  if (isVectors) {
    if (!isWhole) emitter.open("if (column == columnt) {");
    storeVectors(emitter, row, column, tm, columns);
    if (isWhole) return;
    emitter.close();
    emitter.open("else {");
  } else emitter.open("{");
  emitter.line(`float tile[${tm * tn + Math.max(0, width - tn)}];`);
  for (let r = 0; r < tm; r++) {
    starts.forEach((start, v) => {
      emitter.line(`vstore${width}(c${r}_${v}, 0, tile + ${r * tn + start});`);
    });
  }
  storeTile(emitter, [row], [column], tm, tn);
  emitter.close();
}

/**
 * Asks for what is read once behind the sum: pieces of rows far apart, which no processor expects. They are
 * there when the sum is (768x128x512 through the gradient of gelu, PoCL 3.1, two cores: 0.53 ms, 0.45).
 */
function askEarly(
  emitter: Emitter,
  row: number,
  column: number,
  tm: number,
  { starts }: Columns,
): void {
  const { kernel } = emitter, along = variesWith(kernel, [row]);
  const indirect = new Set(kernel.indirect.map(({ symbol }) => symbol));
  const ids = neededBy(kernel, kernel.outputs.map((o) => o.expr)).filter((id) => {
    const e = kernel.exprs[id]!;
    return e.op === "load" && along[id]! &&
      kernel.loads[e.load]!.index.terms.every(([symbol]) => !indirect.has(symbol));
  });
  if (ids.length === 0) return;
  const body = new VectorBody(emitter, column);
  emitter.open("{");
  emitter.line(`const Index i${column} = column;`);
  for (let r = 0; r < tm; r++) {
    emitter.open("{");
    emitter.line(`const Index i${row} = row + ${r};`);
    for (const start of starts) body.prefetch(ids, start, 0);
    emitter.close();
  }
  emitter.close();
}

/** Columns that no other tile has go out as vectors, with what is done to each element. */
function storeVectors(
  emitter: Emitter,
  row: number,
  column: number,
  tm: number,
  { count, width, starts }: Columns,
): void {
  const { kernel } = emitter;
  const isWhole = kernel.sizes[row]! % tm === 0;
  const body = new VectorBody(emitter, column);
  const ids = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  emitter.line(`const Index i${column} = column;`);
  for (let r = 0; r < tm; r++) {
    // The last tile is moved back onto rows that another one stores.
    emitter.open(isWhole ? "{" : `if (row + ${r} >= rowt) {`);
    emitter.line(`const Index i${row} = row + ${r};`);
    // An output may lie where an input lay: everything is read before anything is written.
    const left = count < width ? String(count) : "";
    body.declareScalars(ids);
    starts.forEach((shift, v) =>
      body.declareVectors(ids, { tag: `_${v}`, shift, left, contracted: `c${r}_${v}` })
    );
    starts.forEach((shift, v) => {
      kernel.outputs.forEach((_, o) => body.store(o, { tag: `_${v}`, shift, left }));
    });
    emitter.close();
  }
}

/** Opens a loop of a sum; the short ones of a convolution's taps are unrolled. */
function openSum(
  emitter: Emitter,
  dialect: Dialect,
  symbol: number,
  isLast: boolean,
  sums: TileSums,
): void {
  if (sums.blocks?.symbol === symbol) {
    const bounds = openBlocks(emitter, dialect, sums.blocks);
    sums.begin();
    return emitter.open(dialect.loopHead(`i${symbol}`, ...bounds));
  }
  const size = emitter.kernel.sizes[symbol]!;
  if (size > MAX_UNROLLED) return openLoop(emitter, dialect, symbol);
  if (isLast) emitter.line("#pragma unroll");
  emitter.open(dialect.loopHead(`i${symbol}`, "0", String(size)));
}

function closeSum(emitter: Emitter, symbol: number, sums: TileSums): void {
  emitter.close();
  if (sums.blocks?.symbol !== symbol) return;
  sums.end();
  emitter.close();
}
