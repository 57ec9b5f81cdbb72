/**
 * Operands that matrix units read in another form are prepared once for kernels near each other: both gradients
 * of a product read that of its result.
 */
import type { LoopKernel, PreparedOperand } from "../../kernel/kernel.ts";
import type { PlanningDevice } from "../../kernel/template.ts";
import type { KernelGraph, Pass, Step } from "./kernel_graph.ts";

/** Kernels further apart would hold in memory what is soon prepared again. */
const MAX_DISTANCE = 12;

/** Prepared scratch, and the last kernel that has used it, by number. */
interface Prepared {
  readonly buffer: number;
  readonly used: number;
}

/** The pass: kernels are in the order in which they run, and have their scratch. */
export const sharePrepared: Pass = (graph, device) => {
  // What is computed later runs without what these kernels leave.
  if (!device.target.warpgroups || device.planKernel === null || graph.later.size > 0) return graph;
  const known = new Map<string, Prepared>();
  const steps = graph.steps.map((step, k) => shared(step, k, known, device));
  return { ...graph, steps } satisfies KernelGraph;
};

/** A step that reads what is prepared already; notes what it prepares itself. */
function shared(
  step: Step,
  place: number,
  known: Map<string, Prepared>,
  { target, planKernel }: PlanningDevice,
): Step {
  const { kernel } = step;
  if (kernel.kind !== "loop" || kernel.contraction === null) return step;
  const scratch = planKernel!(kernel, target).scratch;
  const buffers = step.outputs.slice(step.outputs.length - scratch.length);
  const found: { readonly name: "a" | "b"; readonly own: number; readonly buffer: number }[] = [];
  scratch.forEach(({ content }, at) => {
    if (!content) return;
    const own = buffers[at]!, key = `${step.inputs[content.input]} ${content.key}`;
    const before = known.get(key), isNear = before && place - before.used <= MAX_DISTANCE;
    const buffer = isNear ? before.buffer : own;
    known.set(key, { buffer, used: place });
    if (buffer !== own) found.push({ name: content.name, own, buffer });
  });
  if (found.length === 0) return step;
  const unused = new Set(found.map(({ own }) => own));
  return {
    kernel: withPrepared(kernel, found.map(({ name }) => name)),
    inputs: [...step.inputs, ...found.map(({ buffer }) => buffer)],
    outputs: step.outputs.filter((at) => !unused.has(at)),
  };
}

/** The kernel with more inputs: prepared operands, which are numbers of 16 bits. */
function withPrepared(kernel: LoopKernel, names: readonly PreparedOperand["name"][]): LoopKernel {
  const first = kernel.inputs.length;
  return {
    ...kernel,
    inputs: [...kernel.inputs, ...names.map(() => "bfloat16" as const)],
    prepared: names.map((name, k) => ({ name, input: first + k })),
  };
}
