/** Col2im, the gradient of im2col: every element sums what the windows took from it. */
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { stridesOf } from "../../../graph/shape.ts";
import { computeType, loadText, storageType, storeText } from "../../codegen/types.ts";
import { type Parameters, rowTemplate } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";

type Col2im = SpecialKernel & { readonly op: "col2im" };

/**
 * A line of the result an item of CPU devices: taps are added to it one after the other, none of which asks
 * whether an element has it (PoCL 3.1, two cores, 512 images of 58x58 by 3x3 in steps of 2: 8 ms, 2).
 */
export const lineCol2im: SpecialTemplate<Planned<Col2im>> = {
  ...rowTemplate(
    "col2im by lines",
    "col2im",
    ({ output, shape }) => output.size / shape.at(-1)!,
    addLines,
  ),
  matches: (kernel, target) =>
    !target.isGpu && kernel.op === "col2im" && kernel.output.size > 0 &&
      storageType(kernel.output.dtype) === computeType(kernel.output.dtype)
      ? { kernel, target }
      : null,
};

/** One work-item an element. */
export const elementCol2im = rowTemplate(
  "col2im",
  "col2im",
  (kernel) => kernel.output.size,
  col2im,
);

/** One work-item an element of the result: it sums what every window took from it. */
function col2im(kernel: Col2im, p: Parameters): string {
  const { dtype, size } = kernel.output, spatial = kernel.shape.length;
  const axes = range(spatial);
  return [
    `  if (row >= ${p.index(size)}) return;`,
    ...placeElement(kernel, p, spatial),
    `  ${computeType(dtype)} sum = 0;`,
    ...axes.flatMap((k) => openTaps(kernel, p, k)),
    `  sum += ${loadText("a0", kernel.inputs[0]!, sourceText(kernel, p, spatial))};`,
    ...axes.map(() => "  }"),
    `  ${storeText("o0", dtype, "row", "sum")}`,
  ].join("\n");
}

/** One work-item a line of the result. */
function addLines(kernel: Col2im, p: Parameters): string {
  const last = kernel.shape.length - 1, n = kernel.shape[last]!, axes = range(last);
  const [positions, size, stride, dilation] = [
    kernel.positions,
    kernel.kernel,
    kernel.stride,
    kernel.dilation,
  ].map((of) => p.index(of[last]!)) as [string, string, string, string];
  const strides = sourceStrides(kernel);
  const element = `from + w * ${p.index(strides[last]!)} + t * ${p.index(strides[2 * last + 1]!)}`;
  return [
    `  if (row >= ${p.index(kernel.output.size / n)}) return;`,
    ...placeElement(kernel, p, last),
    `  global ${storageType(kernel.output.dtype)}* line = o0 + row * ${p.index(n)};`,
    `  for (Index x = 0; x < ${p.index(n)}; ++x) line[x] = 0;`,
    ...axes.flatMap((k) => openTaps(kernel, p, k)),
    `  const Index from = ${sourceText(kernel, p, last)};`,
    `  for (Index t = 0; t < ${size}; ++t)`,
    `    for (Index w = 0; w < ${positions}; ++w)`,
    `      line[w * ${stride} + t * ${dilation}] += ${loadText("a0", kernel.inputs[0]!, element)};`,
    ...axes.map(() => "  }"),
  ].join("\n");
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, k) => k);
}

/** The steps of windows, then of their elements, in the source. */
function sourceStrides(kernel: Col2im): readonly number[] {
  return stridesOf([...kernel.positions, ...kernel.kernel]);
}

/** Declares the place of element `row` along the first axes, and what is before them, `rest`. */
function placeElement(kernel: Col2im, p: Parameters, axes: number): string[] {
  return [
    "  Index rest = row;",
    ...range(axes).reverse().map((k) => {
      const n = p.index(kernel.shape[k]!);
      return `  const Index x${k} = rest % ${n}; rest /= ${n};`;
    }),
  ];
}

/** Opens the loop over the taps along an axis whose windows have the element. */
function openTaps(kernel: Col2im, p: Parameters, k: number): string[] {
  const stride = p.index(kernel.stride[k]!), positions = p.index(kernel.positions[k]!);
  return [
    `  for (Index t${k} = 0; t${k} < ${p.index(kernel.kernel[k]!)}; ++t${k}) {`,
    `  const Index at${k} = x${k} - t${k} * ${p.index(kernel.dilation[k]!)};`,
    `  const Index w${k} = at${k} / ${stride};`,
    `  if (at${k} < 0 || w${k} * ${stride} != at${k} || w${k} >= ${positions}) continue;`,
  ];
}

/** Place of a window tap's element in the source, by the first axes. */
function sourceText(kernel: Col2im, p: Parameters, axes: number): string {
  const source = [...kernel.positions, ...kernel.kernel], strides = sourceStrides(kernel);
  const spatial = kernel.shape.length, total = source.reduce((a, b) => a * b, 1);
  return [
    `rest * ${p.index(total)}`,
    ...range(axes).flatMap((k) => [
      `w${k} * ${p.index(strides[k]!)}`,
      `t${k} * ${p.index(strides[spatial + k]!)}`,
    ]),
  ].join(" + ");
}
