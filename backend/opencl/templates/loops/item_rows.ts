/**
 * One work-item a row: what fits no other template.
 *
 * This folder (`loops/`) has the templates of maps and reductions; it imports `parts/`,
 * `opencl/codegen/`, `backend/codegen/`, `kernel/` and `graph/`. `lists.ts` asks it with loop
 * kernels and gets plans and OpenCL C.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { walk } from "../../../codegen/loops.ts";
import { emitRow } from "../../../codegen/rows.ts";
import { blocksOf, isBlocked } from "../../../kernel/accumulation.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { mapOuterLoops, openRows } from "../../codegen/indices.ts";
import type { Target } from "../../../kernel/target.ts";
import { walksColumns } from "../../../kernel/row_order.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Work-items of a group. */
const GROUP = 256;
/** A line of fewer elements leaves most of a CPU's group idle; elements of a work-item that walks many. */
const MIN_LINE = 16, ITEM_ELEMENTS = 4096;

/** One work-item a row; elements are rows of one. */
export const itemRows: LoopTemplate<Planned<LoopKernel>> = {
  name: "one item a row",
  readsPacked: true,
  matches: (kernel, target) => ({ kernel, target }),
  emit: emitting((emitter, { kernel, target }) => {
    if (!target.isGpu && isShort(kernel)) return walkLines(emitter);
    const size = mapOuterLoops(emitter, target.isGpu, localSize(kernel, target));
    emitRow(emitter);
    return size;
  }),
  workItems: ({ kernel }) => extent(kernel, kernel.outer),
  variant: ({ kernel, target }) => {
    // A grid of two dimensions is not shared.
    if (!target.isGpu && kernel.outer.length > 1) return null;
    const cut = kernel.reductions.some(isBlocked) ? blocksOf(kernel)?.symbol : undefined;
    const stages = kernel.reductions.length + 1;
    return {
      key: `${localSize(kernel, target)} ${cut ?? ""}`,
      numbers: 1 + stages,
      copies: stages,
    };
  },
};

/** True for maps of several loops whose last ones are short, such as pieces that are enlarged and joined. */
function isShort({ sizes, outer, inner }: LoopKernel): boolean {
  return inner.length === 0 && outer.length > 1 && sizes[outer.at(-1)!]! < MIN_LINE;
}

/** Many lines of a few loops a work-item. */
function walkLines(emitter: Emitter): WorkSize {
  const { kernel } = emitter, { outer } = kernel;
  const lead = outer.findLastIndex((_, k) => extent(kernel, outer.slice(k)) >= MIN_LINE);
  const first = Math.max(0, lead), lines = outer.slice(first);
  const share = Math.ceil(ITEM_ELEMENTS / Math.max(1, extent(kernel, lines)));
  const items = openRows(emitter, outer.slice(0, first), share);
  walk(emitter, lines, null, () => emitRow(emitter));
  emitter.close();
  return { global: [items], local: [1] };
}

/** Few different local sizes: CPU drivers compile a kernel anew for each. */
function localSize(kernel: LoopKernel, target: Target): readonly number[] {
  const last = kernel.outer[kernel.outer.length - 1];
  if (last === undefined) return [1];
  if (target.isGpu) return [GROUP];
  if (kernel.inner.length > 0) return walksColumns(kernel, last) ? [16] : [1];
  if (kernel.outer.length === 1) return [GROUP];
  return kernel.sizes[last]! >= 64 ? [64] : [8, 8];
}
