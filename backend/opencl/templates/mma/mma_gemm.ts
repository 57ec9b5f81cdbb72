/**
 * Gemm on matrix units (tensor cores): the tile program of such products, for NVIDIA devices of compute
 * capability 8.0 and later, whose dialect writes copies and products as inline PTX.
 *
 * Measured on an H100 at 4096, written by hand: 264 to 314 TFLOP/s in float16 (cuBLAS: 729), 46 for float32 by
 * three products (tiles of float32: 40).
 *
 * This folder (`mma/`) has the template of products on matrix units, and which tile it takes. It imports
 * `parts/`, `opencl/codegen/`, `backend/tile/` and `kernel/`. `lists.ts` asks it with contractions and gets
 * plans and OpenCL C.
 */
import type { Contraction } from "../../../kernel/kernel.ts";
import { unitOf } from "../../../tile/matrix_units.ts";
import { matrixGemm, type MmaTile } from "../../../tile/programs/matrix_gemm.ts";
import { openclDialect } from "../../codegen/dialect.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import type { ContractionTemplate, TiledPlan } from "../parts/contraction_shape.ts";
import { groupGemm } from "../parts/group_gemm.ts";
import { type ContractionSize, product } from "../parts/tiling.ts";
import { mmaTiles } from "./mma_tile.ts";

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
  (emitter, c, tile) => {
    const { contracts } = openclDialect(true), unit = unitOf(c)!;
    const program = matrixGemm(
      emitter.kernel,
      c,
      tile,
      unit,
      (n) => emitter.parameter(n),
      contracts,
    );
    emitTile(emitter, program);
    return { global: [program.groups * program.items], local: [program.items] };
  },
);

/** True when matrix units win: halves nearly always, float32 where three products do. */
function isWorthwhile(c: Contraction, { m, n, k, batch }: ContractionSize): boolean {
  if (unitOf(c) === null) return false;
  const terms = product(k);
  if (c.dtype !== "float32") return terms >= MIN_TERMS;
  return Math.min(m, n) >= MIN_SIDE && terms >= MIN_TERMS &&
    batch * m * n * terms >= MIN_PRODUCTS;
}
