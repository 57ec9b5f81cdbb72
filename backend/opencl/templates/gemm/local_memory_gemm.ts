/**
 * Local-memory gemm on GPUs: a work-group computes a tile whose operands go through local memory, a
 * work-item a piece of it in registers. Operands of any element type, strided, masked or batched.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { type Contraction, extent } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { computeType } from "../../codegen/types.ts";
import type { ContractionTemplate, TiledPlan } from "../parts/contraction_shape.ts";
import { groupGemm } from "../parts/group_gemm.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { FLOAT, tileCount, type TileRule } from "../parts/tiling.ts";
import { TileLoader, type TileOperand } from "./tile_loader.ts";

/** The tile of a work-group (bm x bn, bk terms at a time), and a work-item's piece of it (tm x tn). */
export interface LocalMemoryTile {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
  readonly tm: number;
  readonly tn: number;
}

/**
 * Tiles that may be chosen where a product has at least `groups` of them; `speed` is that of their code,
 * relative to the fastest. Measured on NVIDIA H100 and H200.
 */
const choices = [
  { groups: 128, speed: 1, tile: { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 } },
  { groups: 128, speed: 0.55, tile: { bm: 32, bn: 128, bk: 16, tm: 4, tn: 8 } },
  { groups: 128, speed: 0.55, tile: { bm: 128, bn: 32, bk: 16, tm: 8, tn: 4 } },
  { groups: 96, speed: 0.6, tile: { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 } },
  { groups: 0, speed: 0.4, tile: { bm: 32, bn: 32, bk: 32, tm: 2, tn: 2 } },
] as const;

/** Bytes of a term in the tables of both operands: an index and up to three bounds each, of 8 bytes. */
const TABLE_BYTES = 64;
/** Work-items of a group that every GPU can run. */
const MAX_GROUP = 256;

export const localMemoryTiles: TileRule<LocalMemoryTile> = {
  kind: "local-memory",
  choose: (shape) => {
    const groups = ({ bm, bn }: LocalMemoryTile): number => tileCount(shape, bm, bn);
    const cost = ({ tile, speed }: (typeof choices)[number]): number =>
      groups(tile) * tile.bm * tile.bn / speed;
    const candidates = choices.filter(({ groups: least, tile }) => groups(tile) >= least);
    return candidates.reduce((a, b) => cost(b) < cost(a) ? b : a).tile;
  },
  counts: ["bm", "bn", "bk", "tm", "tn"],
  admits: ({ bm, bn, bk, tm, tn }, { elementBytes = FLOAT }, { localMemory }) => {
    const items = bm / tm * (bn / tn);
    // A work-item's piece is read in runs of four; all items copy equal shares.
    return [tm, tn].every((t) => t <= 16 && (t <= 4 || t % 4 === 0)) &&
      bm % tm === 0 && bn % tn === 0 && items <= MAX_GROUP &&
      bm * bk % items === 0 && bn * bk % items === 0 &&
      ((bm + bn + 8) * Math.max(FLOAT, elementBytes) + TABLE_BYTES) * bk <= localMemory;
  },
};

/** A tile a work-group. */
export const localMemoryGemm: ContractionTemplate<TiledPlan<LocalMemoryTile>> = groupGemm(
  "local-memory gemm",
  localMemoryTiles,
  () => true,
  writeTile,
);

/** Text by which the statements of one kernel are written. */
interface TileText {
  readonly emitter: Emitter;
  readonly c: Contraction;
  readonly t: LocalMemoryTile;
  /** The OpenCL C type of sums. */
  readonly T: string;
  /** Work-items side by side along a tile's columns, and along its rows. */
  readonly across: number;
  readonly down: number;
  /** The sizes of the product. */
  readonly sizeM: string;
  readonly sizeN: string;
  readonly sizeK: string;
}

/** A tile a work-group, a piece of it a work-item. */
function writeTile(emitter: Emitter, c: Contraction, t: LocalMemoryTile): WorkSize {
  const { kernel } = emitter;
  const [m, n, k] = [extent(kernel, c.m), extent(kernel, c.n), extent(kernel, c.k)];
  const [sizeM, sizeN, sizeK] = [emitter.index(m), emitter.index(n), emitter.index(k)];
  const across = t.bn / t.tn, down = t.bm / t.tm, threads = across * down;
  const text = { emitter, c, t, T: computeType(c.dtype), across, down, sizeM, sizeN, sizeK };
  const tilesM = Math.ceil(m / t.bm), tilesN = Math.ceil(n / t.bn);
  declareTile(text, tilesM, tilesN);
  sumTiles(text, threads);
  storeSums(text);
  const groups = tilesN * tilesM * extent(kernel, c.batch);
  return { global: [groups * threads], local: [threads] };
}

