/** How often a device is asked whether it is done: every question takes time from the driver's threads. */

/** Part of the usual duration before the first question. */
const FIRST_POLL_SHARE = 0.75;
/** Part of the time waited so far between two questions: a wait overshoots the work by at most that. */
const POLL_INTERVAL_SHARE = 0.04;
const MIN_SLEEP_MS = 0.02;

/** When to ask in waits for the same thing, again and again: each takes much as long as the one before. */
export class Pace {
  /** How long the last wait was known to be in vain. */
  #usualMs = 0;
  #quietMs = 0;

  /**
   * Begins a wait.
   *
   * @returns How long nobody asks at first, in milliseconds.
   */
  begin(): number {
    return this.#quietMs = this.#usualMs * FIRST_POLL_SHARE;
  }

  /**
   * To be told that it was not done yet.
   *
   * @param waitedMs Since the wait began.
   * @returns How long to sleep until the next question, in milliseconds.
   */
  afterAsking(waitedMs: number): number {
    this.#usualMs = waitedMs;
    return Math.max(this.#quietMs - waitedMs, waitedMs * POLL_INTERVAL_SHARE, MIN_SLEEP_MS);
  }
}
