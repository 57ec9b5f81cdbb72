/**
 * One work-item a row: what fits no other template.
 *
 * This folder (`loops/`) has the templates of maps and reductions; it imports `parts/`,
 * `opencl/codegen/`, `backend/codegen/`, `kernel/` and `graph/`. `lists.ts` asks it with loop
 * kernels and gets plans and OpenCL C.
 */
import { emitRow } from "../../../codegen/rows.ts";
import { blocksOf, isBlocked } from "../../../kernel/accumulation.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { mapOuterLoops } from "../../codegen/indices.ts";
import type { Target } from "../../../kernel/target.ts";
import { walksColumns } from "../../../kernel/row_order.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Work-items of a group. */
const GROUP = 256;

/** One work-item a row; elements are rows of one. */
export const itemRows: LoopTemplate<Planned<LoopKernel>> = {
  name: "one item a row",
  readsPacked: true,
  matches: (kernel, target) => ({ kernel, target }),
  emit: emitting((emitter, { kernel, target }) => {
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

/** Few different local sizes: CPU drivers compile a kernel anew for each. */
function localSize(kernel: LoopKernel, target: Target): readonly number[] {
  const last = kernel.outer[kernel.outer.length - 1];
  if (last === undefined) return [1];
  if (target.isGpu) return [GROUP];
  if (kernel.inner.length > 0) return walksColumns(kernel, last) ? [16] : [1];
  if (kernel.outer.length === 1) return [GROUP];
  return kernel.sizes[last]! >= 64 ? [64] : [8, 8];
}
