/**
 * OpenCL C for contractions. Three shapes of kernel, picked by how the operands lie in memory:
 *
 * - `rows` (CPU devices): a work-item computes a tile of rows by vectors, along an axis that the
 *   right operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores
 *   it reaches OpenBLAS's speed (measured on PoCL 3.1).
 * - `dots` (CPU devices): both operands are contiguous along the summed axis; a work-item computes a
 *   small tile of dot products with vectors along that axis.
 * - `tiles` (GPUs): a work-group computes a tile through local memory, a work-item a piece of it in
 *   registers.
 *
 * What fits none of them is computed by one work-item per element.
 */
import { coefficient, type Form } from "../graph/affine.ts";
import { dtypes } from "../graph/dtype.ts";
import { type Dialect, type Emitter, openLoop } from "../graph/emit.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../graph/kernel.ts";
import type { Range, Target } from "./codegen.ts";
import { loadText } from "./dialect.ts";
import { canVectorize, VectorBody } from "./vector.ts";

/** The largest of `sizes` that does not exceed `n`; the last one fits always. */
function largest(n: number, sizes: readonly number[]): number {
  return sizes.find((size) => size <= n) ?? sizes[sizes.length - 1]!;
}

/** Emits the contraction with its epilogue; null where the general kernel must do. */
export function emitContraction(
  emitter: Emitter,
  dialect: Dialect,
  target: Target,
): Range | null {
  const c = emitter.kernel.contraction!;
  if (!isTiled(c)) return null;
  if (target.isGpu) return tiles(emitter, c);
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const { sizes } = emitter.kernel;
  const spans = (form: Form, symbol: number, least: number): boolean =>
    coefficient(form, symbol) === 1 && sizes[symbol]! >= least;
  const isDot = spans(c.a.form, k, MIN_DOT) && spans(c.b.form, k, MIN_DOT);
  const least = isDot ? LANES : MIN_ROW;
  const alongN = spans(c.b.form, n, least), alongM = spans(c.a.form, m, least);
  // Where both will do, the axis along which results lie, so that they are written as vectors.
  const isTransposed = emitter.kernel.outputs.every((o) => coefficient(o.form, m) === 1);
  if (alongN && !(alongM && isTransposed)) {
    return rows(emitter, dialect, target, m, n, c.a, c.b);
  }
  if (alongM) return rows(emitter, dialect, target, n, m, c.b, c.a);
  return isDot ? dots(emitter, dialect, c, k) : null;
}

/** True for contractions that have kernels of their own; the general one takes any types and views. */
export function isTiled(c: Contraction): boolean {
  const plain = c.dtype === "float32" && c.a.dtype === "float32" && c.b.dtype === "float32";
  return plain && c.m.length > 0 && c.n.length > 0 && c.k.length > 0 &&
    c.a.guards.length + c.b.guards.length === 0;
}

/** How many tiles a contraction is computed in, one after the other or side by side. */
export function tileCount(kernel: LoopKernel, { isGpu }: Target): number {
  const c = kernel.contraction!;
  const [m, n, others] = [c.m, c.n, c.batch].map((s) => extent(kernel, s)) as [
    number,
    number,
    number,
  ];
  const { bm, bn } = isGpu ? tileFor(m, n, others) : { bm: 8, bn: LANES };
  return Math.ceil(m / bm) * Math.ceil(n / bn) * others;
}

function last(symbols: readonly number[]): number {
  return symbols[symbols.length - 1]!;
}

/** A form with some symbols left out, as text. */
function without(emitter: Emitter, form: Form, symbols: readonly number[]): string {
  return emitter.form({
    offset: form.offset,
    terms: form.terms.filter(([s]) => !symbols.includes(s)),
  });
}

/** The part of a form that changes with some symbols, as text. */
function only(emitter: Emitter, form: Form, symbols: readonly number[]): string {
  return emitter.form({ offset: 0, terms: form.terms.filter(([s]) => symbols.includes(s)) });
}

/** How far a form moves with a symbol, as text. */
function step(emitter: Emitter, form: Form, symbol: number): string {
  const c = coefficient(form, symbol);
  return c === 1 || c === 0 ? `${c}` : emitter.index(c);
}

