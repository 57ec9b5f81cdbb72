/** What the scheduler knows about the nodes that it divides into kernels. */
import type { Node } from "../graph/node.ts";
import { primitives } from "../graph/primitives.ts";
import { isView } from "../kernel/view.ts";

/** What the scheduler knows about a node. */
export interface NodeInfo {
  readonly node: Node;
  /** Position in topological order: inputs come first. */
  readonly index: number;
  readonly inputs: readonly NodeInfo[];
  /** How many distinct nodes of the schedule use it. */
  consumers: number;
  /** How many of them are in a kernel already and will not be evaluated again. */
  accounted: number;
  /** Gets a buffer: asked for, or needed by a kernel that cannot compute it itself. */
  materialized: boolean;
  /** Cost of computing an element again, in additions; Infinity where that is out of the question. */
  readonly weight: number;
  /** A reduction can be reached from it through operations that fuse. */
  readonly reduces: boolean;
  /** How it follows from one value in memory; null where it takes several large ones. */
  readonly derivation: Derivation | null;
}

/** A value that elementwise operations make of one large value, and of smaller ones that broadcast. */
export interface Derivation {
  /** The large value, which is in memory in any case; null where there is none. */
  readonly origin: Node | null;
  /** The cost of computing an element from it, in additions. */
  readonly cost: number;
}

/** Operands that are so many times smaller cost nothing to read again. */
const SMALL = 8;

/**
 * How a node follows from what is in memory in any case.
 *
 * @param node Whose derivation it is.
 * @param inputs Those of its inputs.
 * @param isStored Whether the node itself is in memory: a leaf, an operand of a product, a sum.
 */
export function derivationOf(
  node: Node,
  inputs: readonly NodeInfo[],
  isStored: boolean,
): Derivation | null {
  if (isStored) return { origin: node, cost: 0 };
  let origin: Node | null = null, cost = costOf(node);
  for (const { node: input, derivation } of inputs) {
    if (input.size * SMALL <= node.size) continue;
    if (derivation === null || origin && derivation.origin && derivation.origin !== origin) {
      return null;
    }
    origin ??= derivation.origin;
    cost += derivation.cost;
  }
  return { origin, cost };
}

/** What is known of the k-th input. */
export function inputInfo(info: NodeInfo, k: number): NodeInfo {
  const wanted = info.node.inputs[k]!;
  return info.inputs.find((candidate) => candidate.node === wanted)!;
}

/** The cost of one evaluation of a node, without its inputs. */
export function costOf(node: Node): number {
  switch (node.op.kind) {
    case "elementwise":
      return primitives[node.op.fn].cost;
    case "cast":
    case "pad":
      return 1;
    case "gather":
      return 2;
    case "random":
      return 6;
    case "buffer":
    case "data":
    case "constant":
    case "iota":
      return 0;
    default:
      return isView(node.op) ? 0 : Infinity;
  }
}
