/** A binary heap: the item with the smallest key is popped first. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #keyOf: (item: T) => number;

  /** @param keyOf The key of an item; it must not change while the item is in the heap. */
  constructor(keyOf: (item: T) => number) {
    this.#keyOf = keyOf;
  }

  /** Adds an item. */
  push(item: T): void {
    const items = this.#items, key = this.#keyOf(item);
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#keyOf(items[parent]!) <= key) break;
      items[at] = items[parent]!;
      at = parent;
    }
    items[at] = item;
  }

  /** Takes out the item with the smallest key; undefined where there is none. */
  pop(): T | undefined {
    const items = this.#items;
    const first = items[0], last = items.pop();
    if (last === undefined || items.length === 0) return first;
    const key = this.#keyOf(last);
    let at = 0;
    for (let child = 1; child < items.length; child = 2 * at + 1) {
      const right = child + 1;
      if (right < items.length && this.#keyOf(items[right]!) < this.#keyOf(items[child]!)) child++;
      if (this.#keyOf(items[child]!) >= key) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = last;
    return first;
  }
}
