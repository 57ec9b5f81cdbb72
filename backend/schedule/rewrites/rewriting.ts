/**
 * Graphs to graphs: what is computed otherwise than the program wrote it, before nodes become kernels. A
 * plan is made for the rewritten graph, and holds for every graph like the original one: nodes are known
 * by their positions, and those that a rewrite adds lie in temporaries behind them.
 *
 * This folder (`rewrites/`) imports `graph/` and `kernel/`. `schedule.ts` hands it a sorted graph and gets another.
 */
import type { DType } from "../../graph/dtype.ts";
import { Node } from "../../graph/node.ts";
import type { Op } from "../../graph/op.ts";
import type { Shape } from "../../graph/shape.ts";

/** A node of a plan alone: no value is kept for it. */
export function planned(op: Op, inputs: readonly Node[], shape: Shape, dtype: DType): Node {
  return new Node(op, inputs, shape, dtype, false);
}

/** A node that a rewrite adds: its buffer lies behind those of the graph's nodes, in this order. */
export interface AddedNode {
  readonly node: Node;
  /** Place in the order of the program, after what it is made of. */
  readonly made: number;
}

/** A graph that is computed in place of another. */
export interface Rewritten {
  /** In topological order. */
  readonly order: readonly Node[];
  /** Those that stand for what was asked for. */
  readonly roots: readonly Node[];
  readonly added: readonly AddedNode[];
}

/** A graph, what is asked of it, and what is computed in place of some of its nodes. */
export class Rewriting {
  readonly #roots: readonly Node[];
  readonly #count: number;
  readonly #replaced = new Map<Node, Node>();

  /**
   * @param order Nodes in topological order, at their positions.
   * @param roots Those that are asked for.
   * @param count Positions that are taken; by default those of the nodes.
   */
  constructor(order: readonly Node[], roots: readonly Node[], count = order.length) {
    this.#roots = roots;
    this.#count = count;
  }

  /** True once anything is computed otherwise. */
  get isChanged(): boolean {
    return this.#replaced.size > 0;
  }

  /** Has `node` computed as `by` says, an expression of the graph's nodes that does not depend on it. */
  replace(node: Node, by: Node): void {
    this.#replaced.set(node, by);
  }

  /** The node that is computed for another: itself, unless it is replaced. */
  at(node: Node): Node {
    return this.#replaced.get(node) ?? node;
  }

  /** The nodes that are computed, inputs before their users. */
  sorted(): Node[] {
    const order: Node[] = [], done = new Set<Node>(), stack = this.#roots.map((r) => this.at(r));
    stack.reverse();
    while (stack.length > 0) {
      const node = stack.at(-1)!;
      const open = done.has(node) ? [] : this.#inputsOf(node).filter((input) => !done.has(input));
      if (open.length > 0) stack.push(...open.reverse());
      else {
        stack.pop();
        if (!done.has(node)) order.push(node);
        done.add(node);
      }
    }
    return order;
  }

  #inputsOf(node: Node): Node[] {
    return node.isLeaf ? [] : node.inputs.map((input) => this.at(input));
  }

  /**
   * The rewritten graph.
   *
   * @param program Places of new nodes in the order of the program; by default they follow what they are made of.
   */
  finish(program: ReadonlyMap<Node, number> = new Map()): Rewritten {
    const order: Node[] = [], added: AddedNode[] = [];
    const places = new Map<Node, number>(), made = new Map<Node, Node>();
    for (const [node, by] of this.#replaced) places.set(by, node.position);
    const known = (node: Node): Node => made.get(this.at(node))!;
    const madeAt = ({ position, id }: Node): number => added[position - this.#count]?.made ?? id;
    for (const node of this.sorted()) {
      const inputs = node.isLeaf ? node.inputs : node.inputs.map(known);
      const isSame = node.inputs.every((input, k) => input === inputs[k]);
      const present = isSame ? node : planned(node.op, inputs, node.shape, node.dtype);
      made.set(node, present);
      order.push(present);
      // Those of the graph itself were put in an order; others have their place from here on.
      present.position = node.pass > 0
        ? node.position
        : places.get(node) ?? this.#count + added.length;
      // It is in the order from now on, for the next rewrite.
      present.pass = node.pass || this.#roots[0]!.pass;
      if (present.position < this.#count) continue;
      const place = program.get(node) ?? Math.max(...inputs.map(madeAt));
      added.push({ node: present, made: place });
    }
    return { order, roots: this.#roots.map(known), added };
  }
}
