import type { NodeInfo } from "./node_info.ts";

/** Nodes by position, the last first: consumers are met before what they consume. */
export class InfoHeap {
  readonly #items: NodeInfo[] = [];

  push(info: NodeInfo): void {
    const items = this.#items;
    let at = items.push(info) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (items[parent]!.index >= items[at]!.index) break;
      [items[parent], items[at]] = [items[at]!, items[parent]!];
      at = parent;
    }
  }

  pop(): NodeInfo | undefined {
    const items = this.#items;
    const top = items[0];
    const last = items.pop();
    if (!top || !last || items.length === 0) return top;
    items[0] = last;
    for (let at = 0;;) {
      const left = 2 * at + 1, right = left + 1;
      let best = at;
      if (left < items.length && items[left]!.index > items[best]!.index) best = left;
      if (right < items.length && items[right]!.index > items[best]!.index) best = right;
      if (best === at) return top;
      [items[best], items[at]] = [items[at]!, items[best]!];
      at = best;
    }
  }
}
