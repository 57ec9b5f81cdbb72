/**
 * Gemm by warpgroups, for NVIDIA devices of compute capability 9.0 (Hopper). Four warps multiply 64 rows by up
 * to 256 columns with one instruction (`wgmma`) that reads both operands from local memory, where one more
 * warp has the copy engine (TMA) move them in whole tiles.
 *
 * - Groups stay: each computes one tile after the other, and the copies of the next one begin while the sums of
 *   the last are stored.
 * - A ring of stages in local memory, each with two barriers: `full` opens when its bytes have arrived, `empty`
 *   when all warpgroups have multiplied it.
 * - Operands may be transposed, in batches, and of any size, with steps of 16 bytes. Others, such as those of
 *   convolutions, a kernel before writes once more, with their channels side by side.
 * - Floats are multiplied as sums of numbers of bfloat16, which that kernel writes, too: six products of three
 *   parts keep float32's accuracy, three of two have 16 bits.
 *
 * Measured on an H100, in TFLOP/s, at 4096: float16 713 (`mma.sync` 319, PyTorch 726), float32 122 (47, 52) with
 * a relative error of 1e-7 (FMA: 5e-7). With what is written before: 16384 x 1536 times 1536 x 384 in float32 83
 * (44); convolutions of ResNet-18 for 128 images of 32 x 32, 3 x 3, values and gradients: float16 105 to 300 (49
 * to 104), float32 48 to 103 (20 to 38).
 *
 * This folder (`wgmma/`) has the template, one file a part: tensor maps, stages, epilogue. It imports `mma/`,
 * `parts/`, `opencl/codegen/`, `backend/codegen/` and `kernel/`.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import type { Scratch } from "../../../kernel/template.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { type ContractionTemplate, isTileable } from "../parts/contraction_shape.ts";
import { productVariant } from "../parts/product_variant.ts";
import { decomposeInto } from "../parts/tile_text.ts";
import { contentOf, writeOperands, type Written, writtenOperands } from "./operand_parts.ts";
import { MAP_WORDS, writeMaps } from "./tensor_map.ts";
import { declareOrigin, tilesAlong } from "./tile_side.ts";
import { storeSums } from "./wgmma_epilogue.ts";
import {
  splitsOf,
  tilesOf,
  type WgmmaPlan,
  wgmmaPlanOf,
  type WgmmaProduct,
} from "./wgmma_product.ts";
import { consumeStages, declareBarriers, produceStages } from "./wgmma_stages.ts";
import { localBytes, residentGroups, workItemsOf } from "./wgmma_tile.ts";

/** A tile after the other for each work-group. */
export const wgmmaGemm: ContractionTemplate<WgmmaPlan> = {
  name: "warpgroup gemm",
  matches: (kernel, target) =>
    target.isGpu && target.warpgroups && isTileable(kernel, target)
      ? wgmmaPlanOf(kernel, target)
      : null,
  emit: (plan) => {
    const { kernel, target } = plan, written = ownOperands(plan);
    const types = scratchOf(plan).map(({ dtype }) => dtype);
    const kernelOf = (write: (emitter: Emitter) => WorkSize) =>
      generatedLoop(kernel, target, (emitter) => {
        nameScratch(emitter, plan);
        return write(emitter);
      }, types);
    const gemm = kernelOf((emitter) => writeKernel(emitter, plan));
    if (written.length === 0) return [gemm];
    return [kernelOf((emitter) => writeOperands(emitter, written)), gemm];
  },
  workItems: tilesOf,
  sumParts: splitsOf,
  scratch: scratchOf,
  variant: (plan) =>
    ownOperands(plan).length > 0 || plan.kernel.prepared ? null : productVariant(
      plan.kernel,
      [plan.tile, plan.product.parts],
      Math.max(plan.tile.bm, plan.tile.bn),
    ),
};

/** The operands that are written before, but for those that another kernel has written. */
function ownOperands({ kernel, product }: WgmmaPlan): Written[] {
  return writtenOperands(product).filter(({ name }) =>
    !kernel.prepared?.some((operand) => operand.name === name)
  );
}

