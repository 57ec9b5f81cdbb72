/** Products of a few rows with weights in blocks of few bits: the tile program, for a CPU or a GPU. */
import { type PackedProduct, packedProduct } from "../../../kernel/forms/packed_product.ts";
import type { Target } from "../../../kernel/target.ts";
import { withExpressions } from "../../../tile/language/expression.ts";
import { gemv, gemvGroups, type GemvMapping, gemvMapping } from "../../../tile/programs/gemv.ts";
import { itemUnit, type Unit, vectorUnit } from "../../../tile/units.ts";
import { generatedLoop } from "../../codegen/generated.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import type { ContractionPlan, ContractionTemplate } from "../parts/contraction_shape.ts";
import { single } from "../parts/template.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";

/** A product with the unit that multiplies. */
interface PackedPlan extends ContractionPlan {
  readonly product: PackedProduct;
  readonly unit: Unit;
  readonly mapping: GemvMapping;
}

/** Sizes and steps of a product among the arguments of its kernel, at most. */
const MAX_NUMBERS = 16;

/** Unit that multiplies, and decodes, on a device. */
export function unitOf({ isGpu, warps, vectorWidth }: Target): Unit {
  if (isGpu) return itemUnit(warps ? "shuffle" : "local");
  return vectorUnit(vectorWidth >= 16 ? 16 : vectorWidth >= 8 ? 8 : 4);
}

/** Work-items have columns of the packed matrix, and read each weight once. */
export const packedGemv: ContractionTemplate<PackedPlan> = {
  name: "packed gemv",
  readsPacked: true,
  matches: (kernel, target) => {
    const product = packedProduct(kernel);
    if (product === null) return null;
    const unit = unitOf(target), mapping = gemvMapping(product, unit);
    return mapping && { kernel, target, shape: null, product, unit, mapping };
  },
  emit: ({ kernel, target, product, unit, mapping }) =>
    single(generatedLoop(kernel, target, (emitter) => {
      const tile = withExpressions(() =>
        gemv(product, unit, mapping, (value) => emitter.index(value))
      );
      const finish = ([row, column]: readonly string[], value: string): void => {
        decomposeInto(emitter, product.rowLoops, row!, "i");
        decomposeInto(emitter, product.columnLoops, column!, "i");
        emitter.line(`const float acc = ${value};`);
        emitEpilogue(emitter);
      };
      emitTile(emitter, tile, finish);
      return { global: [tile.groups * tile.items], local: [tile.items] };
    })),
  // Products of one row with several matrices, as of queries, keys and values, are small each.
  variant: ({ product: { format, rows, columns, terms, x, w }, unit, mapping }) => ({
    key: [
      ...[format, rows, terms, x.element, x.offset, w.offset, mapping.columns, mapping.turn],
      columns % (unit.down * mapping.columns) === 0,
    ].join(),
    numbers: MAX_NUMBERS,
    copies: 1,
  }),
  workItems: ({ product, unit, mapping }) => gemvGroups(product, unit, mapping),
  sumParts: () => 1,
};
