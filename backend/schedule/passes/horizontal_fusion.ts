/**
 * Horizontal fusion: one launch for many kernels. Those that do the same with other buffers and sizes,
 * such as the update of every parameter of a model, need not be launched one by one.
 */
import type { HorizontalKernel, Launchable, SharedKernel } from "../../kernel/kernel.ts";
import type { HeldLimits } from "../../kernel/target.ts";
import type { KernelGraph, Pass, Step } from "./kernel_graph.ts";
import { leavesOf, shareable } from "./shareable.ts";
import { peakBytes } from "./live_bytes.ts";
import { MAX_GROWTH, type Shareable, SharedOrder } from "./shared_order.ts";

/** The pass: kernels of equal structure that do not depend on each other are launched together. */
export const fuseHorizontally: Pass = (graph, device) => {
  const { sharing } = device.target, { planKernel } = device;
  if (sharing === null || planKernel === null) return graph;
  const leaves = leavesOf(graph);
  return fuseAlike(graph, (kernel, k) => shareable(kernel, device, leaves.has(k)), sharing.held);
};

/**
 * Joins kernels that are alike and do not depend on each other: see {@linkcode SharedOrder}.
 *
 * @param limits Bytes that may be held meanwhile.
 */
export function fuseAlike(
  graph: KernelGraph,
  shareableOf: (kernel: Launchable, k: number) => Shareable | null,
  limits: HeldLimits,
): KernelGraph {
  const found = graph.steps.map(({ kernel }, k) => shareableOf(kernel, k));
  const counts = Map.groupBy(found.filter((one) => one !== null), ({ key }) => key);
  const shareables = found.map((one) => one && counts.get(one.key)!.length > 1 ? one : null);
  if (shareables.every((one) => one === null)) return graph;
  const launches = sharedLaunches(graph, shareables, limits);
  return { ...graph, steps: launches.map((members) => join(members.map((k) => graph.steps[k]!))) };
}

/** Nothing waits, and nothing runs early. */
const NOTHING_HELD: HeldLimits = { waiting: 0, early: 0, earlyOfStored: 0 };

/** The steps of each launch: where what waits would take too much memory, those that need not wait share one. */
function sharedLaunches(
  graph: KernelGraph,
  shareables: readonly (Shareable | null)[],
  limits: HeldLimits,
): readonly (readonly number[])[] {
  const early = Number.isFinite(limits.earlyOfStored) ? limits.earlyOfStored : 0;
  const most = peakBytes(graph) + MAX_GROWTH + early;
  for (const held of [limits, NOTHING_HELD]) {
    const launches = new SharedOrder(graph, shareables, held).run();
    if (peakBytes(graph, launches) <= most) return launches;
  }
  return graph.steps.map((_, k) => [k]);
}

function join(steps: readonly Step[]): Step {
  if (steps.length === 1) return steps[0]!;
  const members = steps.map(({ kernel }) => kernel as SharedKernel);
  const written = steps.map(({ outputs }) => outputs.length), { label } = members[0]!;
  const kernel: HorizontalKernel = { kind: "horizontal", members, written, label };
  return {
    kernel,
    inputs: steps.flatMap(({ inputs }) => inputs),
    outputs: steps.flatMap(({ outputs }) => outputs),
  };
}
