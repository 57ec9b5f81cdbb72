/**
 * OpenCL C for contractions. Shapes of kernel, picked by how the operands lie in memory:
 *
 * - `rows` (CPU devices): a work-item computes a tile of rows by vectors, along an axis that the
 *   right operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores
 *   it reaches OpenBLAS's speed (measured on PoCL 3.1).
 * - the same from a `window` of an operand whose padding is not in memory: convolutions.
 * - `lanes` (CPU devices): the gradient of a convolution's kernel; channels are lanes, taps are rows.
 * - `dots` (CPU devices): both operands are contiguous along the summed axis; a work-item computes a
 *   small tile of dot products with vectors along that axis.
 * - `tiles` (GPUs): a work-group computes a tile through local memory, a work-item a piece of it in
 *   registers.
 * - `mma` (GPUs with matrix units): the same by warps, on half types, and on float32 in three parts.
 *
 * What fits none of them is computed by one work-item per element.
 */
import { blocksOf } from "../../kernel/accumulation.ts";
import { dtypes, isFloat } from "../../graph/dtype.ts";
import type { Dialect, Emitter } from "../../codegen/emit.ts";
import { extent, type Load, type LoopKernel } from "../../kernel/kernel.ts";
import { walk } from "../../codegen/rows.ts";
import type { Range, Target } from "./codegen.ts";
import { dots } from "./contraction_dots.ts";
import { laneItems, lanes } from "./contraction_lanes.ts";
import { isTiled, layoutOf, withoutFreeBatch } from "./contraction_layout.ts";
import { mma } from "./mma/contraction_mma.ts";
import { rows, windowRows } from "./contraction_rows.ts";
import { emitEpilogue } from "./contraction_text.ts";
import { tiles } from "./contraction_tiles.ts";
import { TileSums } from "../codegen/tile_sums.ts";
import { loadText } from "../codegen/dialect.ts";
import { defaultParts, partsOf, tileOf } from "./tile_choices.ts";

/** Emits the contraction with its epilogue; null where the general kernel must do. */
export function emitContraction(
  emitter: Emitter,
  dialect: Dialect,
  target: Target,
): Range | null {
  const { kernel } = emitter;
  const layout = layoutOf(kernel, target);
  switch (layout?.kind) {
    case "tiles":
      return tiles(emitter, withoutFreeBatch(kernel.contraction!), tileOf(layout.shape, target));
    case "mma":
      return mma(emitter, withoutFreeBatch(kernel.contraction!), tileOf(layout.shape, target));
    case "dots":
      return dots(emitter, dialect, tileOf(layout.shape, target), kernel.contraction!);
    case "rows":
      return rows(emitter, dialect, tileOf(layout.shape, target), layout.loops);
    case "window":
      return windowRows(emitter, dialect, layout.tiling);
    case "lanes":
      return lanes(emitter, dialect, layout.tiling);
    default:
      return null;
  }
}

/** True where a contraction of masked operands has a kernel of its own, which reads them as they are. */
export function takesPadding(kernel: LoopKernel, target: Target): boolean {
  return layoutOf(kernel, target) !== null;
}

/** In how many parts the sum of a contraction is computed, so that the whole device has work. */
export function sumParts(kernel: LoopKernel, target: Target): number {
  if (!isTiled(kernel.contraction!, target)) return 1;
  const layout = layoutOf(kernel, target);
  if (layout && layout.kind !== "lanes") return partsOf(layout.shape, target);
  const items = layout
    ? laneItems(kernel, layout.tiling)
    : Math.ceil(extent(kernel, kernel.outer) / 128);
  return defaultParts(items, extent(kernel, kernel.inner), target);
}

/** One work-item per element of the result: any types, any views. */
export function emitGeneralContraction(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  const T = dtypes[c.dtype].clCompute;
  const sums = new TileSums(
    emitter,
    T,
    ["acc"],
    isFloat(c.dtype) ? blocksOf(emitter.kernel) : null,
  );
  sums.declare();
  const operand = ({ input, dtype, form, bounds }: Load): string => {
    const text = `(${T})${loadText(`a${input}`, dtype, emitter.form(form))}`;
    return bounds.length === 0 ? text : `(${emitter.maskText(bounds)} ? ${text} : (${T})0)`;
  };
  walk(emitter, dialect, c.k, sums, () => {
    emitter.line(`acc += ${operand(c.a)} * ${operand(c.b)};`);
  });
  sums.finish();
  emitEpilogue(emitter);
}
