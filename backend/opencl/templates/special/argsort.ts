/** Sorting by counting: a work-item orders a row. */
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { computeType, loadText } from "../../codegen/types.ts";
import { type Parameters, rowTemplate } from "../parts/row_kernel.ts";

type Argsort = SpecialKernel & { readonly op: "argsort" };

/** One work-item a row. */
export const rowArgsort = rowTemplate("row argsort", "argsort", (kernel) => kernel.rows, argsort);

/**
 * Each element's place is the number of elements that come before it: quadratic in the row, but
 * stable, deterministic and without a barrier.
 */
function argsort(kernel: Argsort, p: Parameters): string {
  const dtype = kernel.inputs[0]!;
  const T = computeType(dtype);
  const rows = p.index(kernel.rows), length = p.index(kernel.length);
  const before = kernel.descending
    ? "(w > v || (w != w && v == v))"
    : "(w < v || (v != v && w == w))";
  const same = "((w == v) || (w != w && v != v))";
  return `  if (row >= ${rows}) return;
  const Index start = row * ${length};
  for (Index i = 0; i < ${length}; ++i) {
    const ${T} v = ${loadText("a0", dtype, "start + i")};
    Index place = 0;
    for (Index j = 0; j < ${length}; ++j) {
      const ${T} w = ${loadText("a0", dtype, "start + j")};
      place += ${before} || (j < i && ${same});
    }
    o0[start + place] = i;
  }`;
}