/** Opens a loop of a sum; the short ones of a convolution's taps are unrolled. */
function openSum(emitter: Emitter, dialect: Dialect, symbol: number, isLast: boolean): void {
  const size = emitter.kernel.sizes[symbol]!;
  if (size > SHORT_LOOP) return openLoop(emitter, dialect, symbol);
  if (isLast) emitter.line("#pragma unroll");
  emitter.open(dialect.loopHead(`i${symbol}`, "0", String(size)));
}

/**
 * Where a tile begins: the last one is moved back so that it is full, and stores only what the one
 * before it did not.
 */
function declareStart(
  emitter: Emitter,
  name: string,
  from: string,
  tile: number,
  end: string,
): void {
  emitter.line(`const int ${name}t = ${from};`);
  emitter.line(`const int ${name} = min(${name}t, ${end} - ${tile});`);
}

/** The epilogue over a tile in private memory, element by element. */
function storeTile(
  emitter: Emitter,
  row: readonly number[],
  column: readonly number[],
  tm: number,
  tn: number,
): void {
  emitter.open(`for (int r = rowt - row; r < ${tm}; ++r) {`);
  decomposeInto(emitter, row, "(row + r)", "i");
  emitter.open(`for (int c = columnt - column; c < ${tn}; ++c) {`);
  decomposeInto(emitter, column, "(column + c)", "i");
  emitter.line(`const float acc = tile[r * ${tn} + c];`);
  emitEpilogue(emitter);
  emitter.close();
  emitter.close();
}

function emitEpilogue(emitter: Emitter): void {
  const { outputs } = emitter.kernel;
  emitter.declare(emitter.needs(outputs.map((o) => o.expr)).row);
  outputs.forEach((_, o) => emitter.store(o));
}

// ---- CPU devices: rows

const LANES = 16;
/** The fewest elements along which vectors are worth their trouble. */
const MIN_ROW = 4, MIN_DOT = 4;
/** Loops of so few iterations are written with their bounds, so that the compiler unrolls them. */
const SHORT_LOOP = 8;
/** Columns that are further apart than this are packed: each row of a tile is on a page of its own. */
const PACKED_STEP = 512;
/** Packing pays from so many rows on. */
const PACKED_ROWS = 64;

/** The columns of a tile: vectors of `width`, the last one moved back to end with the tile. */
interface Columns {
  readonly count: number;
  readonly width: number;
  /** Where each vector begins. */
  readonly starts: readonly number[];
}

/** A tile of at most 32 columns that divides them, where there is one. */
function columnsFor(size: number): Columns {
  const candidates = [32, 31, 30, 29, 28, 27, 26, 25, 24];
  const count = size <= 32 ? size : candidates.find((n) => size % n === 0) ?? 32;
  const width = largest(count, [16, 8, 4]);
  const starts = Array.from(
    { length: Math.ceil(count / width) },
    (_, v) => Math.min(v * width, count - width),
  );
  return { count, width, starts };
}

