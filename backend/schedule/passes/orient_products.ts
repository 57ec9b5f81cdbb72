/**
 * Products whose results lie along the rows of the left operand, as the gradients of transposed weights do,
 * are computed transposed: matrix units store neighbouring columns together, and what follows a product
 * reads and stores whole lines.
 */
import { coefficient } from "../../kernel/affine.ts";
import type { LoopKernel } from "../../kernel/kernel.ts";
import type { Pass } from "./kernel_graph.ts";

/** The pass, for devices with matrix units. */
export const orientProducts: Pass = (graph, { target }) =>
  target.matrixUnits !== null
    ? {
      ...graph,
      steps: graph.steps.map((step) =>
        step.kernel.kind === "loop" ? { ...step, kernel: oriented(step.kernel) } : step
      ),
    }
    : graph;

function oriented(kernel: LoopKernel): LoopKernel {
  const { contraction: c, outputs } = kernel;
  if (c === null || outputs.length === 0 || c.m.length === 0 || c.n.length === 0) return kernel;
  const liesAlong = (symbols: readonly number[]): boolean =>
    outputs.every(({ index }) => coefficient(index, symbols.at(-1)!) === 1);
  if (!liesAlong(c.m) || liesAlong(c.n)) return kernel;
  const contraction = { ...c, m: c.n, n: c.m, a: c.b, b: c.a };
  return { ...kernel, outer: [...c.batch, ...c.n, ...c.m], contraction };
}
