/**
 * Gemm on matrix units: the tile program of such products. On NVIDIA devices of compute capability 8.0 and later
 * the dialect writes copies and products as inline PTX, for AMD's and Intel's units it calls their compilers'
 * functions. Those were compiled for their devices and held by the interpreter, but never ran on one.
 *
 * Measured on an H100 at 4096, written by hand: 264 to 314 TFLOP/s in float16 (cuBLAS: 729), 46 for float32 by
 * three products (tiles of float32: 40).
 *
 * This folder (`mma/`) has the template of products on matrix units, and which tile it takes. It imports
 * `parts/`, `opencl/codegen/`, `backend/tile/` and `kernel/`. `lists.ts` asks it with contractions and gets
 * plans and OpenCL C.
 */
import type { Contraction } from "../../../kernel/kernel.ts";
import type { MatrixUnits } from "../../../kernel/target.ts";
import { matrixUnits, unitOf } from "../../../tile/matrix_units.ts";
import { matrixGemm, type MmaTile } from "../../../tile/programs/matrix_gemm.ts";
import { matrixAttributes } from "../../codegen/units/matrix_helpers.ts";
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
  (c, shape, { matrixUnits: units }) => units !== null && isWorthwhile(c, shape, units),
  (emitter, c, tile, { matrixUnits: units }) => {
    const { kernel, dialect: { contracts } } = emitter, unit = unitOf(c, units!)!;
    const program = matrixGemm(kernel, c, tile, unit, (n) => emitter.parameter(n), contracts);
    const ring = matrixUnits[unit.name].readsTogether ? "MMA" : "RING";
    const attributes = matrixAttributes[units!] ?? "";
    return { ...emitTile(emitter, program, undefined, ring), attributes };
  },
);

/** True when matrix units win: halves nearly always, float32 where three products do. */
function isWorthwhile(
  c: Contraction,
  { m, n, k, batch }: ContractionSize,
  units: MatrixUnits,
): boolean {
  if (unitOf(c, units) === null) return false;
  const terms = product(k);
  if (c.dtype !== "float32") return terms >= MIN_TERMS;
  return Math.min(m, n) >= MIN_SIDE && terms >= MIN_TERMS &&
    batch * m * n * terms >= MIN_PRODUCTS;
}
