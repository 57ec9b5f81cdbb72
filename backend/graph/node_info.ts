/** What the scheduler knows about the nodes that it divides into kernels. */
import type { Node } from "./node.ts";
import { primitive } from "./primitives.ts";
import { isView } from "./view.ts";

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
      return primitive(node.op.fn).cost;
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
