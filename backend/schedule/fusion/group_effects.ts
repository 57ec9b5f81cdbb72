/** A group's decisions about nodes outside while it grows: none counts before it is taken. */
import type { NodeInfo } from "./node_info.ts";

/** Nodes that must be in memory for a group, and users that it serves. */
export class GroupEffects {
  /** Nodes that must be in memory before the group runs, beside those that are in any case. */
  readonly stores = new Set<NodeInfo>();
  /** Nodes one of whose users is computed in the group and nowhere else; once for each such user. */
  readonly served: NodeInfo[] = [];
  readonly #root: NodeInfo;
  readonly #counts = new Map<NodeInfo, number>();
  readonly #done = new Set<NodeInfo>();

  /** @param root What the group stores. */
  constructor(root: NodeInfo) {
    this.#root = root;
  }

  /** True for a node that gets a buffer. */
  isMaterialized(info: NodeInfo): boolean {
    return info.materialized || this.stores.has(info);
  }

  /** The node's value must be in memory. */
  store(info: NodeInfo): void {
    if (!info.node.isLeaf && !info.materialized) this.stores.add(info);
  }

  /** True when all users of a node are in groups that will not be evaluated again. */
  isServed(info: NodeInfo): boolean {
    return info.accounted + (this.#counts.get(info) ?? 0) === info.consumers;
  }

  /** Tells the inputs that this node is done with them, once nobody will evaluate it again. */
  serve(info: NodeInfo): void {
    if (info !== this.#root && !this.isServed(info) || this.#done.has(info)) return;
    this.#done.add(info);
    for (const input of info.inputs) {
      this.served.push(input);
      this.#counts.set(input, (this.#counts.get(input) ?? 0) + 1);
    }
  }
}
