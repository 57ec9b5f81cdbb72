/** Contractions on CPU devices: a work-item computes rows of vectors, whose columns may be packed. */
import { BLOCK_PRODUCTS, blocksOf } from "../../kernel/accumulation.ts";
import { coefficient } from "../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../codegen/emit.ts";
import { extent, type Load, type LoopKernel } from "../../kernel/kernel.ts";
import { openBlocks, openLoop } from "../../codegen/rows.ts";
import type { Range, Target } from "./codegen.ts";
import type { RowLoops } from "./contraction_layout.ts";
import {
  declareStart,
  decomposeInto,
  LANES,
  step,
  storeTile,
  without,
} from "./contraction_text.ts";
import { packedIndex, packWindow, type Window, windowOf } from "./contraction_window.ts";
import {
  packedCapacity,
  type RowTile,
  vectorWidth,
  type WindowTile,
  windowWidth,
} from "./tile_choices.ts";
import { TileSums } from "../codegen/tile_sums.ts";
import { canVectorize, VectorBody } from "../codegen/vector.ts";

/** Loops of so few iterations are written with their bounds, so that the compiler unrolls them. */
const SHORT_LOOP = 8;
/** A work-item packs its columns for at least so many rows. */
const PACKED_ROWS = 64;

/** A packed window stays in the second level of caches. */
const WINDOW_BYTES = 1 << 18;
/** Scalars of so many bytes are read again for each line. */
const SCALAR_BYTES = 1 << 19;
/** So many lines of an image share what their windows have in common. */
const MAX_LINES = 16;
/** So many work-items keep a few cores busy. */
const MIN_ITEMS = 8;

/** The columns of a tile: vectors of `width`, the last one moved back to end with the tile. */
interface Columns {
  readonly count: number;
  readonly width: number;
  /** Where each vector begins. */
  readonly starts: readonly number[];
}

/** Tiles of `count` columns. */
function columnsOf(count: number, width = vectorWidth(count)): Columns {
  const starts = Array.from(
    { length: Math.ceil(count / width) },
    (_, v) => Math.max(0, Math.min(v * width, count - width)),
  );
  return { count, width, starts };
}

/** What a work-item's tile is: rows of scalars times columns of vectors. */
interface PlacedTile {
  readonly row: number;
  readonly column: number;
  readonly scalar: Load;
  readonly height: number;
  readonly columns: Columns;
}

function place(
  { rows }: WindowTile,
  { row, column, scalar }: RowLoops,
  columns: Columns,
): PlacedTile {
  return { row, column, scalar, height: rows, columns };
}

export function rows(
  emitter: Emitter,
  dialect: Dialect,
  chosen: RowTile,
  loops: RowLoops,
): Range {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const { row, column, scalar, vector } = loops;
  const tile = place(chosen, loops, columnsOf(chosen.columns));
  const { columns, height: tm } = tile;
  const tn = columns.count;
  const others = kernel.outer.filter((s) => s !== row && s !== column);
  const strips = Math.ceil(sizes[column]! / tn) * extent(kernel, others);
  const packing = chosen.packed ? packingFor(kernel, row, tm, strips) : null;
  if (packing) emitter.line(`local float packed[${packing.capacity * tn}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(2)", "i");
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${tn}`, tn, emitter.size(column));
  if (packing) packColumns(emitter, dialect, vector, column, columns);
  const height = packing?.rows ?? tm;
  if (packing) {
    const end = `min(((Index)get_global_id(1) + 1) * ${height}, ${emitter.size(row)})`;
    const first = `(Index)get_global_id(1) * ${height}`;
    emitter.open(`for (Index at = ${first}; at < ${end}; at += ${tm}) {`);
  }
  const from = packing ? "at" : `(Index)get_global_id(1) * ${tm}`;
  declareStart(emitter, "row", from, tm, emitter.size(row));
  emitTile(
    emitter,
    dialect,
    tile,
    step(emitter, scalar.form, row),
    () =>
      packing
        ? `packed + i${kernel.inner[0]} * ${tn}`
        : `a${vector.input} + ${without(emitter, vector.form, [column])} + column`,
  );
  if (packing) emitter.close();
  return {
    global: [
      Math.ceil(sizes[column]! / tn),
      Math.ceil(sizes[row]! / height),
      extent(kernel, others),
    ],
    local: [1, 1, 1],
  };
}

