import { backendOf, Node, realize, type Saved } from "../../backend/internal.ts";
import { releasingTogether } from "../../memory/mod.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";
import { realizeAll } from "../execution/realization.ts";

/** Pending values that a compiled call was given before: they are worth keeping. */
const met = new WeakSet<Node>();

/**
 * Values of pending arguments, in memory for one call. A batch that is a view or has just been computed is
 * mostly given once, and its tensor waits for the collector afterwards: so its value goes with the call, and
 * is computed again in the rare case that somebody asks for it. What is given a second time stays.
 */
export class GivenValues implements Saved, Disposable {
  /** They go with the call, whoever has read them. */
  readonly isUsed = false;
  readonly #nodes: readonly Node[];

  /** Has the values of a call's arguments in memory, all on one device or each on its own. */
  constructor(given: readonly Tensor[]) {
    const fleeting = new Set<Node>(), lasting: Tensor[] = [];
    for (const tensor of given) {
      const node = nodeOf(tensor);
      if (fleeting.has(node)) continue;
      if (isFleeting(tensor, node)) fleeting.add(node);
      else lasting.push(tensor);
    }
    realizeAll(lasting);
    // What lasts may have brought one of these into memory: then it lasts, too.
    this.#nodes = [...fleeting].filter(({ storage }) => storage === null);
    if (this.#nodes.length > 0) this.#compute(given[0]!);
  }

  #compute({ device }: Tensor): void {
    const copies = this.#nodes.map(({ op, inputs, shape, dtype }) => {
      return new Node(op, inputs, shape, dtype);
    });
    for (const copy of copies) copy.hold();
    try {
      realize(backendOf(device), copies);
      this.#nodes.forEach((node, k) => node.save(copies[k]!.storage!.retain(), this));
    } finally {
      for (const copy of copies) copy.drop();
    }
  }

  /** A backward that reads them may come as long as the call runs. */
  use(): void {}

  /** They are read by the call: memory that is short waits for its end. */
  release(): void {}

  /** See {@linkcode GivenValues.release}. */
  pin(): void {}

  /** See {@linkcode GivenValues.release}. */
  unpin(): void {}

  /** The call is over. */
  [Symbol.dispose](): void {
    releasingTogether(() => {
      for (const node of this.#nodes) if (node.saved === this) node.forget();
    });
  }
}

/** True for a value that is computed for one call. */
function isFleeting(tensor: Tensor, node: Node): boolean {
  if (node.storage !== null || node.owner?.isVariable === true) return false;
  if (stateOf(tensor).gradFn !== null || met.has(node)) return false;
  met.add(node);
  return node.op.kind !== "buffer";
}

/** True for a tensor whose value is in memory for a call that was given it. */
export function isGiven(tensor: Tensor): boolean {
  return nodeOf(tensor).saved instanceof GivenValues;
}