/** Maps for each group; what is written of operands before. */
function scratchOf(plan: WgmmaPlan): Scratch[] {
  const { kernel, product: { parts } } = plan;
  return [
    { dtype: "int64", size: groupsOf(plan) * 2 * parts * MAP_WORDS },
    ...ownOperands(plan).map((operand): Scratch => ({
      dtype: "bfloat16",
      size: parts * operand.source.count,
      content: { name: operand.name, input: operand.load.input, key: contentOf(kernel, operand) },
    })),
  ];
}

function nameScratch(emitter: Emitter, plan: WgmmaPlan): void {
  const { outputs, prepared = [] } = emitter.kernel;
  emitter.line(`global ulong* maps = (global ulong*)o${outputs.length};`);
  for (const { name, input } of prepared) {
    emitter.line(`global const ushort* parts_${name} = a${input};`);
  }
  ownOperands(plan).forEach(({ name }, at) =>
    emitter.line(`global ushort* parts_${name} = o${outputs.length + 1 + at};`)
  );
}

/** Groups that are launched: as many as the device runs side by side. */
function groupsOf(plan: WgmmaPlan): number {
  const { tile, target, product } = plan;
  return Math.min(target.computeUnits * residentGroups(tile, product.parts), tilesOf(plan));
}

function writeKernel(emitter: Emitter, plan: WgmmaPlan): WorkSize {
  const { tile, product } = plan, { parts } = product;
  const items = workItemsOf(tile), words = parts * MAP_WORDS;
  emitter.line(`local uchar sm[${localBytes(tile, parts)}] __attribute__((aligned(1024)));`);
  emitter.line("const uint smem = (uint)(size_t)sm;");
  emitter.line("const int lid = get_local_id(0), lane = lid & 31;");
  emitter.line(`global ulong* map_a = maps + get_group_id(0) * ${2 * words};`);
  emitter.line(`global ulong* map_b = map_a + ${words};`);
  const grid = declareTiles(emitter, plan);
  declareBarriers(emitter, product);
  emitter.open(`if (lid >= ${items - 32}) {`);
  emitter.open(`if (lid == ${items - 32}) {`);
  writeMaps(emitter, product.a, "map_a");
  writeMaps(emitter, product.b, "map_b");
  for (let map = 0; map < 2 * parts; map++) emitter.line(`WG_MAPPED(map_a + ${map * MAP_WORDS});`);
  openTiles(emitter, product, grid);
  produceStages(emitter, product);
  emitter.close();
  emitter.close();
  emitter.line("return;");
  emitter.close();
  openTiles(emitter, product, grid);
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

function declareTiles(emitter: Emitter, plan: WgmmaPlan): TileGrid {
  const { kernel, product: { rows, columns } } = plan;
  const [m, n] = [rows, columns].map((side) => emitter.index(tilesAlong(kernel, side)));
  return { m: m!, n: n!, all: emitter.index(tilesOf(plan)) };
}

/** Opens the loop over a group's tiles: strips of eight along the rows share columns in the cache. */
function openTiles(emitter: Emitter, { c, rows, columns }: WgmmaProduct, grid: TileGrid): void {
  emitter.open(
    `for (Index tile = get_group_id(0); tile < ${grid.all}; tile += get_num_groups(0)) {`,
  );
  emitter.line(`const Index place = tile % (${grid.m} * ${grid.n});`);
  emitter.line(`const Index strip = place / (8 * ${grid.n}) * 8;`);
  emitter.line(`const Index height = min(${grid.m} - strip, (Index)8);`);
  emitter.line(`const Index within = place - strip * ${grid.n};`);
  declareOrigin(emitter, rows, "strip + within % height");
  declareOrigin(emitter, columns, "within / height");
  decomposeInto(emitter, c.batch, `tile / (${grid.m} * ${grid.n})`, "i");
}