function rows(
  emitter: Emitter,
  dialect: Dialect,
  target: Target,
  row: number,
  column: number,
  scalar: Load,
  vector: Load,
): Range {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const { inner: sum } = kernel;
  const columns = columnsFor(sizes[column]!);
  const { count: tn, width, starts } = columns;
  const tm = largest(sizes[row]!, starts.length > 1 ? [8, 4, 2, 1] : [16, 8, 4, 2, 1]);
  const others = kernel.outer.filter((s) => s !== row && s !== column);
  const strips = Math.ceil(sizes[column]! / tn) * extent(kernel, others);
  const packing = packingFor(emitter, target, row, vector, tn, strips);
  const V = `float${width}`;
  if (packing) emitter.line(`local float packed[${packing.capacity * tn}];`);
  decomposeInto(emitter, others, "(int)get_global_id(2)", "i");
  declareStart(emitter, "column", `(int)get_global_id(0) * ${tn}`, tn, emitter.size(column));
  if (packing) packColumns(emitter, dialect, vector, column, columns);
  const height = packing?.rows ?? tm;
  if (packing) {
    const end = `min(((int)get_global_id(1) + 1) * ${height}, ${emitter.size(row)})`;
    const first = `(int)get_global_id(1) * ${height}`;
    emitter.open(`for (int at = ${first}; at < ${end}; at += ${tm}) {`);
  }
  const from = packing ? "at" : `(int)get_global_id(1) * ${tm}`;
  declareStart(emitter, "row", from, tm, emitter.size(row));
  for (let r = 0; r < tm; r++) {
    emitter.line(`${V} ${starts.map((_, v) => `c${r}_${v} = 0`).join(", ")};`);
  }
  const move = step(emitter, scalar.form, row);
  sum.forEach((s, at) => openSum(emitter, dialect, s, at === sum.length - 1));
  emitter.line(`const int x = ${without(emitter, scalar.form, [row])} + row * ${move};`);
  const source = packing
    ? `packed + i${sum[0]} * ${tn}`
    : `a${vector.input} + ${without(emitter, vector.form, [column])} + column`;
  starts.forEach((start, v) => {
    emitter.line(`const ${V} b${v} = vload${width}(0, ${source} + ${start});`);
  });
  for (let r = 0; r < tm; r++) {
    emitter.line(`const ${V} s${r} = (${V})(a${scalar.input}[x + ${r} * ${move}]);`);
    starts.forEach((_, v) => emitter.line(`c${r}_${v} = fma(s${r}, b${v}, c${r}_${v});`));
  }
  for (const _ of sum) emitter.close();
  if (!storeVectors(emitter, row, column, tm, columns)) {
    emitter.line(`float tile[${tm * tn}];`);
    for (let r = 0; r < tm; r++) {
      starts.forEach((start, v) => {
        emitter.line(`vstore${width}(c${r}_${v}, 0, tile + ${r * tn + start});`);
      });
    }
    storeTile(emitter, [row], [column], tm, tn);
  }
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

/** How a work-item packs its columns: room for so many terms of the sum, used for so many rows. */
interface Packing {
  readonly capacity: number;
  readonly rows: number;
}

/** Packs the columns of a tile where they lie far apart and many rows use them. */
function packingFor(
  emitter: Emitter,
  target: Target,
  row: number,
  vector: Load,
  tn: number,
  strips: number,
): Packing | null {
  const { sizes, inner } = emitter.kernel;
  const k = inner[0]!;
  if (inner.length > 1 || Math.abs(coefficient(vector.form, k)) < PACKED_STEP) return null;
  // A power of two, so that kernels of similar sizes are one.
  const capacity = Math.max(64, 2 ** Math.ceil(Math.log2(sizes[k]!)));
  if (sizes[row]! < PACKED_ROWS || capacity * tn * 4 > target.localMemory / 2) return null;
  const blocks = Math.min(Math.ceil(8 / strips), Math.floor(sizes[row]! / PACKED_ROWS));
  const rows = Math.ceil(sizes[row]! / blocks / 8) * 8;
  return { capacity, rows };
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
  emitter.line(`const int i${column} = column;`);
  for (let r = 0; r < tm; r++) {
    emitter.open("{");
    emitter.line(`const int i${row} = row + ${r};`);
    // An output may lie where an input lay: everything is read before anything is written.
    starts.forEach((start, v) => body.declare(ids, `_${v}`, start, `c${r}_${v}`));
    starts.forEach((start, v) => {
      kernel.outputs.forEach((_, o) => body.store(o, `_${v}`, start));
    });
    emitter.close();
  }
  return true;
}

// ---- CPU devices: dots

/** The rows or columns of a tile of dot products: those that waste least. */
function dotTile(size: number, across: number, sizes: readonly number[]): number {
  const cost = (t: number): number => Math.ceil(size / t) * (t * across + t + across);
  return sizes.filter((t) => t <= size).reduce((a, b) => cost(b) < cost(a) ? b : a);
}

function dots(emitter: Emitter, dialect: Dialect, c: Contraction, k: number): Range {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const rowCount = extent(kernel, c.m), columnCount = extent(kernel, c.n);
  const tm = largest(rowCount, [4, 2, 1]);
  const tn = dotTile(columnCount, tm, [6, 5, 4, 3, 2, 1]);
  const width = largest(sizes[k]!, [16, 8, 4]);
  const V = `float${width}`;
  decomposeInto(emitter, c.batch, "(int)get_global_id(2)", "i");
  const [endM, endN] = [rowCount, columnCount].map((n) => emitter.index(n)) as [string, string];
  declareStart(emitter, "row", `(int)get_global_id(1) * ${tm}`, tm, endM);
  declareStart(emitter, "column", `(int)get_global_id(0) * ${tn}`, tn, endN);
  declareOffsets(emitter, "x", c.a.form, c.m, "row", tm);
  declareOffsets(emitter, "y", c.b.form, c.n, "column", tn);
  const cells = Array.from({ length: tm * tn }, (_, i) => [Math.floor(i / tn), i % tn] as const);
  emitter.line(`${V} ${cells.map(([r, q]) => `c${r}_${q} = 0`).join(", ")};`);
  const size = sizes[k]!;
  const short = size <= 4 * width;
  const end = short ? String(size) : emitter.size(k);
  if (size % width !== 0) {
    const lanes = Array.from({ length: width }, (_, lane) => lane).join(", ");
    const rest = short ? String(size % width) : `${end} % ${width}`;
    emitter.line(`const int${width} keep = (int${width})(${lanes}) >= ${width} - (${rest});`);
  }
  for (const s of c.k.slice(0, -1)) openLoop(emitter, dialect, s);
  emitter.line(`const int x = ${without(emitter, c.a.form, [...c.m, k])};`);
  emitter.line(`const int y = ${without(emitter, c.b.form, [...c.n, k])};`);
  const products = (at: string, masked: boolean): void => {
    for (let r = 0; r < tm; r++) {
      const text = `vload${width}(0, a${c.a.input} + x + x${r} + ${at})`;
      const value = masked ? `select((${V})(0), ${text}, keep)` : text;
      emitter.line(`const ${V} u${r} = ${value};`);
    }
    for (let q = 0; q < tn; q++) {
      emitter.line(`const ${V} w${q} = vload${width}(0, a${c.b.input} + y + y${q} + ${at});`);
      for (let r = 0; r < tm; r++) emitter.line(`c${r}_${q} = fma(u${r}, w${q}, c${r}_${q});`);
    }
  };
  const block = (head: string, at: string, masked: boolean): void => {
    emitter.open(head);
    products(at, masked);
    emitter.close();
  };
  if (short) {
    for (let at = 0; at + width <= size; at += width) block("{", String(at), false);
  } else {
    block(`for (int k = 0; k + ${width} <= ${end}; k += ${width}) {`, "k", false);
  }
  // What is left is read with the end of what was summed already, which is masked out.
  if (size % width !== 0) block("{", `${end} - ${width}`, true);
  for (const _ of c.k.slice(0, -1)) emitter.close();
  emitter.line(`float tile[${tm * tn}];`);
  for (const [r, q] of cells) {
    emitter.line(`tile[${r * tn + q}] = sum_float${width}(c${r}_${q});`);
  }
  storeTile(emitter, c.m, c.n, tm, tn);
  return {
    global: [Math.ceil(columnCount / tn), Math.ceil(rowCount / tm), extent(kernel, c.batch)],
    local: [1, 1, 1],
  };
}

/** Declares how far each row or column of a tile lies from the beginning of its operand. */
function declareOffsets(
  emitter: Emitter,
  name: string,
  form: Form,
  symbols: readonly number[],
  origin: string,
  count: number,
): void {
  for (let at = 0; at < count; at++) {
    emitter.line(`int ${name}${at};`);
    emitter.open("{");
    decomposeInto(emitter, symbols, `(${origin} + ${at})`, "i");
    emitter.line(`${name}${at} = ${only(emitter, form, symbols)};`);
    emitter.close();
  }
}

// ---- GPUs

/** Size of a work-group's tile and of a work-item's piece of it. */
interface Tile {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
  readonly tm: number;
  readonly tn: number;
}

const LARGE: Tile = { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 };
const MEDIUM: Tile = { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 };
const SMALL: Tile = { bm: 32, bn: 32, bk: 32, tm: 2, tn: 2 };

/** Tiles small enough that there are groups for every compute unit. */
function tileFor(m: number, n: number, others: number): Tile {
  const groups = (t: Tile): number => Math.ceil(m / t.bm) * Math.ceil(n / t.bn) * others;
  if (groups(LARGE) >= 128) return LARGE;
  return groups(MEDIUM) >= 96 ? MEDIUM : SMALL;
}

/** Declares the indices of several loops from one number; `prefix` tells copies apart. */
function decomposeInto(
  emitter: Emitter,
  symbols: readonly number[],
  text: string,
  prefix: string,
): void {
  let rest = text;
  for (let at = symbols.length - 1; at > 0; at--) {
    const s = symbols[at]!;
    const size = emitter.size(s);
    emitter.line(`const int ${prefix}${s} = (${rest}) % ${size};`);
    emitter.line(`const int ${prefix}q${s} = (${rest}) / ${size};`);
    rest = `${prefix}q${s}`;
  }
  if (symbols.length > 0) emitter.line(`const int ${prefix}${symbols[0]} = ${rest};`);
}

function tiles(emitter: Emitter, c: Contraction): Range {
  const { kernel } = emitter;
  const [m, n, k] = [extent(kernel, c.m), extent(kernel, c.n), extent(kernel, c.k)];
  const batch = extent(kernel, c.batch);
  const t = tileFor(m, n, batch);
  const across = t.bn / t.tn, threads = across * (t.bm / t.tm);
  const [sizeM, sizeN, sizeK] = [emitter.index(m), emitter.index(n), emitter.index(k)];
  // Without the alignment, four neighbours are read one by one.
  const aligned = "__attribute__((aligned(16)))";
  emitter.line(`local float as[${t.bk}][${t.bm + 4}] ${aligned};`);
  emitter.line(`local float bs[${t.bk}][${t.bn + 4}] ${aligned};`);
  emitter.line("const int lid = get_local_id(0);");
  const tilesN = emitter.index(Math.ceil(n / t.bn)), tilesM = emitter.index(Math.ceil(m / t.bm));
  emitter.line(`const int group = get_group_id(0);`);
  emitter.line(`const int column0 = (group % ${tilesN}) * ${t.bn};`);
  emitter.line(`const int row0 = (group / ${tilesN} % ${tilesM}) * ${t.bm};`);
  decomposeInto(emitter, c.batch, `group / (${tilesN} * ${tilesM})`, "i");
  emitter.line(`const int tr = lid / ${across}, tc = lid % ${across};`);
  emitter.line(`float acc_[${t.tm}][${t.tn}];`);
  emitter.line(
    `for (int r = 0; r < ${t.tm}; ++r) for (int q = 0; q < ${t.tn}; ++q) acc_[r][q] = 0;`,
  );
  const sides: readonly Side[] = [
    { load: c.a, symbols: c.m, tile: "as", next: "na", origin: "row0", size: sizeM, extent: t.bm },
    {
      load: c.b,
      symbols: c.n,
      tile: "bs",
      next: "nb",
      origin: "column0",
      size: sizeN,
      extent: t.bn,
    },
  ];
  // The next tile is on its way from global memory while this one is multiplied.
  for (const side of sides) {
    emitter.line(`float ${side.next}[${side.extent * t.bk / threads}];`);
    fetchTile(emitter, c, side, "0", sizeK, t.bk, threads);
  }
  emitter.open(`for (int k0 = 0; k0 < ${sizeK}; k0 += ${t.bk}) {`);
  for (const side of sides) putTile(emitter, c, side, t.bk, threads);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  for (const side of sides) fetchTile(emitter, c, side, `k0 + ${t.bk}`, sizeK, t.bk, threads);
  emitter.line("#pragma unroll");
  emitter.open(`for (int kk = 0; kk < ${t.bk}; ++kk) {`);
  emitter.line(`float x[${t.tm}], y[${t.tn}];`);
  emitter.line("#pragma unroll");
  emitter.line(
    `for (int r = 0; r < ${t.tm}; ++r) x[r] = as[kk][${pieceAt("tr", "r", t.bm / t.tm, t.tm)}];`,
  );
  emitter.line("#pragma unroll");
  emitter.line(
    `for (int q = 0; q < ${t.tn}; ++q) y[q] = bs[kk][${pieceAt("tc", "q", across, t.tn)}];`,
  );
  emitter.line("#pragma unroll");
  emitter.line(`for (int r = 0; r < ${t.tm}; ++r)`);
  emitter.line("#pragma unroll");
  emitter.line(`  for (int q = 0; q < ${t.tn}; ++q) acc_[r][q] = fma(x[r], y[q], acc_[r][q]);`);
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.close();
  emitter.line("#pragma unroll");
  emitter.open(`for (int r = 0; r < ${t.tm}; ++r) {`);
  emitter.line(`const int row = row0 + ${pieceAt("tr", "r", t.bm / t.tm, t.tm)};`);
  emitter.line(`if (row >= ${sizeM}) continue;`);
  decomposeInto(emitter, c.m, "row", "i");
  emitter.line("#pragma unroll");
  emitter.open(`for (int q = 0; q < ${t.tn}; ++q) {`);
  emitter.line(`const int column = column0 + ${pieceAt("tc", "q", across, t.tn)};`);
  emitter.line(`if (column >= ${sizeN}) continue;`);
  decomposeInto(emitter, c.n, "column", "i");
  emitter.line("const float acc = acc_[r][q];");
  emitEpilogue(emitter);
  emitter.close();
  emitter.close();
  const groups = Math.ceil(n / t.bn) * Math.ceil(m / t.bm) * batch;
  return { global: [groups * threads], local: [threads] };
}

/** Element `index` of a work-item's piece: runs of four, so that local memory is read in vectors. */
function pieceAt(thread: string, index: string, threads: number, count: number): string {
  if (count <= 4) return `${thread} * ${count} + ${index}`;
  return `${index} / 4 * ${threads * 4} + ${thread} * 4 + ${index} % 4`;
}

/** One operand of a tiled contraction. */
interface Side {
  readonly load: Load;
  readonly symbols: readonly number[];
  /** Its tile in local memory, and what each work-item holds of the next one. */
  readonly tile: string;
  readonly next: string;
  readonly origin: string;
  readonly size: string;
  readonly extent: number;
}

/** The element of a tile that a work-item copies in turn `u`: neighbours along what lies contiguous. */
function tileElement(c: Contraction, { load, extent }: Side, bk: number, threads: number): string {
  const alongK = coefficient(load.form, last(c.k)) === 1;
  const e = `(lid + u * ${threads})`;
  const [at, kk] = alongK
    ? [`${e} / ${bk}`, `${e} % ${bk}`]
    : [`${e} % ${extent}`, `${e} / ${extent}`];
  return `const int at = ${at}, kk = ${kk};`;
}

/** Reads the tile that begins at `origin` into registers. */
function fetchTile(
  emitter: Emitter,
  c: Contraction,
  side: Side,
  origin: string,
  sizeK: string,
  bk: number,
  threads: number,
): void {
  const { load, symbols, next, size } = side;
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${side.extent * bk / threads}; ++u) {`);
  emitter.line(tileElement(c, side, bk, threads));
  emitter.line(`const int p = ${side.origin} + at, k = ${origin} + kk;`);
  emitter.line(`${next}[u] = 0;`);
  const isWhole = extent(emitter.kernel, symbols) % side.extent === 0 &&
    extent(emitter.kernel, c.k) % bk === 0;
  // Whole tiles need no test but that for the one behind the last: on 4096 it costs a fifth.
  emitter.open(isWhole ? `if (${origin} < ${sizeK}) {` : `if (p < ${size} && k < ${sizeK}) {`);
  decomposeInto(emitter, symbols, "p", "i");
  decomposeInto(emitter, c.k, "k", "i");
  emitter.line(`${next}[u] = ${loadText(`a${load.input}`, load.dtype, emitter.form(load.form))};`);
  emitter.close();
  emitter.close();
}

/** Writes the registers to local memory. */
function putTile(emitter: Emitter, c: Contraction, side: Side, bk: number, threads: number): void {
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${side.extent * bk / threads}; ++u) {`);
  emitter.line(tileElement(c, side, bk, threads));
  emitter.line(`${side.tile}[kk][at] = ${side.next}[u];`);
  emitter.close();
}

/** One work-item per element of the result: any types, any views. */
export function emitGeneralContraction(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  const T = dtypes[c.dtype].clCompute;
  emitter.line(`${T} acc = 0;`);
  for (const s of c.k) openLoop(emitter, dialect, s);
  const a = loadText(`a${c.a.input}`, c.a.dtype, emitter.form(c.a.form));
  const b = loadText(`a${c.b.input}`, c.b.dtype, emitter.form(c.b.form));
  emitter.line(`acc += (${T})${a} * (${T})${b};`);
  for (const _ of c.k) emitter.close();
  emitEpilogue(emitter);
}
