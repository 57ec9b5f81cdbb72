/** Contractions on GPUs: a work-group computes a tile through local memory. */
import { coefficient } from "../../kernel/affine.ts";
import { dtypes } from "../../graph/dtype.ts";
import type { Emitter } from "../../codegen/emit.ts";
import { type Contraction, extent, type Load } from "../../kernel/kernel.ts";
import type { Range } from "./codegen.ts";
import { decomposeInto, emitEpilogue, last } from "./contraction_text.ts";
import { loadText } from "../codegen/dialect.ts";
import type { GroupTile } from "./tile_choices.ts";

/** A tile a work-group, a piece of it a work-item. */
export function tiles(emitter: Emitter, c: Contraction, t: GroupTile): Range {
  const { kernel } = emitter;
  const [m, n, k] = [extent(kernel, c.m), extent(kernel, c.n), extent(kernel, c.k)];
  const batch = extent(kernel, c.batch);
  const across = t.bn / t.tn, threads = across * (t.bm / t.tm);
  const [sizeM, sizeN, sizeK] = [emitter.index(m), emitter.index(n), emitter.index(k)];
  const T = dtypes[c.dtype].clCompute;
  // Without the alignment, four neighbours are read one by one.
  const aligned = "__attribute__((aligned(16)))";
  emitter.line(`local ${T} as[${t.bk}][${t.bm + 4}] ${aligned};`);
  emitter.line(`local ${T} bs[${t.bk}][${t.bn + 4}] ${aligned};`);
  emitter.line("const int lid = get_local_id(0);");
  const tilesN = emitter.index(Math.ceil(n / t.bn)), tilesM = emitter.index(Math.ceil(m / t.bm));
  emitter.line(`const Index group = get_group_id(0);`);
  emitter.line(`const Index column0 = (group % ${tilesN}) * ${t.bn};`);
  emitter.line(`const Index row0 = (group / ${tilesN} % ${tilesM}) * ${t.bm};`);
  decomposeInto(emitter, c.batch, `group / (${tilesN} * ${tilesM})`, "i");
  emitter.line(`const int tr = lid / ${across}, tc = lid % ${across};`);
  emitter.line(`${T} acc_[${t.tm}][${t.tn}];`);
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
    emitter.line(`${T} ${side.next}[${side.extent * t.bk / threads}];`);
    fetchTile(emitter, c, side, "0", sizeK, t.bk, threads);
  }
  emitter.open(`for (Index k0 = 0; k0 < ${sizeK}; k0 += ${t.bk}) {`);
  for (const side of sides) putTile(emitter, c, side, t.bk, threads);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  for (const side of sides) fetchTile(emitter, c, side, `k0 + ${t.bk}`, sizeK, t.bk, threads);
  emitter.line("#pragma unroll");
  emitter.open(`for (int kk = 0; kk < ${t.bk}; ++kk) {`);
  emitter.line(`${T} x[${t.tm}], y[${t.tn}];`);
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
  const product = dtypes[c.dtype].kind === "float"
    ? "fma(x[r], y[q], acc_[r][q])"
    : "x[r] * y[q] + acc_[r][q]";
  emitter.line(`  for (int q = 0; q < ${t.tn}; ++q) acc_[r][q] = ${product};`);
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.close();
  emitter.line("#pragma unroll");
  emitter.open(`for (int r = 0; r < ${t.tm}; ++r) {`);
  emitter.line(`const Index row = row0 + ${pieceAt("tr", "r", t.bm / t.tm, t.tm)};`);
  emitter.line(`if (row >= ${sizeM}) continue;`);
  decomposeInto(emitter, c.m, "row", "i");
  emitter.line("#pragma unroll");
  emitter.open(`for (int q = 0; q < ${t.tn}; ++q) {`);
  emitter.line(`const Index column = column0 + ${pieceAt("tc", "q", across, t.tn)};`);
  emitter.line(`if (column >= ${sizeN}) continue;`);
  decomposeInto(emitter, c.n, "column", "i");
  emitter.line(`const ${T} acc = acc_[r][q];`);
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
  emitter.line(`const Index p = ${side.origin} + at, k = ${origin} + kk;`);
  emitter.line(`${next}[u] = 0;`);
  const { bounds } = load;
  const isWhole = extent(emitter.kernel, symbols) % side.extent === 0 &&
    extent(emitter.kernel, c.k) % bk === 0;
  // Whole tiles need no test but that for the one behind the last: on 4096 it costs a fifth.
  emitter.open(isWhole ? `if (${origin} < ${sizeK}) {` : `if (p < ${size} && k < ${sizeK}) {`);
  decomposeInto(emitter, symbols, "p", "i");
  decomposeInto(emitter, c.k, "k", "i");
  if (bounds.length > 0) emitter.line(`if (${emitter.maskText(bounds)})`);
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
