/** Argsort on GPUs: rows are sorted by groups (`group_sort.ts`). */
import { dtypes } from "../../../graph/dtype.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import { generated } from "../../codegen/generated.ts";
import { computeType, loadText } from "../../codegen/types.ts";
import type { KernelSequence, Planned, SpecialTemplate } from "../parts/template.ts";
import { isOneBlock, keyBuffer, type SortedRows, sortKernels } from "./group_sort.ts";
import { type Argsort, keyText } from "./merge_argsort.ts";

/** Rows of any length. */
export const groupArgsort: SpecialTemplate<Planned<Argsort>> = {
  name: "group argsort",
  matches: (kernel, target) => target.isGpu && kernel.op === "argsort" ? { kernel, target } : null,
  emit: sequenceOf,
  scratch: ({ kernel }) =>
    scratchTypes(kernel).map((dtype) => ({ dtype, size: kernel.rows * kernel.length })),
  workItems: ({ kernel }) => kernel.rows * kernel.length,
};

/** Two buffers of keys, and one of places beside the output: none where a group sorts a row by itself. */
function scratchTypes(kernel: Argsort) {
  const key = keyBuffer(keyTypeOf(kernel));
  return isOneBlock(kernel.length) ? [] : [key, key, kernel.output.dtype];
}

function keyTypeOf({ inputs }: Argsort): SortedRows["keyType"] {
  return dtypes[inputs[0]!].bytes === 8 ? "ulong" : "uint";
}

function sequenceOf({ kernel, target }: Planned<Argsort>): KernelSequence {
  const [dtype] = kernel.inputs, keyType = keyTypeOf(kernel);
  const key = `const ${computeType(dtype!)} v = ${loadText("a0", dtype!, "i")};
      const ${keyType} key = ${kernel.descending ? "~" : ""}${keyText(kernel, "v")};`;
  const sorted: SortedRows = {
    rows: kernel.rows,
    length: kernel.length,
    keyType,
    key: () => key,
    keys: ["o1", "o2"],
    places: ["o0", "o3"],
    keepsKeys: false,
  };
  const kernels = sortKernels(sorted, (body, { list }, groups, local) =>
    generated({
      inputs: kernel.inputs,
      outputs: [kernel.output.dtype, ...scratchTypes(kernel)],
      parameters: list,
      checksIndices: false,
      isWide: needsWideIndices(kernel, target.narrowEnd),
      body,
      global: [groups * local],
      local: [local],
    }));
  return { kernels };
}
