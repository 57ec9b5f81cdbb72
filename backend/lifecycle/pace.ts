/** Pace of a device's queries: every query takes time from the driver's threads. */

/** A wait may end so much earlier or later than a former one, as parts of that: then it is asked often. */
const EARLIEST = 0.9, LATEST = 1.5;
/** Part of the time waited so far between two questions then: a wait overshoots the work by at most that. */
const POLL_INTERVAL_SHARE = 0.04;
/** The same where no wait has ended so far, between shorter and longer ones. */
const GAP_INTERVAL_SHARE = 0.5;
const MIN_SLEEP_MS = 0.02;
/** The longest time without a question: so much later may a wait end that is shorter than all before. */
const MAX_QUIET_MS = 20;
/** Waits that are remembered. */
const MAX_KNOWN = 8;

/** Times of questions in waits for the same thing, again and again: each takes as long as one of those before. */
export class Pace {
  /** Durations of the last waits, in milliseconds. */
  readonly #known: number[] = [];

  /** Longest of these durations; Infinity before the first. */
  get longestMs(): number {
    return this.#known.length === 0 ? Infinity : Math.max(...this.#known);
  }

  /**
   * Sleep until the next query.
   *
   * @param waitedMs Since the wait began, when it was asked in vain.
   * @returns Milliseconds.
   */
  afterAsking(waitedMs: number): number {
    const often = Math.max(waitedMs * POLL_INTERVAL_SHARE, MIN_SLEEP_MS);
    let nextMs = Infinity, isFirst = true;
    for (const known of this.#known) {
      if (waitedMs >= known * LATEST) isFirst = false;
      else if (waitedMs >= known * EARLIEST) return often;
      else nextMs = Math.min(nextMs, known * EARLIEST);
    }
    if (nextMs === Infinity) return often;
    const mostMs = isFirst ? MAX_QUIET_MS : waitedMs * GAP_INTERVAL_SHARE;
    return Math.max(MIN_SLEEP_MS, Math.min(nextMs - waitedMs, mostMs));
  }

  /**
   * Ends a wait. What was done at the first question may have been done long before: where waits become
   * shorter, the next one is asked a tenth earlier.
   *
   * @param waitedMs Since the wait began.
   */
  end(waitedMs: number): void {
    this.#known.push(waitedMs);
    if (this.#known.length > MAX_KNOWN) this.#known.shift();
  }
}
