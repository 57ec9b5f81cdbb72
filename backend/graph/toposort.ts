/** The nodes that a value is computed from, in topological order. */
import type { Node } from "./node.ts";

/** A value is needed whose memory has been given back. */
export class GoneError extends Error {
  constructor(readonly node: Node) {
    super("The value has been disposed");
    this.name = "GoneError";
  }
}

let passes = 0;

/** The way to the node that is added just now: one for all, since there is one toposort at a time. */
const stack: Node[] = [];

/**
 * Nodes with their positions: inputs come before their users. The positions are noted in the nodes
 * themselves, so there is one toposort at a time; a new one ends the one before.
 */
export class Toposort {
  readonly order: Node[] = [];
  readonly #pass = ++passes;

  /** True for nodes that are in it. */
  has(node: Node): boolean {
    return node.pass === this.#pass;
  }

  /**
   * Adds a node and all that it is computed from, down to values in memory.
   *
   * @throws {GoneError} When a value is needed whose memory has been given back.
   */
  add(root: Node): void {
    stack.push(root);
    while (stack.length > 0) {
      const node = stack[stack.length - 1]!;
      if (node.pass === this.#pass) {
        stack.pop();
        continue;
      }
      const before = stack.length;
      if (node.storage === null) this.#pushInputs(node);
      if (stack.length > before) continue;
      if (node.op.kind === "buffer" && node.storage === null) {
        node.unspill();
        if (node.op.kind === "buffer") {
          stack.length = 0;
          throw new GoneError(node);
        }
      }
      stack.pop();
      node.pass = this.#pass;
      node.position = this.order.push(node) - 1;
    }
  }

  #pushInputs({ inputs }: Node): void {
    for (let k = inputs.length - 1; k >= 0; k--) {
      const input = inputs[k]!;
      if (input.pass !== this.#pass) stack.push(input);
    }
  }
}
