/**
 * The part of a graph that is replayed and the part that is followed anew. What a graph reads on its way, a
 * count of boxes or a condition, decides what comes after it; what comes before is the same for all inputs
 * of the same shapes.
 */
import type { Tensor } from "../../core/mod.ts";
import { type OnnxData, Value } from "./core/value.ts";
import type { OnnxType } from "./format/types.ts";
import type { NodeProto } from "./format/schema.ts";
import { namesOf } from "./folding.ts";

/** A graph for inputs of some shapes, in two parts. */
export interface SplitGraph {
  /** Nodes that read nothing, in order. */
  readonly steady: readonly NodeProto[];
  /** Nodes that read values, and those that depend on them. */
  readonly rest: readonly NodeProto[];
  /** Tensors of the first part that the second or a caller needs, with their types. */
  readonly crossing: ReadonlyMap<string, OnnxType>;
  /** Values of the first part that are known on the host as soon as shapes are. */
  readonly known: ReadonlyMap<string, OnnxData>;
}

/**
 * Splits a graph that ran once.
 *
 * @param nodes Its nodes.
 * @param reading Those that read values on the way.
 * @param outputs Names that a caller needs.
 * @param valueOf The values that it had.
 */
export function splitGraph(
  nodes: readonly NodeProto[],
  reading: ReadonlySet<NodeProto>,
  outputs: readonly string[],
  valueOf: (name: string) => OnnxData,
): SplitGraph {
  const open = new Set<string>(), steady: NodeProto[] = [], rest: NodeProto[] = [];
  for (const node of nodes) {
    const made = node.output.filter((name) => name !== "");
    // Lists cross over as little as what follows from values.
    const isSteady = !reading.has(node) && !namesOf(node).some((name) => open.has(name)) &&
      made.every((name) => valueOf(name) instanceof Value);
    (isSteady ? steady : rest).push(node);
    if (!isSteady) made.forEach((name) => open.add(name));
  }
  const needed = new Set([...rest.flatMap(namesOf), ...outputs]);
  const crossing = new Map<string, OnnxType>(), known = new Map<string, OnnxData>();
  for (const name of steady.flatMap(({ output }) => output)) {
    if (!needed.has(name)) continue;
    const value = valueOf(name) as Value;
    if (value.isOnHost) known.set(name, value);
    else crossing.set(name, value.type);
  }
  return { steady, rest, crossing, known };
}

/** The values of the first part, as the second takes them. */
export function crossed(
  { crossing, known }: SplitGraph,
  tensors: Readonly<Record<string, Tensor>>,
): [string, OnnxData][] {
  const own = [...crossing].map(([name, type]): [string, OnnxData] => [
    name,
    Value.of(tensors[name]!, type),
  ]);
  return [...known, ...own];
}
