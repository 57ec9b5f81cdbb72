/** Facts about the nodes that the scheduler divides into kernels. */
import { dtypes } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import { primitives } from "../../graph/primitives.ts";
import { isView } from "../../kernel/view.ts";
import { isSpecial } from "./special.ts";

/** Facts about a node that the scheduler knows. */
export interface NodeInfo {
  readonly node: Node;
  /** Position in topological order: inputs come first. */
  readonly index: number;
  readonly inputs: readonly NodeInfo[];
  /** Number of distinct nodes of the schedule that use it. */
  consumers: number;
  /** Number of them in a kernel already, not evaluated again. */
  accounted: number;
  /** Gets a buffer: asked for, or needed by a kernel that cannot compute it itself. */
  materialized: boolean;
  /** Cost of computing an element again, in additions; Infinity where that is out of the question. */
  readonly recomputeCost: number;
  /** A reduction can be reached from it through operations that fuse. */
  readonly reduces: boolean;
  /** Derivation from one value in memory; null where it takes several large ones. */
  readonly derivation: Derivation | null;
}

/** A value that elementwise operations make of one large value, and of smaller ones that broadcast. */
export interface Derivation {
  /** The large value, which is in memory in any case; null where there is none. */
  readonly origin: Node | null;
  /** The cost of computing an element from it, in additions. */
  readonly cost: number;
}

/**
 * Facts about each node that fusion needs.
 *
 * @param order The nodes in topological order.
 * @param wanted Those that are asked for.
 */
export function analyse(order: readonly Node[], wanted: ReadonlySet<Node>): NodeInfo[] {
  const known = new Map<Node, NodeInfo>(), operands = operandsOf(order), shared = sharedOf(order);
  return order.map((node, index) => {
    const info = infoOf(node, index, known, { operands, shared });
    info.materialized = wanted.has(node);
    known.set(node, info);
    return info;
  });
}

/** Uses of a node by its users. */
interface Uses {
  /** See {@linkcode operandsOf}. */
  readonly operands: ReadonlySet<Node>;
  /** Those with several users. */
  readonly shared: ReadonlySet<Node>;
}

/** The nodes with several users. */
function sharedOf(order: readonly Node[]): ReadonlySet<Node> {
  const once = new Set<Node>(), shared = new Set<Node>();
  for (const { inputs } of order) {
    for (const input of new Set(inputs)) (once.has(input) ? shared : once).add(input);
  }
  return shared;
}

/** The values that kernels read from memory only, since no loop takes them in: operands of products. */
function operandsOf(order: readonly Node[]): ReadonlySet<Node> {
  const found = new Set<Node>();
  for (const { op, inputs } of order) {
    if (op.kind !== "contract" && !isSpecial(op)) continue;
    for (let input of inputs) {
      while (isView(input.op) && input.op.kind !== "pad") input = input.inputs[0]!;
      found.add(input);
    }
  }
  return found;
}

function infoOf(
  node: Node,
  index: number,
  known: ReadonlyMap<Node, NodeInfo>,
  { operands, shared }: Uses,
): NodeInfo {
  const own = node.storage ? 0 : costOf(node);
  const blank = { node, index, consumers: 0, accounted: 0, materialized: false };
  if (node.storage || node.inputs.length === 0) {
    const derivation = { origin: node.storage ? node : null, cost: own };
    return { ...blank, inputs: [], recomputeCost: own, reduces: false, derivation };
  }
  const inputs = [...new Set(node.inputs)].map((input) => known.get(input)!);
  let recomputeCost = own, reduces = node.op.kind === "reduce";
  const fuses = node.op.kind === "elementwise" || node.op.kind === "cast" || isView(node.op);
  for (const input of inputs) {
    input.consumers++;
    recomputeCost += input.recomputeCost;
    if (fuses && input.reduces) reduces = true;
  }
  const isStored = operands.has(node) || own === Infinity;
  const derivation = derivationOf(node, inputs, isStored) ??
    derivationByUse(node, recomputeCost, shared);
  return { ...blank, inputs, recomputeCost, reduces, derivation };
}

/** An operand that is this many times smaller costs nothing to read again. */
export const MIN_SIZE_RATIO = 8;

/**
 * Derivation of a node from what is in memory in any case.
 *
 * @param node Whose derivation it is.
 * @param inputs Those of its inputs.
 * @param isStored Whether the node itself is in memory: a leaf, an operand of a product, a sum.
 */
function derivationOf(
  node: Node,
  inputs: readonly NodeInfo[],
  isStored: boolean,
): Derivation | null {
  if (isStored) return { origin: node, cost: 0 };
  let origin: Node | null = null, cost = costOf(node);
  for (const { node: input, derivation } of inputs) {
    if (input.size * MIN_SIZE_RATIO <= node.size) continue;
    if (derivation === null || origin && derivation.origin && derivation.origin !== origin) {
      return null;
    }
    origin ??= derivation.origin;
    cost += derivation.cost;
  }
  return { origin, cost };
}

/** Derivation of a node from what will be in memory for its users. */
function derivationByUse(
  node: Node,
  recomputeCost: number,
  shared: ReadonlySet<Node>,
): Derivation | null {
  // What several kernels read is stored in its narrow type.
  if (isWidened(node)) return { origin: node.inputs[0]!, cost: 1 };
  // Nobody computes a product or a sum again: what follows from one is stored for several users.
  const isStored = recomputeCost === Infinity && shared.has(node);
  return isStored ? { origin: node, cost: 0 } : null;
}

/** True for a value that takes fewer bytes as what it was cast from: that is stored, if one is. */
export function isWidened({ op, dtype, inputs }: Node): boolean {
  return op.kind === "cast" && dtypes[inputs[0]!.dtype].bytes < dtypes[dtype].bytes;
}

/**
 * True when all users of a node are in kernels that will not be evaluated again: what it reads itself
 * is read for the last time then, however many of its users looked through it.
 */
export const isServed = ({ accounted, consumers }: NodeInfo): boolean => accounted === consumers;

/** Facts about the k-th input. */
export function inputInfo(info: NodeInfo, k: number): NodeInfo {
  const wanted = info.node.inputs[k]!;
  return info.inputs.find((candidate) => candidate.node === wanted)!;
}

/** The cost of one evaluation of a node, without its inputs. */
function costOf(node: Node): number {
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
    case "decode":
      return 12;
    case "buffer":
    case "data":
    case "constant":
    case "iota":
      return 0;
    default:
      return isView(node.op) ? 0 : Infinity;
  }
}
