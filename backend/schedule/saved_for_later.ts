/**
 * The choice of what stays for what is computed later, as gradients are for a value that is read before
 * `backward`. The kernels are those of the value alone: of each node that is read later, what lies in memory
 * nearest to it stays, and the rest is computed again.
 */
import type { Node } from "../graph/node.ts";
import { MIN_SIZE_RATIO } from "./fusion/node_info.ts";
import type { KernelGraph } from "./passes/kernel_graph.ts";

/** See {@linkcode savedForLater}. */
export interface SavedForLater {
  /** The positions of nodes whose values stay. */
  readonly saved: Set<number>;
  /** Nodes that no kernel leaves in memory, and which should stay. */
  readonly missing: readonly Node[];
}

/**
 * Goes down from each node that is read later to values in memory. Sums, products and routines are not computed
 * again, nor is what is small, such as the mean of a row, where it comes of a kernel: those of them that no kernel
 * leaves are missing.
 *
 * @param later The nodes that are read.
 * @param order All nodes, in topological order.
 * @param graph The kernels of what is asked for now.
 * @param asked The nodes that are asked for.
 */
export function savedForLater(
  later: readonly Node[],
  order: readonly Node[],
  { steps }: KernelGraph,
  asked: ReadonlySet<Node>,
): SavedForLater {
  if (later.length === 0) return { saved: new Set(), missing: [] };
  const made = new Set(steps.flatMap(({ outputs }) => outputs));
  const isMade = ({ position }: Node): boolean => made.has(position);
  /** Nodes that are not made of numbers and values in memory alone. */
  const ofKernels = new Set<Node>();
  for (const node of order) {
    if (isMade(node) || isDear(node) || node.inputs.some((input) => ofKernels.has(input))) {
      ofKernels.add(node);
    }
  }
  const largest = later.reduce((most, { size }) => Math.max(most, size), 0);
  const small = new Set(later.filter(({ size }) => size * MIN_SIZE_RATIO <= largest));
  const saved = new Set<number>(), missing: Node[] = [], below = new Set(later);
  for (const node of below) {
    if (node.isLeaf) continue;
    const isKept = isDear(node) || small.has(node) && ofKernels.has(node);
    if (isMade(node)) saved.add(node.position);
    else if (isKept && !asked.has(node)) missing.push(node);
    else for (const input of node.inputs) below.add(input);
  }
  return { saved, missing };
}

function isDear({ op: { kind } }: Node): boolean {
  return kind === "contract" || kind === "reduce" || kind === "routine";
}
