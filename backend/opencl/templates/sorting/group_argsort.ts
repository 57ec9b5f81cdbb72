/** Argsort on GPUs: rows are sorted by groups, by digits (`radix_sort.ts`) or by merging (`group_sort.ts`). */
import { dtypes } from "../../../graph/dtype.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { KernelSequence, Planned, SpecialTemplate } from "../parts/template.ts";
import { isOneBlock, type MakeKernel, type SortedRows, sortKernels } from "./group_sort.ts";
import { type Argsort, keyBuffer, keyTypeOf, sortKey } from "./merge_argsort.ts";
import { radixSortKernels, stateSize } from "./radix_sort.ts";
import { generatedSpecial } from "../parts/row_kernel.ts";

interface GroupArgsort extends Planned<Argsort> {
  /** Bits in which keys differ, where they are sorted by digits. */
  readonly bits: number | null;
}

/** Rows of any length. */
export const groupArgsort: SpecialTemplate<GroupArgsort> = {
  name: "group argsort",
  matches: (kernel, target) =>
    target.isGpu && kernel.op === "argsort"
      ? { kernel, target, bits: target.warps ? digitBits(kernel, target.narrowEnd) : null }
      : null,
  emit: sequenceOf,
  scratch: scratchOf,
  workItems: ({ kernel }) => kernel.rows * kernel.length,
};

/** Bits in which keys differ; null where a group sorts a row by itself, or keys or places have 64 bits. */
function digitBits(kernel: Argsort, narrowEnd: number): number | null {
  const { bytes } = dtypes[kernel.inputs[0]!];
  if (isOneBlock(kernel.length) || bytes === 8 || needsWideIndices(kernel, narrowEnd)) return null;
  return bytes === 1 ? 8 : 32;
}

/** Two buffers of keys, and one of places beside the output: none where a group sorts a row by itself. */
function scratchOf({ kernel, bits }: GroupArgsort): Scratch[] {
  if (isOneBlock(kernel.length)) return [];
  const { rows, length, output } = kernel, size = rows * length;
  const key = { dtype: keyBuffer(keyTypeOf(kernel)), size };
  const buffers: Scratch[] = [key, key, { dtype: output.dtype, size }];
  if (bits !== null) buffers.push({ dtype: "int32", size: stateSize({ rows, length, bits }) });
  return buffers;
}

function sequenceOf(plan: GroupArgsort): KernelSequence {
  const { kernel, bits } = plan, key = sortKey(kernel, "i");
  const sorted: SortedRows = {
    rows: kernel.rows,
    length: kernel.length,
    keyType: keyTypeOf(kernel),
    key: () => key,
    keys: ["o1", "o2"],
    places: ["o0", "o3"],
    keepsKeys: false,
  };
  const make: MakeKernel = (...all) => generatedSpecial(plan, ...all, scratchOf(plan));
  return bits === null
    ? sortKernels(sorted, make)
    : radixSortKernels({ ...sorted, bits, state: "o4" }, make);
}
