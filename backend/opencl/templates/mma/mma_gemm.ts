/**
 * Gemm on matrix units (tensor cores): a work-group computes a tile whose operands travel
 * through several stages of local memory, a warp a piece of it by `mma.sync`. Written as inline PTX for
 * NVIDIA devices of compute capability 8.0 and later.
 *
 * - Operands are copied to local memory by `cp.async` in pieces of 16 or 4 bytes where they lie so, and
 *   through registers where they do not (masked or strided elements of half types). What lies outside an
 *   operand is filled with zeros.
 * - Pieces of 16 bytes are swizzled, so that neither `ldmatrix` nor the copies meet bank conflicts.
 * - Sums are float32. Products of float32 are made of TF32 products: three of the high and low parts,
 *   which keeps float32's accuracy (the tests allow a relative error of 3e-6), or one where less is asked for.
 * - The sums go through local memory on their way out, so that neighbours store neighbours.
 *
 * Measured on an H100 at 4096: 264 to 314 TFLOP/s in float16 (cuBLAS: 729), 46 for float32 by three products
 * (tiles of float32: 40).
 *
 * This folder (`mma/`) has the template of products on matrix units, one file a part: copies,
 * products, epilogue. It imports `parts/`, `opencl/codegen/`, `backend/codegen/` and `kernel/`.
 * `lists.ts` asks it with contractions and gets plans and OpenCL C.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { type Contraction, extent } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import type { ContractionTemplate, TiledPlan } from "../parts/contraction_shape.ts";
import { groupGemm } from "../parts/group_gemm.ts";
import { decomposeInto } from "../parts/tile_text.ts";
import { type ContractionSize, product } from "../parts/tiling.ts";
import { OperandCopier } from "./mma_copies.ts";
import { storeSums } from "./mma_epilogue.ts";
import { unitOf, warpTilingOf } from "./warp_tiling.ts";
import { addParts, declareSums, multiply } from "./mma_products.ts";
import { type MmaTile, mmaTiles } from "./mma_tile.ts";

/**
 * Products of float32 with less than this are left to others: most of a tile would be empty, or the launch
 * takes longer than the product.
 */
const MIN_SIDE = 32, MIN_PRODUCTS = 1 << 22;
/** Shorter sums do not fill one matrix instruction. */
const MIN_TERMS = 16;

/** A tile a work-group. */
export const mmaGemm: ContractionTemplate<TiledPlan<MmaTile>> = groupGemm(
  "matrix-unit gemm",
  mmaTiles,
  (c, shape, { matrixUnits }) => matrixUnits && isWorthwhile(c, shape),
  writeTile,
);

/** True when matrix units win: halves nearly always, float32 where three products do. */
function isWorthwhile(c: Contraction, { m, n, k, batch }: ContractionSize): boolean {
  if (unitOf(c) === null) return false;
  const terms = product(k);
  if (c.dtype !== "float32") return terms >= MIN_TERMS;
  return Math.min(m, n) >= MIN_SIDE && terms >= MIN_TERMS &&
    batch * m * n * terms >= MIN_PRODUCTS;
}

function writeTile(emitter: Emitter, c: Contraction, tile: MmaTile): WorkSize {
  const { kernel } = emitter;
  const tiling = warpTilingOf(emitter, c, tile);
  const { bm, bn, bk, stages } = tile;
  const [m, n, k] = [extent(kernel, c.m), extent(kernel, c.n), extent(kernel, c.k)];
  const [groupsM, groupsN] = [Math.ceil(m / bm), Math.ceil(n / bn)];
  emitter.line(
    `local uchar sm[${stages * tiling.stageBytes}] __attribute__((aligned(128)));`,
  );
  emitter.line("const uint smem = (uint)(size_t)sm;");
  emitter.line("const int lid = get_local_id(0), lane = lid & 31, warp = lid >> 5;");
  const warpsM = bm / tile.wm;
  emitter.line(`const int wm = warp % ${warpsM} * ${tile.wm}, wn = warp / ${warpsM} * ${tile.wn};`);
  placeTile(emitter, c, tile, groupsM, groupsN);
  const steps = emitter.index(Math.ceil(k / bk));
  const sizeK = emitter.index(k);
  declareSums(emitter, tile, "sums");
  // Matrix units truncate sums: they add up few terms, whose sums are added by instructions that round.
  if (tiling.unit === "3xtf32") declareSums(emitter, tile, "part");
  const copiers = [tiling.a, tiling.b].map((operand) =>
    new OperandCopier(emitter, tiling, operand)
  );
  for (const copier of copiers) copier.declare();
  emitter.open(`for (int t = ${1 - stages}; t < ${steps}; ++t) {`);
  emitter.line(`if (t >= 0) { MMA_WAIT(${stages - 2}); barrier(CLK_LOCAL_MEM_FENCE); }`);
  emitter.line(`const int ahead = t + ${stages - 1};`);
  emitter.line(`const uint into = smem + (uint)(ahead % ${stages}) * ${tiling.stageBytes}u;`);
  emitter.open(`if (ahead < ${steps}) {`);
  for (const copier of copiers) copier.copy(sizeK);
  emitter.close();
  emitter.line("MMA_COMMIT();");
  emitter.open("if (t >= 0) {");
  multiply(emitter, tiling);
  emitter.close();
  for (const copier of copiers) {
    if (!copier.isHeld) continue;
    emitter.open(`if (ahead < ${steps}) {`);
    copier.put();
    emitter.close();
  }
  emitter.close();
  if (tiling.unit === "3xtf32") addParts(emitter, tile);
  storeSums(emitter, tiling, emitter.index(m), emitter.index(n));
  return {
    global: [groupsM * groupsN * extent(kernel, c.batch) * tiling.threads],
    local: [tiling.threads],
  };
}

/** Tile of a work-group: strips of eight along the rows share columns in the cache. */
function placeTile(
  emitter: Emitter,
  c: Contraction,
  { bm, bn }: MmaTile,
  groupsM: number,
  groupsN: number,
): void {
  const [tilesM, tilesN] = [emitter.index(groupsM), emitter.index(groupsN)];
  emitter.line(`const int group = get_group_id(0) % (${tilesM} * ${tilesN});`);
  emitter.line(`const int strip = group / (8 * ${tilesN}) * 8;`);
  emitter.line(`const int height = min(${tilesM} - strip, (Index)8);`);
  emitter.line(`const int within = group - strip * ${tilesN};`);
  emitter.line(`const int row0 = (strip + within % height) * ${bm};`);
  emitter.line(`const int column0 = within / height * ${bn};`);
  decomposeInto(emitter, c.batch, `(int)(get_group_id(0) / (${tilesM} * ${tilesN}))`, "i");
}