/** How the rows of a kernel read a window: the loop over its lines, and how many a work-item takes. */
export interface WindowTiling {
  readonly tile: PlacedTile;
  readonly window: Window;
  readonly line: number | null;
  readonly lines: number;
}

/** The tiling of a contraction whose vectors are masked; null where they form no window. */
export function windowTiling(
  kernel: LoopKernel,
  target: Target,
  chosen: WindowTile,
  loops: RowLoops,
): WindowTiling | null {
  const { row, column, scalar, vector } = loops;
  if (scalar.bounds.length > 0) return null;
  const { sizes, outer, inner } = kernel;
  const { columns } = chosen;
  const tile = place(chosen, loops, columnsOf(columns, windowWidth(columns)));
  const isLine = (s: number): boolean =>
    s !== row && s !== column &&
    vector.bounds.some(({ form }) =>
      coefficient(form, s) !== 0 && inner.some((k) => coefficient(form, k) !== 0)
    );
  const line = outer.findLast(isLine) ?? null;
  const counts = new Map(inner.map((s) => [s, sizes[s]!]));
  counts.set(column, tile.columns.count);
  const of = (lines: number): WindowTiling | null => {
    if (line !== null) counts.set(line, lines);
    const window = windowOf(vector, counts, column, true);
    const room = Math.min(WINDOW_BYTES, target.localMemory / 2);
    return window && (window.size + LANES) * 4 <= room ? { tile, window, line, lines } : null;
  };
  if (line === null) return of(1);
  const items = extent(kernel, outer.filter((s) => s !== row && s !== column)) *
    Math.ceil(sizes[column]! / tile.columns.count);
  for (
    let lines = Math.max(1, Math.min(MAX_LINES, Math.floor(items / MIN_ITEMS)));
    lines > 0;
    lines--
  ) {
    const found = sizes[line]! % lines === 0 ? of(lines) : null;
    if (found) return found;
  }
  return null;
}

/** The same, with vectors that come from a packed window: one work-item for all rows. */
export function windowRows(
  emitter: Emitter,
  dialect: Dialect,
  { tile, window, line, lines }: WindowTiling,
): Range {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const { row, column, columns, height } = tile;
  const others = kernel.outer.filter((s) => s !== row && s !== column && s !== line);
  // Vectors may read beyond the columns that count.
  emitter.line(`local float packed[${window.size + LANES}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(2)", "i");
  const end = emitter.size(column);
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${columns.count}`, columns.count, end);
  const starts = new Map<number, string>();
  if (columns.count < sizes[column]!) starts.set(column, "column");
  if (line !== null) {
    emitter.line(`const Index line = (Index)get_global_id(1) * ${lines};`);
    starts.set(line, "line");
  }
  packWindow(emitter, window, starts, "packed");
  const openLines = (): void => {
    if (line === null) return;
    emitter.open(`for (Index i${line} = line; i${line} < line + ${lines}; ++i${line}) {`);
  };
  // What does not fit the caches is read once: the scalars of all rows, or else the window.
  const isLarge = sizes[row]! * extent(kernel, kernel.inner) * 4 > SCALAR_BYTES;
  if (!isLarge) openLines();
  emitter.open(`for (Index at = 0; at < ${emitter.size(row)}; at += ${height}) {`);
  declareStart(emitter, "row", "at", height, emitter.size(row));
  if (isLarge) openLines();
  const index = packedIndex(
    window,
    (s) => s === column ? null : s === line ? `(i${s} - line)` : `i${s}`,
  );
  // A convolution has a kernel of its own anyway: so many addresses are cheap as numbers only.
  const move = String(coefficient(tile.scalar.form, row));
  emitTile(emitter, dialect, tile, move, () => `packed + ${index}`);
  if (line !== null) emitter.close();
  emitter.close();
  return {
    global: [
      Math.ceil(sizes[column]! / columns.count),
      line === null ? 1 : sizes[line]! / lines,
      extent(kernel, others),
    ],
    local: [1, 1, 1],
  };
}

