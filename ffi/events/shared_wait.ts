/**
 * Waits that many callers share, so that they occupy one thread.
 *
 * @module
 */

/** Waits for everything so far: at most one wait runs at a time, and one more is due after it. */
export class SharedWait {
  readonly #wait: () => Promise<void>;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** @param wait Begins a wait for everything that was there when it is called. */
  constructor(wait: () => Promise<void>) {
    this.#wait = wait;
  }

  /**
   * Settles when everything so far was waited for. The wait that runs may not cover what came since
   * it began, so later callers share the next one.
   */
  join(): Promise<void> {
    if (this.#running === null) return this.#begin();
    return this.#next ??= this.#running.then(() => this.#begin(), () => this.#begin());
  }

  #begin(): Promise<void> {
    this.#next = null;
    return this.#running = this.#wait().finally(() => this.#running = null);
  }
}
