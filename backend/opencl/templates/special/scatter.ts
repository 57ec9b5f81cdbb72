/** Scatters: a work-item takes a line of the result along the axis, with all its sources. */
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { opCode } from "../../../graph/index_error.ts";
import { stridesOf } from "../../../graph/shape.ts";
import { loadText, storeText } from "../../codegen/types.ts";
import { type Parameters, rowTemplate } from "../parts/row_kernel.ts";

type Scatter = SpecialKernel & { readonly op: "scatter" };

/** One work-item a line. */
export const lineScatter = rowTemplate("line scatter", "scatter", linesOf, scatter);

/** Lines along the axis: one for each of the other coordinates of the result. */
function linesOf({ shape, axis }: Scatter): number {
  return shape.reduce((n, size, k) => k === axis ? n : n * size, 1);
}

/**
 * One work-item per line along the axis, over all other coordinates of the result: it copies the
 * base, then adds its sources in order. No two items write the same element, so sums are
 * deterministic.
 */
function scatter(kernel: Scatter, p: Parameters): string {
  const { shape, sourceShape, indexStrides, axis } = kernel;
  const dtype = kernel.output.dtype;
  const others = shape.map((_, k) => k).filter((k) => k !== axis);
  const strides = stridesOf(shape), sourceStrides = stridesOf(sourceShape);
  const lines = [
    `  if (row >= ${p.index(linesOf(kernel))}) return;`,
    "  Index rest = row, base = 0, at = 0, index = 0, skip = 0;",
  ];
  for (const k of others.toReversed()) {
    const n = p.index(shape[k]!);
    lines.push(
      `  { const Index i = rest % ${n}; rest /= ${n}; base += i * ${
        p.index(strides[k]!)
      }; at += i * ${p.index(sourceStrides[k]!)}; index += i * ${
        p.index(indexStrides[k]!)
      }; skip |= i >= ${p.index(sourceShape[k]!)}; }`,
    );
  }
  const step = p.index(strides[axis]!), count = p.index(shape[axis]!);
  const sourceStep = p.index(sourceStrides[axis]!), sourceCount = p.index(sourceShape[axis]!);
  const indexStep = p.index(indexStrides[axis]!);
  const target = `base + j * ${step}`;
  lines.push(
    `  for (Index j = 0; j < ${count}; ++j) { ${
      storeText("o0", dtype, target, loadText("a0", dtype, target))
    } }`,
    "  if (skip) return;",
    `  for (Index s = 0; s < ${sourceCount}; ++s) {`,
    `    const Index from = at + s * ${sourceStep};`,
    `    const Index j = checked_index((long)a1[index + s * ${indexStep}], ${count}, (int)${
      p.index(opCode(kernel.opName))
    }, errors);`,
    `    ${
      storeText(
        "o0",
        dtype,
        target,
        kernel.mode === "add"
          ? `${loadText("o0", dtype, target)} + ${loadText("a2", dtype, "from")}`
          : loadText("a2", dtype, "from"),
      )
    }`,
    "  }",
  );
  return lines.join("\n");
}
