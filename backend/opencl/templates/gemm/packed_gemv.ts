/** Products of a few rows with weights in blocks of few bits: the tile program, for a CPU or a GPU. */
import { type PackedProduct, packedProduct } from "../../../kernel/forms/packed_product.ts";
import type { Target } from "../../../kernel/target.ts";
import {
  type PackedProgram,
  packedProgram,
  type PackedUnits,
} from "../../../tile/programs/packed/packed_programs.ts";
import { waysOf } from "../../../tile/programs/packed/packed_operand.ts";
import { itemUnit, packedUnit, type Unit, vectorUnit } from "../../../tile/units.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import type { ContractionPlan, ContractionTemplate } from "../parts/contraction_shape.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { emitting } from "../parts/template.ts";

/** A product with its program. */
interface PackedPlan extends ContractionPlan {
  readonly product: PackedProduct;
  readonly program: PackedProgram;
}

/** Lanes of whole numbers' sums: vectors of twice as many are the longest that blocks are decoded to. */
const LANES = 8;

/**
 * The units of whole numbers; null where floats are multiplied. A core with AVX2 takes 0.6 of the time of floats in
 * Q4_0 and Q4_1, 0.8 in Q4_K and Q6_K.
 */
function integerUnits({ isGpu, vectorWidth }: Target): PackedUnits["integers"] {
  if (isGpu) return null;
  const few = vectorUnit(vectorWidth < LANES ? LANES / 2 : LANES);
  return { few, many: vectorWidth > LANES ? vectorUnit(2 * LANES) : few };
}

/** Sizes and steps of a product among the arguments of its kernel, at most. */
const MAX_NUMBERS = 32;

/** Unit that decodes on a device. */
export function unitOf({ isGpu, warps, vectorWidth }: Target): Unit {
  if (isGpu) return itemUnit(warps ? "shuffle" : "local");
  return vectorUnit(vectorWidth >= 16 ? 16 : vectorWidth >= 8 ? 8 : 4);
}

/** Work-items of a GPU that share a row of the packed matrix: at most, with less for each too few bytes are under way. */
const ITEMS = { most: 128, least: 32 };
/** Warps of a compute unit, each with rows of its own, that need no sharing. */
const FULL_WARPS = 64;
/** Bytes of a row that a work-item of a GPU reads together, the most first. */
const RUNS = [16, 8, 4];
/** Elements of x that a work-item holds in registers, at most, while it reads so many columns, or else fewer. */
const MAX_INPUTS = 32, COLUMNS = 4, FEW_COLUMNS = 2;

/**
 * The unit of a product, and the columns of a work-item. On an H200 a row times 4096 x 14336 of Q4_K takes 32 us,
 * by 32 items a row 77; 4096 x 4096 of Q4_0 12.6 us, 18.
 */
function gemvUnit(
  { format, columns: all, terms }: PackedProduct,
  target: Target,
): { unit: Unit; columns?: number } {
  if (!target.isGpu) return { unit: unitOf(target) };
  const ways = waysOf(format), run = RUNS.find((n) => terms / ways % n === 0) ?? RUNS.at(-1)!;
  const columns = run * ways <= MAX_INPUTS ? COLUMNS : FEW_COLUMNS;
  const isFull = all / columns >= target.computeUnits * FULL_WARPS;
  let items = isFull ? ITEMS.least : ITEMS.most;
  while (items > ITEMS.least && items * run > terms / ways) items /= 2;
  return {
    unit: { ...packedUnit(target.warps ? "shuffle" : "local", items, run), unroll: 1 },
    columns,
  };
}

/** Work-items have columns of the packed matrix, and read each weight once. */
export const packedGemv: ContractionTemplate<PackedPlan> = {
  name: "packed gemv",
  readsPacked: true,
  matches: (kernel, target) => {
    const product = packedProduct(kernel);
    if (product === null) return null;
    const { unit, columns } = gemvUnit(product, target);
    const program = packedProgram(product, {
      ...{ cores: target.computeUnits, integers: integerUnits(target), floats: unit },
      ...columns !== undefined && { columns },
    });
    return program && { kernel, target, shape: null, product, program };
  },
  emit: emitting((emitter, { product, program }) => {
    const tile = program.write((n) => emitter.index(n));
    return emitTile(emitter, tile, ([row, column], value) => {
      decomposeInto(emitter, product.rowLoops, row!, "i");
      decomposeInto(emitter, product.columnLoops, column!, "i");
      emitter.line(`const float acc = ${value};`);
      emitEpilogue(emitter);
    });
  }),
  // Products of one row with several matrices, as of queries, keys and values, are small each.
  variant: ({ program: { key } }) => ({ key, numbers: MAX_NUMBERS, copies: 1 }),
  workItems: ({ program: { groups } }) => groups,
  sumParts: () => 1,
};
