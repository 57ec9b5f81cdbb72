/** Rows of a few elements, such as the windows of a pooling: a work-item takes many of them. */
import type { Emitter } from "../../../codegen/emit.ts";
import { openLoop } from "../../../codegen/loops.ts";
import { emitUnrolledRow } from "../../../codegen/rows.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { openRows } from "../../codegen/indices.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Elements of a row that is written out, and of the expressions of all its elements. */
const MAX_ROW = 16, MAX_UNROLLED = 256;
/** Elements that a work-item reads. */
const ITEM_ELEMENTS = 4096;

/** Many rows a work-item, whose elements are written out. */
export const shortRows: LoopTemplate<Planned<LoopKernel>> = {
  name: "short rows",
  matches: (kernel, target) => !target.isGpu && hasShortRows(kernel) ? { kernel, target } : null,
  emit: emitting(writeRows),
  workItems: ({ kernel }) => Math.ceil(extent(kernel, kernel.outer.slice(0, -1)) / linesOf(kernel)),
  // The elements of a row are written one after the other: their number is part of the text.
  variant: ({ kernel }) => ({
    key: kernel.inner.map((s) => kernel.sizes[s]!).join("x"),
    numbers: 2,
    copies: (kernel.reductions.length + 1) * extent(kernel, kernel.inner),
  }),
};

/** True for rows of a few elements, such as the windows of a pooling. */
function hasShortRows(kernel: LoopKernel): boolean {
  const length = extent(kernel, kernel.inner);
  return kernel.inner.length > 0 && kernel.outer.length > 0 && !kernel.chunk &&
    length <= MAX_ROW && length * kernel.exprs.length <= MAX_UNROLLED;
}

/** Many rows a work-item, in loops of its own; a row's elements are written out. */
function writeRows(emitter: Emitter): WorkSize {
  const { kernel } = emitter;
  const last = kernel.outer[kernel.outer.length - 1]!;
  const items = openRows(emitter, kernel.outer.slice(0, -1), linesOf(kernel));
  openLoop(emitter, last);
  emitUnrolledRow(emitter);
  emitter.close();
  emitter.close();
  return { global: [items], local: [1] };
}

/** Lines of rows that a work-item takes. */
function linesOf(kernel: LoopKernel): number {
  const last = kernel.outer[kernel.outer.length - 1]!;
  // The row of an empty axis has no elements, and is stored as others are.
  const line = Math.max(1, kernel.sizes[last]! * extent(kernel, kernel.inner));
  return Math.ceil(ITEM_ELEMENTS / line);
}
