/** Plans the scratch of kernels that need some: buffers that live while the kernel runs. */
import type { Pass, Step } from "./kernel_graph.ts";

/** The pass: scratch stands behind the outputs of its kernel, and dies with it. */
export const planScratch: Pass = (graph, { target, planKernel }) => {
  if (planKernel === null) return graph;
  const buffers = graph.buffers.slice();
  const steps = graph.steps.map((step): Step => {
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
