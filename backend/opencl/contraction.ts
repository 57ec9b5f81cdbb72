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
import { type Contraction, extent, type Load } from "../graph/kernel.ts";
import type { Range } from "./codegen.ts";
import { loadText } from "./dialect.ts";

/** The largest of `sizes` that does not exceed `n`; the last one fits always. */
function largest(n: number, sizes: readonly number[]): number {
  return sizes.find((size) => size <= n) ?? sizes[sizes.length - 1]!;
}

/** Emits the contraction with its epilogue; null where the general kernel must do. */
export function emitContraction(emitter: Emitter, dialect: Dialect, isGpu: boolean): Range | null {
  const c = emitter.kernel.contraction!;
  const plain = c.dtype === "float32" && c.a.dtype === "float32" && c.b.dtype === "float32";
  if (!plain || c.m.length === 0 || c.n.length === 0 || c.k.length === 0) return null;
  if (c.a.guards.length + c.b.guards.length > 0) return null;
  if (isGpu) return tiles(emitter, c);
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const { sizes } = emitter.kernel;
  if (coefficient(c.b.form, n) === 1 && sizes[n]! >= 4) {
    return rows(emitter, dialect, c, m, n, false);
  }
  if (coefficient(c.a.form, m) === 1 && sizes[m]! >= 4) {
    return rows(emitter, dialect, c, n, m, true);
  }
  const isDot = coefficient(c.a.form, k) === 1 && coefficient(c.b.form, k) === 1;
  return isDot && sizes[k]! >= 16 ? dots(emitter, dialect, c, m, n, k) : null;
}

function last(symbols: readonly number[]): number {
  return symbols[symbols.length - 1]!;
}

/** Declares the indices of all loops but two from the third dimension of the range. */
function declareOthers(emitter: Emitter, row: number, column: number): number {
  const others = emitter.kernel.outer.filter((s) => s !== row && s !== column);
  if (others.length === 0) return 1;
  let rest = "(int)get_global_id(2)";
  for (let at = others.length - 1; at > 0; at--) {
    const s = others[at]!;
    emitter.line(`const int i${s} = ${rest} % ${emitter.size(s)};`);
    emitter.line(`const int q${s} = ${rest} / ${emitter.size(s)};`);
    rest = `q${s}`;
  }
  emitter.line(`const int i${others[0]} = ${rest};`);
  return extent(emitter.kernel, others);
}

/** A form with one symbol left out, as text, and that symbol's step. */
function without(emitter: Emitter, form: Form, symbols: readonly number[]): string {
  return emitter.form({
    offset: form.offset,
    terms: form.terms.filter(([s]) => !symbols.includes(s)),
  });
}

/** How far a form moves with a symbol, as text. */
function step(emitter: Emitter, form: Form, symbol: number): string {
  const c = coefficient(form, symbol);
  return c === 1 || c === 0 ? `${c}` : emitter.index(c);
}

/**
 * Where a tile begins: the last one is moved back so that it is full, and stores only what the one
 * before it did not.
 */
function declareStart(
  emitter: Emitter,
  name: string,
  dimension: number,
  tile: number,
  symbol: number,
): void {
  const size = emitter.size(symbol);
  emitter.line(`const int ${name}t = (int)get_global_id(${dimension}) * ${tile};`);
  emitter.line(`const int ${name} = min(${name}t, ${size} - ${tile});`);
}