/** Declares local memory, which tile the group has, which piece of it the item, and the sums. */
function declareTile({ emitter, c, t, T, across }: TileText, countM: number, countN: number): void {
  // Without the alignment, four neighbours are read one by one.
  const aligned = "__attribute__((aligned(16)))";
  emitter.line(`local ${T} as[${t.bk}][${t.bm + 4}] ${aligned};`);
  emitter.line(`local ${T} bs[${t.bk}][${t.bn + 4}] ${aligned};`);
  emitter.line("const int lid = get_local_id(0);");
  const tilesN = emitter.index(countN), tilesM = emitter.index(countM);
  emitter.line(`const Index group = get_group_id(0);`);
  emitter.line(`const Index column0 = (group % ${tilesN}) * ${t.bn};`);
  emitter.line(`const Index row0 = (group / ${tilesN} % ${tilesM}) * ${t.bm};`);
  decomposeInto(emitter, c.batch, `group / (${tilesN} * ${tilesM})`, "i");
  emitter.line(`const int tr = lid / ${across}, tc = lid % ${across};`);
  emitter.line(`${T} acc_[${t.tm}][${t.tn}];`);
  emitter.line(
    `for (int r = 0; r < ${t.tm}; ++r) for (int q = 0; q < ${t.tn}; ++q) acc_[r][q] = 0;`,
  );
}

/** Adds up the products: the next tile is on its way from global memory while this one is multiplied. */
function sumTiles(text: TileText, threads: number): void {
  const { emitter, t, sizeK } = text, loaders = loadersOf(text, threads);
  const hasTable = loaders.some((loader) => loader.hasTable);
  const barrier = (): void => emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  for (const loader of loaders) {
    loader.declare(text.T);
    loader.prepare("0");
  }
  if (hasTable) barrier();
  for (const loader of loaders) loader.fetch("0", sizeK);
  if (hasTable) barrier();
  emitter.open(`for (Index k0 = 0; k0 < ${sizeK}; k0 += ${t.bk}) {`);
  for (const loader of loaders) {
    loader.put();
    loader.prepare(`k0 + ${t.bk}`);
  }
  barrier();
  for (const loader of loaders) loader.fetch(`k0 + ${t.bk}`, sizeK);
  multiplyTiles(text);
  barrier();
  emitter.close();
}

function loadersOf({ emitter, c, t, sizeM, sizeN }: TileText, threads: number): TileLoader[] {
  const rows = { load: c.a, symbols: c.m, tile: "as", next: "na", origin: "row0", size: sizeM };
  const columns = {
    load: c.b,
    symbols: c.n,
    tile: "bs",
    next: "nb",
    origin: "column0",
    size: sizeN,
  };
  const operands: TileOperand[] = [{ ...rows, extent: t.bm }, { ...columns, extent: t.bn }];
  return operands.map((operand) => new TileLoader(emitter, c, operand, t.bk, threads));
}

/** Adds the products of both tiles in local memory to the item's sums. */
function multiplyTiles({ emitter, c, t, T, across, down }: TileText): void {
  emitter.line("#pragma unroll");
  emitter.open(`for (int kk = 0; kk < ${t.bk}; ++kk) {`);
  emitter.line(`${T} x[${t.tm}], y[${t.tn}];`);
  emitter.line("#pragma unroll");
  emitter.line(
    `for (int r = 0; r < ${t.tm}; ++r) x[r] = as[kk][${pieceAt("tr", "r", down, t.tm)}];`,
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
}

/** Writes what follows the product for each of the item's elements that exist. */
function storeSums({ emitter, c, t, T, across, down, sizeM, sizeN }: TileText): void {
  emitter.line("#pragma unroll");
  emitter.open(`for (int r = 0; r < ${t.tm}; ++r) {`);
  emitter.line(`const Index row = row0 + ${pieceAt("tr", "r", down, t.tm)};`);
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
}

/** Element `index` of a work-item's piece: runs of four, so that local memory is read in vectors. */
function pieceAt(thread: string, index: string, threads: number, count: number): string {
  if (count <= 4) return `${thread} * ${count} + ${index}`;
  return `${index} / 4 * ${threads * 4} + ${thread} * 4 + ${index} % 4`;
}
