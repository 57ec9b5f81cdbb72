/** Col2im, the gradient of im2col: every element sums what the windows took from it. */
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { stridesOf } from "../../../graph/shape.ts";
import { computeType, loadText, storeText } from "../../codegen/types.ts";
import { type Parameters, rowTemplate } from "../parts/row_kernel.ts";

type Col2im = SpecialKernel & { readonly op: "col2im" };

/** One work-item an element. */
export const elementCol2im = rowTemplate(
  "col2im",
  "col2im",
  (kernel) => kernel.output.size,
  col2im,
);

/** One work-item an element of the result: it sums what every window took from it. */
function col2im(kernel: Col2im, p: Parameters): string {
  const dtype = kernel.output.dtype;
  const spatial = kernel.shape.length;
  const source = [...kernel.positions, ...kernel.kernel];
  const strides = stridesOf(source);
  const total = source.reduce((a, b) => a * b, 1);
  const lines = [
    `  if (row >= ${p.index(kernel.output.size)}) return;`,
    "  Index rest = row;",
  ];
  for (let k = spatial - 1; k >= 0; k--) {
    const n = p.index(kernel.shape[k]!);
    lines.push(`  const Index x${k} = rest % ${n}; rest /= ${n};`);
  }
  lines.push(`  ${computeType(dtype)} sum = 0;`);
  for (let k = 0; k < spatial; k++) {
    const pad = "  ".repeat(k + 1);
    lines.push(
      `${pad}for (Index t${k} = 0; t${k} < ${p.index(kernel.kernel[k]!)}; ++t${k}) {`,
      `${pad}  const Index at${k} = x${k} - t${k} * ${p.index(kernel.dilation[k]!)};`,
      `${pad}  const Index w${k} = at${k} / ${p.index(kernel.stride[k]!)};`,
      `${pad}  if (at${k} < 0 || w${k} * ${p.index(kernel.stride[k]!)} != at${k} || w${k} >= ${
        p.index(kernel.positions[k]!)
      }) continue;`,
    );
  }
  const terms = [`rest * ${p.index(total)}`];
  for (let k = 0; k < spatial; k++) {
    terms.push(`w${k} * ${p.index(strides[k]!)}`, `t${k} * ${p.index(strides[spatial + k]!)}`);
  }
  lines.push(`  sum += ${loadText("a0", kernel.inputs[0]!, terms.join(" + "))};`);
  for (let k = 0; k < spatial; k++) lines.push("  }");
  lines.push(`  ${storeText("o0", dtype, "row", "sum")}`);
  return lines.join("\n");
}