/** The epilogue over a tile in private memory, element by element. */
function storeTile(emitter: Emitter, row: number, column: number, tm: number, tn: number): void {
  emitter.open(`for (int r = rowt - row; r < ${tm}; ++r) {`);
  emitter.line(`const int i${row} = row + r;`);
  emitter.open(`for (int c = columnt - column; c < ${tn}; ++c) {`);
  emitter.line(`const int i${column} = column + c;`);
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

function rows(
  emitter: Emitter,
  dialect: Dialect,
  c: Contraction,
  row: number,
  column: number,
  swapped: boolean,
): Range {
  const { sizes } = emitter.kernel;
  const [scalar, vector] = swapped ? [c.b, c.a] : [c.a, c.b];
  const tn = largest(sizes[column]!, [32, 16, 8, 4]);
  const width = Math.min(tn, 16), vectors = tn / width;
  const tm = largest(sizes[row]!, vectors > 1 ? [8, 4, 2, 1] : [16, 8, 4, 2, 1]);
  const V = `float${width}`;
  const others = declareOthers(emitter, row, column);
  declareStart(emitter, "row", 1, tm, row);
  declareStart(emitter, "column", 0, tn, column);
  for (let r = 0; r < tm; r++) {
    const names = Array.from({ length: vectors }, (_, v) => `c${r}_${v} = 0`);
    emitter.line(`${V} ${names.join(", ")};`);
  }
  const move = step(emitter, scalar.form, row);
  for (const s of c.k) openLoop(emitter, dialect, s);
  emitter.line(`const int x = ${without(emitter, scalar.form, [row])} + row * ${move};`);
  emitter.line(`const int y = ${without(emitter, vector.form, [column])} + column;`);
  for (let v = 0; v < vectors; v++) {
    emitter.line(`const ${V} b${v} = vload${width}(0, a${vector.input} + y + ${v * width});`);
  }
  for (let r = 0; r < tm; r++) {
    emitter.line(`const ${V} s${r} = (${V})(a${scalar.input}[x + ${r} * ${move}]);`);
    for (let v = 0; v < vectors; v++) emitter.line(`c${r}_${v} = fma(s${r}, b${v}, c${r}_${v});`);
  }
  for (const _ of c.k) emitter.close();
  if (!storesVectors(emitter, row, column, tm, vectors, width)) {
    emitter.line(`float tile[${tm * tn}];`);
    for (let r = 0; r < tm; r++) {
      for (let v = 0; v < vectors; v++) {
        emitter.line(`vstore${width}(c${r}_${v}, 0, tile + ${r * tn + v * width});`);
      }
    }
    storeTile(emitter, row, column, tm, tn);
  }
  return {
    global: [Math.ceil(sizes[column]! / tn), Math.ceil(sizes[row]! / tm), others],
    local: [1, 1, 1],
  };
}

/** A tile without an epilogue goes out as vectors, where it is whole. */
function storesVectors(
  emitter: Emitter,
  row: number,
  column: number,
  tm: number,
  vectors: number,
  width: number,
): boolean {
  const { outputs, exprs, sizes } = emitter.kernel;
  const o = outputs[0]!;
  const whole = sizes[row]! % tm === 0 && sizes[column]! % (vectors * width) === 0;
  const bare = outputs.length === 1 && exprs[o.expr]!.op === "contracted" && o.dtype === "float32";
  if (!whole || !bare || coefficient(o.form, column) !== 1) return false;
  const at = without(emitter, o.form, [row, column]);
  const move = step(emitter, o.form, row);
  for (let r = 0; r < tm; r++) {
    for (let v = 0; v < vectors; v++) {
      const index = `${at} + (row + ${r}) * ${move} + column + ${v * width}`;
      emitter.line(`vstore${width}(c${r}_${v}, 0, o0 + ${index});`);
    }
  }
  return true;
}

function dots(
  emitter: Emitter,
  dialect: Dialect,
  c: Contraction,
  row: number,
  column: number,
  k: number,
): Range {
  const { sizes } = emitter.kernel;
  const tm = largest(sizes[row]!, [4, 2, 1]), tn = largest(sizes[column]!, [4, 2, 1]);
  const others = declareOthers(emitter, row, column);
  declareStart(emitter, "row", 1, tm, row);
  declareStart(emitter, "column", 0, tn, column);
  const cells = Array.from({ length: tm * tn }, (_, i) => [Math.floor(i / tn), i % tn] as const);
  emitter.line(`float16 ${cells.map(([r, q]) => `c${r}_${q} = 0`).join(", ")};`);
  emitter.line(`float tile[${tm * tn}];`);
  emitter.line(`for (int i = 0; i < ${tm * tn}; ++i) tile[i] = 0;`);
  for (const s of c.k.slice(0, -1)) openLoop(emitter, dialect, s);
  const [ma, mb] = [step(emitter, c.a.form, row), step(emitter, c.b.form, column)];
  emitter.line(`const int x = ${without(emitter, c.a.form, [row, k])} + row * ${ma};`);
  emitter.line(`const int y = ${without(emitter, c.b.form, [column, k])} + column * ${mb};`);
  emitter.line(`int k = 0;`);
  emitter.open(`for (; k + 16 <= ${emitter.size(k)}; k += 16) {`);
  for (let r = 0; r < tm; r++) {
    emitter.line(`const float16 x${r} = vload16(0, a${c.a.input} + x + ${r} * ${ma} + k);`);
  }
  for (let q = 0; q < tn; q++) {
    emitter.line(`const float16 y${q} = vload16(0, a${c.b.input} + y + ${q} * ${mb} + k);`);
  }
  for (const [r, q] of cells) emitter.line(`c${r}_${q} = fma(x${r}, y${q}, c${r}_${q});`);
  emitter.close();
  emitter.open(`for (; k < ${emitter.size(k)}; ++k) {`);
  for (const [r, q] of cells) {
    const product = `a${c.a.input}[x + ${r} * ${ma} + k] * a${c.b.input}[y + ${q} * ${mb} + k]`;
    emitter.line(`tile[${r * tn + q}] += ${product};`);
  }
  emitter.close();
  for (const _ of c.k.slice(0, -1)) emitter.close();
  for (const [r, q] of cells) emitter.line(`tile[${r * tn + q}] += sum_float16(c${r}_${q});`);
  storeTile(emitter, row, column, tm, tn);
  return {
    global: [Math.ceil(sizes[column]! / tn), Math.ceil(sizes[row]! / tm), others],
    local: [1, 1, 1],
  };
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
  emitter.line(`local float as[${t.bk}][${t.bm + 4}], bs[${t.bk}][${t.bn + 4}];`);
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
  emitter.open(`if (p < ${size} && k < ${sizeK}) {`);
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
