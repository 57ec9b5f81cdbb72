/**
 * Live objects of a kind, for those who must end all of them, also those that a user made by
 * hand.
 *
 * @module
 */

/** The live objects of one kind. Weak, so that a forgotten one can still be collected. */
export class Registry<T extends { readonly released: boolean }> {
  readonly #objects = new Set<WeakRef<T>>();
  readonly #listeners = new Set<(object: T) => void>();

  /** Called by every new object. */
  add(object: T): void {
    for (const reference of this.#objects) {
      if (reference.deref()?.released ?? true) this.#objects.delete(reference);
    }
    this.#objects.add(new WeakRef(object));
    for (const listener of this.#listeners) listener(object);
  }

  /** Those that are not released. */
  live(): T[] {
    return [...this.#objects].map((reference) => reference.deref())
      .filter((object): object is T => object !== undefined && !object.released);
  }

  /** Calls back whenever one is made, until the result is disposed of. */
  onAdded(listener: (object: T) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}
