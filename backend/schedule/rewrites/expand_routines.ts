/** Calls of routines become what they stand for: a plan sees no difference, and a graph that is known none of it. */
import type { Node } from "../../graph/node.ts";
import type { RoutineCall } from "../../graph/op.ts";
import { nodesFor } from "../../graph/template.ts";
import { Rewriting, type Rewritten } from "./rewriting.ts";

/**
 * The graph with the nodes of each call in place of the call.
 *
 * @param order Nodes in topological order, at their positions.
 * @param roots Those that are asked for.
 */
export function expandRoutines(order: readonly Node[], roots: readonly Node[]): Rewritten {
  const rewriting = new Rewriting(order, roots), known = new Map<RoutineCall, readonly Node[]>();
  const places = new Map<Node, number>();
  for (const node of order) {
    const { op, inputs, id } = node;
    if (node.isLeaf || op.kind !== "routine") continue;
    const { template } = op.call;
    const results = known.getOrInsertComputed(op.call, () => {
      const all = nodesFor(template, inputs, false), made = all.slice(inputs.length);
      made.forEach((node, k) => places.set(node, id - 1 + (k + 1) / made.length));
      return template.results.map((at) => all[at]!);
    });
    rewriting.replace(node, results[op.output]!);
  }
  return rewriting.isChanged ? rewriting.finish(places) : { order, roots, added: [] };
}
