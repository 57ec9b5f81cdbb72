/** Common part of work-groups' gemms: tiles over all rows and columns, a tile a group. */
import type { Emitter } from "../../../codegen/emit.ts";
import type { Contraction } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import {
  type ContractionTemplate,
  groupShape,
  isTileable,
  type TiledPlan,
  withoutFreeBatch,
} from "./contraction_shape.ts";
import { productVariant } from "./product_variant.ts";
import { type ContractionSize, tileCount, tileOf, type TileRule } from "./tiling.ts";
import { emitting } from "./template.ts";

/** The rows and columns of a group's tile. */
interface GroupTile {
  readonly bm: number;
  readonly bn: number;
}

/**
 * A template of GPUs in which a work-group computes a tile.
 *
 * @param fits Whether it should compute a contraction, whose free batch loops are rows or columns.
 * @param write Appends the body to the emitter.
 */
export function groupGemm<T extends GroupTile>(
  name: string,
  rule: TileRule<T>,
  fits: (c: Contraction, shape: ContractionSize, target: Target) => boolean,
  write: (emitter: Emitter, c: Contraction, tile: T, target: Target) => WorkSize,
): ContractionTemplate<TiledPlan<T>> {
  return {
    name,
    matches: (kernel, target) => {
      if (!target.isGpu || !isTileable(kernel, target)) return null;
      const c = withoutFreeBatch(kernel.contraction!);
      const shape = groupShape(kernel, rule.kind, c);
      return fits(c, shape, target)
        ? { kernel, target, shape, tile: tileOf(rule, shape, target) }
        : null;
    },
    emit: emitting((emitter, { kernel, target, tile }) =>
      write(emitter, withoutFreeBatch(kernel.contraction!), tile, target)
    ),
    workItems: ({ shape, tile }) => tileCount(shape, tile.bm, tile.bn),
    variant: ({ kernel, tile }) => productVariant(kernel, tile, Math.max(tile.bm, tile.bn)),
  };
}
