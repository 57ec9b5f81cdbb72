/**
 * Horizontal fusion: one launch for many kernels. Those that do the same with other buffers and sizes,
 * such as the update of every parameter of a model, need not be launched one by one.
 */
import type { HorizontalKernel, LoopKernel } from "../../kernel/kernel.ts";
import { structureOf } from "../../kernel/structure.ts";
import { bytesMoved } from "../../kernel/analysis.ts";
import type { HeldLimits, SharingRules } from "../../kernel/target.ts";
import type { KernelPlan } from "../../kernel/template.ts";
import type { KernelGraph, Pass, Step } from "./kernel_graph.ts";
import { type Shareable, SharedOrder } from "./shared_order.ts";

/** Bytes of a launch's arguments for each buffer: its address, and where it begins. */
const BUFFER_BYTES = 12;
/** Bytes of an index among the arguments. */
const INDEX_BYTES = 4;
/** Argument bytes that a launch takes for itself. */
const LAUNCH_BYTES = 8;

/** The pass: kernels of equal structure that do not depend on each other are launched together. */
export const fuseHorizontally: Pass = (graph, device) => {
  const { target: { sharing }, planKernel } = device;
  if (sharing === null || planKernel === null) return graph;
  return fuseAlike(
    graph,
    (kernel) => shareable(kernel, planKernel(kernel, device.target), sharing),
    sharing.held,
  );
};

/** Conditions under which a kernel may share its launch. */
function shareable(
  kernel: LoopKernel,
  { name, variant }: KernelPlan,
  sharing: SharingRules,
): Shareable | null {
  if (variant === null || kernel.chunk && !sharing.sharesParts) return null;
  if (bytesMoved(kernel) > sharing.maxBytes) return null;
  const { key, numberBytes, copiedBytes } = structureOf(kernel);
  const buffers = kernel.inputs.length + kernel.outputs.length;
  // One index says where the work-groups of the kernel begin.
  const bytes = buffers * BUFFER_BYTES + numberBytes + copiedBytes * (variant.copies - 1) +
    INDEX_BYTES * (variant.numbers + 1);
  const room = sharing.argumentBytes - LAUNCH_BYTES;
  const most = Math.min(sharing.maxKernels, Math.floor(room / bytes));
  return most < 2 ? null : { key: `${name}|${variant.key}|${key}`, most };
}

/**
 * Joins kernels that are alike and do not depend on each other: see {@linkcode SharedOrder}.
 *
 * @param limits Bytes that may be held meanwhile.
 */
export function fuseAlike(
  graph: KernelGraph,
  shareableOf: (kernel: LoopKernel) => Shareable | null,
  limits: HeldLimits,
): KernelGraph {
  const found = graph.steps.map(({ kernel }) =>
    kernel.kind === "loop" ? shareableOf(kernel) : null
  );
  const counts = Map.groupBy(found.filter((one) => one !== null), ({ key }) => key);
  const shareables = found.map((one) => one && counts.get(one.key)!.length > 1 ? one : null);
  if (shareables.every((one) => one === null)) return graph;
  const launches = new SharedOrder(graph, shareables, limits).run();
  return { ...graph, steps: launches.map((members) => join(members.map((k) => graph.steps[k]!))) };
}

function join(steps: readonly Step[]): Step {
  if (steps.length === 1) return steps[0]!;
  const members = steps.map(({ kernel }) => kernel as LoopKernel);
  const kernel: HorizontalKernel = { kind: "horizontal", members, label: members[0]!.label };
  return {
    kernel,
    inputs: steps.flatMap(({ inputs }) => inputs),
    outputs: steps.flatMap(({ outputs }) => outputs),
  };
}
