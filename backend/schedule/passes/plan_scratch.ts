/** Plans the scratch of kernels that need some: buffers that live while the kernel runs. */
import { bytesOf, type KernelGraph, type Pass, type Step } from "./kernel_graph.ts";

/** Bytes of a program's weights up to which it may keep what follows from them, about as much again. */
const MAX_LASTING_BYTES = 2 ** 26;

/** The pass: scratch stands behind the outputs of its kernel, and dies with it. */
export const planScratch: Pass = (graph, { target, planKernel, keepsPrepared = false }) => {
  if (planKernel === null) return graph;
  const buffers = graph.buffers.slice();
  const given = keepsPrepared ? withLasting(graph) : graph.steps;
  const steps = given.map((step): Step => {
    const { kernel, outputs } = step;
    if (kernel.kind === "horizontal" || kernel.kind === "custom") return step;
    const { made } = buffers[outputs[0]!]!;
    const scratch = planKernel(kernel, target).scratch.map(({ dtype, size }) =>
      buffers.push({ dtype, size, made, isStored: false }) - 1
    );
    return scratch.length === 0 ? step : { ...step, outputs: [...outputs, ...scratch] };
  });
  return { ...graph, buffers, steps };
};

/** The graph with steps of contractions that know their operands which were there before: weights, if they are small. */
function withLasting(graph: KernelGraph): readonly Step[] {
  const { buffers, steps } = graph, weights = new Set<number>();
  const stored = steps.map(({ kernel, inputs }): number[] => {
    if (kernel.kind !== "loop" || kernel.contraction === null) return [];
    const { a, b } = kernel.contraction;
    return [a.input, b.input].filter((input) => buffers[inputs[input]!]!.isStored);
  });
  stored.forEach((found, k) => found.forEach((input) => weights.add(steps[k]!.inputs[input]!)));
  const bytes = [...weights].reduce((sum, at) => sum + bytesOf(buffers[at]!), 0);
  if (bytes > MAX_LASTING_BYTES) return steps;
  return steps.map((step, k) =>
    step.kernel.kind !== "loop" || stored[k]!.length === 0
      ? step
      : { ...step, kernel: { ...step.kernel, lasting: stored[k]! } }
  );
}