/** Sums up a tile and stores it; `move` is from row to row, `source` where a term's vectors begin. */
function emitTile(
  emitter: Emitter,
  dialect: Dialect,
  { row, column, scalar, height: tm, columns }: PlacedTile,
  move: string,
  source: () => string,
): void {
  const { inner: sum } = emitter.kernel;
  const { count: tn, width, starts } = columns;
  const V = `float${width}`;
  const names = Array.from({ length: tm }, (_, r) => starts.map((_, v) => `c${r}_${v}`)).flat();
  const blocks = blocksOf(emitter.kernel, (_, size) => size, BLOCK_PRODUCTS);
  const sums = new TileSums(emitter, V, names, blocks);
  sums.declare();
  sum.forEach((s, at) => openSum(emitter, dialect, s, at === sum.length - 1, sums));
  const first = `${without(emitter, scalar.form, [row])} + row * ${move}`;
  emitter.line(`global const float* x = a${scalar.input} + ${first};`);
  const from = source();
  starts.forEach((start, v) => {
    emitter.line(`const ${V} b${v} = vload${width}(0, ${from} + ${start});`);
  });
  for (let r = 0; r < tm; r++) {
    emitter.line(`const ${V} s${r} = (${V})(x[${r} * ${move}]);`);
    starts.forEach((_, v) => emitter.line(`c${r}_${v} = fma(s${r}, b${v}, c${r}_${v});`));
  }
  for (const s of sum.toReversed()) closeSum(emitter, s, sums);
  sums.finish();
  if (storeVectors(emitter, row, column, tm, columns)) return;
  emitter.line(`float tile[${tm * tn + Math.max(0, width - tn)}];`);
  for (let r = 0; r < tm; r++) {
    starts.forEach((start, v) => {
      emitter.line(`vstore${width}(c${r}_${v}, 0, tile + ${r * tn + start});`);
    });
  }
  storeTile(emitter, [row], [column], tm, tn);
}

/** How a work-item packs its columns: room for so many terms of the sum, used for so many rows. */
interface Packing {
  readonly capacity: number;
  readonly rows: number;
}

/** As few work-items as keep every core busy, since each of them packs. */
function packingFor(
  { sizes, inner }: LoopKernel,
  row: number,
  tm: number,
  strips: number,
): Packing {
  const most = Math.max(1, Math.floor(sizes[row]! / PACKED_ROWS));
  const blocks = Math.min(Math.ceil(8 / strips), most);
  const rows = Math.ceil(sizes[row]! / blocks / tm) * tm;
  return { capacity: packedCapacity(sizes[inner[0]!]!), rows };
}

function packColumns(
  emitter: Emitter,
  dialect: Dialect,
  vector: Load,
  column: number,
  { count, width, starts }: Columns,
): void {
  const k = emitter.kernel.inner[0]!;
  openLoop(emitter, dialect, k);
  const from = `a${vector.input} + ${without(emitter, vector.form, [column])} + column`;
  for (const start of starts) {
    const value = `vload${width}(0, ${from} + ${start})`;
    emitter.line(`vstore${width}(${value}, 0, packed + i${k} * ${count} + ${start});`);
  }
  emitter.close();
}

/** Whole tiles go out as vectors, with what is done to each element. */
function storeVectors(
  emitter: Emitter,
  row: number,
  column: number,
  tm: number,
  { count, width, starts }: Columns,
): boolean {
  const { kernel } = emitter;
  const whole = kernel.sizes[row]! % tm === 0 && kernel.sizes[column]! % count === 0;
  if (!whole || width !== LANES || !canVectorize(kernel, column)) return false;
  const body = new VectorBody(emitter, column);
  const { row: ids } = emitter.needs(kernel.outputs.map((o) => o.expr));
  emitter.line(`const Index i${column} = column;`);
  for (let r = 0; r < tm; r++) {
    emitter.open("{");
    emitter.line(`const Index i${row} = row + ${r};`);
    // An output may lie where an input lay: everything is read before anything is written.
    const left = count < width ? String(count) : "";
    body.declareScalars(ids);
    starts.forEach((shift, v) =>
      body.declareVectors(ids, { tag: `_${v}`, shift, left, contracted: `c${r}_${v}` })
    );
    starts.forEach((shift, v) => {
      kernel.outputs.forEach((_, o) => body.store(o, `_${v}`, shift, left));
    });
    emitter.close();
  }
  return true;
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
  if (size > SHORT_LOOP) return openLoop(emitter, dialect, symbol);
  if (isLast) emitter.line("#pragma unroll");
  emitter.open(dialect.loopHead(`i${symbol}`, "0", String(size)));
}

function closeSum(emitter: Emitter, symbol: number, sums: TileSums): void {
  emitter.close();
  if (sums.blocks?.symbol !== symbol) return;
  sums.end();
  emitter.close();
}
