/** The order of a graph's nodes: some programs write them as they made them, and not as they run. */
import type { GraphProto, NodeProto } from "./format/schema.ts";
import { namesOf } from "./folding.ts";

/**
 * Puts each node behind those that make its inputs, in graphs within graphs, too. Nodes that are in order
 * stay where they are; those that wait for each other do, too, and are found by {@linkcode checkNames}.
 */
export function orderNodes(graph: GraphProto): void {
  graph.node = ordered(graph.node);
  for (const { attribute } of graph.node) for (const { g } of attribute) if (g) orderNodes(g);
}

function ordered(nodes: readonly NodeProto[]): NodeProto[] {
  const makers = new Map<string, NodeProto>();
  for (const node of nodes) for (const name of node.output) if (name) makers.set(name, node);
  const placed = new Set<NodeProto>(), waiting = new Set<NodeProto>();
  // A stack of its own: a chain in reverse may be as long as the graph.
  for (const node of nodes) {
    const stack = [node];
    while (stack.length > 0) {
      const next = stack.at(-1)!;
      const open = waiting.has(next) ? [] : namesOf(next).flatMap((name) => makers.get(name) ?? [])
        .filter((maker) => !placed.has(maker) && !waiting.has(maker));
      waiting.add(next);
      // One by one: a call takes some hundred thousand arguments at most.
      for (const maker of open) stack.push(maker);
      if (open.length === 0) placed.add(stack.pop()!);
    }
  }
  return [...placed];
}
