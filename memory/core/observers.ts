import type { LiveBlock, PoolObserver } from "./pool.ts";

/** The observers of one pool as one: each gets every call, oldest first. */
export class PoolObservers implements PoolObserver {
  /** `null` for none: the usual case, so that the check is one comparison. */
  #observers: readonly PoolObserver[] | null = null;

  /** Tells `observer` of everything from now on, until the result is disposed of. */
  add(observer: PoolObserver): Disposable {
    // A new array each time: an observer may come or go while another one is being told.
    this.#observers = [...this.#observers ?? [], observer];
    return {
      [Symbol.dispose]: () => {
        const others = (this.#observers ?? []).filter((other) => other !== observer);
        this.#observers = others.length > 0 ? others : null;
      },
    };
  }

  /** A block was handed out. */
  allocated(block: LiveBlock): void {
    if (this.#observers === null) return;
    for (const observer of this.#observers) observer.allocated(block);
  }

  /** A block came back. */
  released(block: LiveBlock): void {
    if (this.#observers === null) return;
    for (const observer of this.#observers) observer.released(block);
  }

  /** The driver gave a segment. */
  reserved(segment: number, nbytes: number): void {
    for (const observer of this.#observers ?? []) observer.reserved(segment, nbytes);
  }

  /** A segment went back to the driver. */
  unreserved(segment: number, nbytes: number): void {
    for (const observer of this.#observers ?? []) observer.unreserved(segment, nbytes);
  }

  /** An allocation found no memory, whatever was tried. */
  exhausted(nbytes: number): void {
    for (const observer of this.#observers ?? []) observer.exhausted(nbytes);
  }
}
