/**
 * Running sums, products and extremes along rows: a work-item walks a row.
 *
 * This folder (`special/`) has the templates of operations whose loops carry state: scans, recurrences,
 * scatters. It imports `sorting/`, `parts/`, `opencl/codegen/`, `kernel/` and `graph/`. `lists.ts`
 * asks it with special kernels and gets plans and OpenCL C.
 */
import { isFloat } from "../../../graph/dtype.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { combinerOf } from "../../../graph/reductions.ts";
import { renderScalar } from "../../codegen/scalar_primitives.ts";
import { computeType, loadText, storeText } from "../../codegen/types.ts";
import { type Parameters, rowTemplate } from "../parts/row_kernel.ts";

type Scan = SpecialKernel & { readonly op: "scan" };

/** One work-item a row. */
export const rowScan = rowTemplate("row scan", "scan", (kernel) => kernel.rows, scan);

/** Terms of a block of a running sum. Short, since roundings within a block reach the results. */
const SCAN_BLOCK = 16;

/**
 * Running sums, products and extremes. Sums of floats are added up in blocks: what is rounded off when a
 * block is added to the sum is the start of the next block (Kahan's compensation, once a block).
 */
function scan(kernel: Scan, p: Parameters): string {
  const dtype = kernel.output.dtype;
  const T = computeType(dtype);
  const rows = p.index(kernel.rows), length = p.index(kernel.length);
  const load = loadText("a0", kernel.inputs[0]!, "i");
  const head = `  if (row >= ${rows}) return;
  const Index end = (row + 1) * ${length};`;
  if (kernel.fn !== "sum") {
    return `${head}
  Index i = row * ${length};
  ${T} so = ${load};
  for (;;) {
    ${storeText("o0", dtype, "i", "so")}
    if (++i >= end) break;
    so = ${renderScalar(combinerOf(kernel.fn), ["so", load], dtype, dtype)};
  }`;
  }
  if (!isFloat(dtype)) {
    return `${head}
  ${T} sum = 0;
  for (Index i = row * ${length}; i < end; ++i) {
    sum += ${load};
    ${storeText("o0", dtype, "i", "sum")}
  }`;
  }
  const block = (count: string): string =>
    `for (int k = 0; k < ${count}; ++k, ++i) {
      part += ${load};
      ${storeText("o0", dtype, "i", "sum + part")}
    }`;
  return `${head}
  ${T} sum = 0, part = 0;
  Index i = row * ${length};
  while (i + ${SCAN_BLOCK} <= end) {
    ${block(`${SCAN_BLOCK}`)}
    const ${T} next = sum + part, added = next - sum;
    part = (sum - (next - added)) + (part - added);
    if (part != part) part = 0;
    sum = next;
  }
  const int left = (int)(end - i);
  ${block("left")}`;
}
