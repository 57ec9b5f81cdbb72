/**
 * Plans for a value that is read before the rest is: the kernels are those of the whole computation, but
 * only those that the value needs are run, and what the others will read is saved for them.
 */
import type { Pass, Step } from "./kernel_graph.ts";

/** The pass: the part of the kernels that is needed now, and what of it is saved. */
export const savedForBackward: Pass = (graph) => {
  const { steps, buffers, wanted, later } = graph;
  if (later.size === 0) return graph;
  const isPresent = (at: number): boolean => buffers[at]!.isPresent;
  const needed = new Set(wanted), now: Step[] = [], again = new Set<number>();
  const isSaved = (at: number): boolean => isPresent(at) || !again.has(at) && !later.has(at);
  for (const step of steps.toReversed()) {
    const isNeeded = step.outputs.some((at) => needed.has(at));
    if (isNeeded) {
      now.push(step);
      for (const at of step.inputs) needed.add(at);
    }
    // What also makes something for later will have to run again for it.
    if (!isNeeded || !step.outputs.every(isSaved)) {
      for (const at of step.inputs) again.add(at);
    }
  }
  const made = now.flatMap(({ outputs }) => outputs);
  const saved = made.filter((at) => again.has(at) && isPresent(at) && !wanted.has(at));
  return { ...graph, steps: now.reverse(), saved: new Set(saved) };
};
