/**
 * Preparations of inputs are made once for kernels near each other: operands as matrix units
 * read them, since both gradients of a product read that of its result, and the order of a scatter's sources,
 * which the layers of a graph network and their gradients have in common.
 */
import type { LoopKernel, PreparedOperand, SpecialKernel } from "../../kernel/kernel.ts";
import type { PlanningDevice, Scratch } from "../../kernel/template.ts";
import type { KernelGraph, Pass, Step } from "./kernel_graph.ts";

/** Kernels further apart would hold in memory what is soon prepared again. */
const MAX_DISTANCE = 12;

/** Prepared scratch, and the last kernel that has used it, by number. */
interface Prepared {
  readonly buffer: number;
  readonly used: number;
}

/** Scratch of another kernel that a kernel reads instead of its own. */
interface Found {
  readonly scratch: Scratch;
  readonly buffer: number;
}

/** The pass: kernels are in the order in which they run, and have their scratch. */
export const sharePrepared: Pass = (graph, device) => {
  if (device.planKernel === null) return graph;
  const known = new Map<string, Prepared>();
  const steps = graph.steps.map((step, k) => shared(step, k, known, device));
  return { ...graph, steps } satisfies KernelGraph;
};

/** True for kernels that may have such scratch. */
function prepares({ kernel }: Step, { target }: PlanningDevice): boolean {
  return kernel.kind === "special"
    ? kernel.op === "scatter"
    : kernel.kind === "loop" && kernel.contraction !== null && target.warpgroups;
}

/** A step that reads what is prepared already; notes what it prepares itself. */
function shared(
  step: Step,
  place: number,
  known: Map<string, Prepared>,
  device: PlanningDevice,
): Step {
  if (!prepares(step, device)) return step;
  const kernel = step.kernel as LoopKernel | SpecialKernel;
  const { scratch } = device.planKernel!(kernel, device.target);
  const own = step.outputs.slice(step.outputs.length - scratch.length);
  const found = scratch.flatMap((each, at): Found[] => {
    const { content } = each;
    if (!content) return [];
    const key = `${step.inputs[content.input]} ${content.key}`;
    const before = known.get(key);
    const isNear = before && (content.isLasting || place - before.used <= MAX_DISTANCE);
    const buffer = isNear ? before.buffer : own[at]!;
    known.set(key, { buffer, used: place });
    return buffer === own[at] ? [] : [{ scratch: each, buffer }];
  });
  return found.length === 0 ? step : readingPrepared(step, kernel, scratch, found, device);
}

/** The step with more inputs, and without the scratch that it needs no more. */
function readingPrepared(
  { inputs, outputs }: Step,
  kernel: LoopKernel | SpecialKernel,
  scratch: readonly Scratch[],
  found: readonly Found[],
  { target, planKernel }: PlanningDevice,
): Step {
  const prepared = found.map(({ scratch: { content } }, k): PreparedOperand => ({
    name: content!.name,
    input: inputs.length + k,
  }));
  const next = {
    ...kernel,
    inputs: [...kernel.inputs, ...found.map(({ scratch: { dtype } }) => dtype)],
    prepared,
  };
  const results = outputs.length - scratch.length;
  const left = outputs.slice(results);
  const kept = planKernel!(next, target).scratch.map((needed) => {
    const at = scratch.findIndex((each, k) => left[k] !== -1 && isSame(each, needed));
    return left.splice(at, 1, -1)[0]!;
  });
  return {
    kernel: next,
    inputs: [...inputs, ...found.map(({ buffer }) => buffer)],
    outputs: [...outputs.slice(0, results), ...kept],
  };
}

function isSame(a: Scratch, b: Scratch): boolean {
  return a.dtype === b.dtype && a.size === b.size && a.content?.name === b.content?.name;
}
