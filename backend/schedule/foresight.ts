/**
 * Plans for a value that is read before the rest is: the kernels are those of the whole computation,
 * but only those that the value needs are run, and what the others will read is kept.
 */
import type { Node } from "../graph/node.ts";
import type { ScheduledKernel } from "./planner.ts";

/** A part of a computation. */
export interface Part {
  readonly kernels: readonly ScheduledKernel[];
  /** Results on the way that the rest of the computation reads. */
  readonly saved: ReadonlySet<Node>;
}

/**
 * The part of `kernels` that the `wanted` nodes need.
 *
 * @param kernels The whole computation, in order.
 * @param wanted What is needed now.
 * @param isPresent True for nodes that exist for good; others stand for those that will be made later.
 */
export function partFor(
  kernels: readonly ScheduledKernel[],
  wanted: ReadonlySet<Node>,
  isPresent: (node: Node) => boolean,
): Part {
  const needed = new Set<Node>(wanted), now: ScheduledKernel[] = [], again = new Set<Node>();
  for (const scheduled of kernels.toReversed()) {
    const { inputs, outputs } = scheduled;
    const isNeeded = outputs.some((node) => needed.has(node));
    if (isNeeded) {
      now.push(scheduled);
      for (const node of inputs) needed.add(node);
    }
    // What also makes something for later will have to run again for it.
    if (!isNeeded || !outputs.every(isPresent)) { for (const node of inputs) again.add(node); }
  }
  const made = now.flatMap(({ outputs }) => outputs);
  const saved = made.filter((node) => again.has(node) && isPresent(node) && !wanted.has(node));
  return { kernels: now.reverse(), saved: new Set(saved) };
}
