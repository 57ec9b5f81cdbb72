/**
 * Gemm by warpgroups, for NVIDIA devices of compute capability 9.0 (Hopper). Four warps multiply 64 rows by up
 * to 256 columns with one instruction (`wgmma`) that reads both operands from local memory, where one more
 * warp has the copy engine (TMA) move them in whole tiles.
 *
 * - Groups stay: each computes one tile after the other, and the copies of the next one begin while the sums of
 *   the last are stored.
 * - A ring of stages in local memory, each with two barriers: `full` opens when its bytes have arrived, `empty`
 *   when all warpgroups have multiplied it.
 * - Operands may be transposed, in batches, and of any size; they have no mask, and steps of 16 bytes. Others are
 *   for `mma.sync`.
 * - Floats are multiplied as sums of numbers of bfloat16, which a kernel before writes: six products of three
 *   parts keep float32's accuracy, three of two have 16 bits.
 *
 * Measured on an H100, in TFLOP/s, at 4096: float16 684 (`mma.sync` 319, PyTorch 726), float32 122 (47, 52) with
 * a relative error of 1e-7 (FMA: 5e-7); 16384 x 1536 times 1536 x 384 in float32, with its parts: 83 (44).
 *
 * This folder (`wgmma/`) has the template, one file a part: tensor maps, stages, epilogue. It imports `mma/`,
 * `parts/`, `opencl/codegen/`, `backend/codegen/` and `kernel/`.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import type { DType } from "../../../graph/dtype.ts";
import { type Contraction, extent } from "../../../kernel/kernel.ts";
import type { Scratch } from "../../../kernel/template.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { type ContractionTemplate, isTileable } from "../parts/contraction_shape.ts";
import { decomposeInto } from "../parts/tile_text.ts";
import { tileCount } from "../parts/tiling.ts";
import { writeParts } from "./operand_parts.ts";
import { MAP_WORDS, writeMaps } from "./tensor_map.ts";
import { storeSums } from "./wgmma_epilogue.ts";
import { type WgmmaPlan, wgmmaPlanOf } from "./wgmma_product.ts";
import { consumeStages, declareBarriers, produceStages } from "./wgmma_stages.ts";
import { localBytes, residentGroups, splitsOf, type WgmmaTile, workItemsOf } from "./wgmma_tile.ts";

/** A tile after the other for each work-group. */
export const wgmmaGemm: ContractionTemplate<WgmmaPlan> = {
  name: "warpgroup gemm",
  matches: (kernel, target) =>
    target.isGpu && target.warpgroups && isTileable(kernel, target)
      ? wgmmaPlanOf(kernel, target)
      : null,
  emit: (plan) => {
    const { kernel, target, product } = plan;
    const types = scratchOf(plan).map(({ dtype }) => dtype);
    const kernelOf = (write: (emitter: Emitter) => WorkSize) =>
      generatedLoop(kernel, target, (emitter) => {
        nameScratch(emitter, types);
        return write(emitter);
      }, types);
    const gemm = kernelOf((emitter) => writeKernel(emitter, plan));
    if (product.parts === 1) return { kernels: [gemm] };
    return { kernels: [kernelOf((emitter) => writeParts(emitter, product)), gemm] };
  },
  workItems: ({ shape, tile }) => tileCount(shape, tile.bm, tile.bn),
  sumParts: ({ shape, tile, target, product }) => splitsOf(tile, product.parts, shape, target),
  scratch: scratchOf,
};

/** Maps for each group; the parts of both operands where elements are split. */
function scratchOf(plan: WgmmaPlan): Scratch[] {
  const { parts, a, b } = plan.product;
  const maps: Scratch = { dtype: "int64", size: groupsOf(plan) * 2 * parts * MAP_WORDS };
  if (parts === 1) return [maps];
  return [
    maps,
    ...[a, b].map(({ count }): Scratch => ({ dtype: "bfloat16", size: parts * count })),
  ];
}

function nameScratch(emitter: Emitter, types: readonly DType[]): void {
  const first = emitter.kernel.outputs.length;
  emitter.line(`global ulong* maps = (global ulong*)o${first};`);
  if (types.length === 1) return;
  emitter.line(`global ushort* parts_a = o${first + 1};`);
  emitter.line(`global ushort* parts_b = o${first + 2};`);
}

/** Groups that are launched: as many as the device runs side by side. */
function groupsOf({ shape, tile, target, product }: WgmmaPlan): number {
  const resident = target.computeUnits * residentGroups(tile, product.parts);
  return Math.min(resident, tileCount(shape, tile.bm, tile.bn));
}

function writeKernel(emitter: Emitter, plan: WgmmaPlan): WorkSize {
  const { tile, product } = plan, { c, parts } = product;
  const items = workItemsOf(tile), words = parts * MAP_WORDS;
  emitter.line(`local uchar sm[${localBytes(tile, parts)}] __attribute__((aligned(1024)));`);
  emitter.line("const uint smem = (uint)(size_t)sm;");
  emitter.line("const int lid = get_local_id(0), lane = lid & 31;");
  emitter.line(`global ulong* map_a = maps + get_group_id(0) * ${2 * words};`);
  emitter.line(`global ulong* map_b = map_a + ${words};`);
  const grid = declareTiles(emitter, c, tile);
  declareBarriers(emitter, product);
  emitter.open(`if (lid >= ${items - 32}) {`);
  emitter.open(`if (lid == ${items - 32}) {`);
  writeMaps(emitter, product.a, "map_a");
  writeMaps(emitter, product.b, "map_b");
  for (let map = 0; map < 2 * parts; map++) emitter.line(`WG_MAPPED(map_a + ${map * MAP_WORDS});`);
  openTiles(emitter, c, tile, grid);
  produceStages(emitter, product);
  emitter.close();
  emitter.close();
  emitter.line("return;");
  emitter.close();
  openTiles(emitter, c, tile, grid);
  consumeStages(emitter, product);
  storeSums(emitter, product);
  emitter.close();
  return { global: [groupsOf(plan) * items], local: [items] };
}

/** The tiles of all products. */
interface TileGrid {
  readonly m: string;
  readonly n: string;
  readonly all: string;
}

function declareTiles(emitter: Emitter, c: Contraction, { bm, bn }: WgmmaTile): TileGrid {
  const { kernel } = emitter;
  const [m, n] = [Math.ceil(extent(kernel, c.m) / bm), Math.ceil(extent(kernel, c.n) / bn)];
  const all = m * n * extent(kernel, c.batch);
  return { m: emitter.index(m), n: emitter.index(n), all: emitter.index(all) };
}

/** Opens the loop over a group's tiles: strips of eight along the rows share columns in the cache. */
function openTiles(emitter: Emitter, c: Contraction, { bm, bn }: WgmmaTile, grid: TileGrid): void {
  emitter.open(
    `for (Index tile = get_group_id(0); tile < ${grid.all}; tile += get_num_groups(0)) {`,
  );
  emitter.line(`const Index place = tile % (${grid.m} * ${grid.n});`);
  emitter.line(`const Index strip = place / (8 * ${grid.n}) * 8;`);
  emitter.line(`const Index height = min(${grid.m} - strip, (Index)8);`);
  emitter.line(`const Index within = place - strip * ${grid.n};`);
  emitter.line(`const Index row0 = (strip + within % height) * ${bm};`);
  emitter.line(`const Index column0 = within / height * ${bn};`);
  decomposeInto(emitter, c.batch, `tile / (${grid.m} * ${grid.n})`, "i");
}
