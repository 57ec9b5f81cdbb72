import type { Pool } from "../core/pool.ts";
import { StatCounter, type StatCounterValues } from "../core/stats.ts";

/**
 * Counts what a pool does while the scope is open. The counters of bytes begin at zero: `requested.current` is
 * what the scope left live (below zero when it released older blocks), `requested.peak` what it
 * needed.
 */
export class StatisticsScope implements Disposable {
  /** Allocations. */
  numAllocs = 0;
  /** Releases. */
  numFrees = 0;
  /** Memory objects that were asked of the driver. */
  nativeAllocs = 0;
  /** Allocations that found no memory. */
  numOoms = 0;
  readonly #requested = new StatCounter();
  readonly #reserved = new StatCounter();
  readonly #watch: Disposable;

  /**
   * Begins to count.
   *
   * @param pool What to count.
   */
  // deno-lint-ignore no-explicit-any -- any kind of pool can be counted
  constructor(pool: Pool<any>) {
    this.#watch = pool.observe({
      allocated: ({ nbytes }) => {
        this.numAllocs++;
        this.#requested.add(nbytes);
      },
      released: ({ nbytes }) => {
        this.numFrees++;
        this.#requested.subtract(nbytes);
      },
      reserved: (_segment, nbytes) => {
        this.nativeAllocs++;
        this.#reserved.add(nbytes);
      },
      unreserved: (_segment, nbytes) => this.#reserved.subtract(nbytes),
      exhausted: () => void this.numOoms++,
    });
  }

  /** Bytes that callers asked for. */
  get requested(): StatCounterValues {
    return this.#requested;
  }

  /** Bytes that were taken from the driver. */
  get reserved(): StatCounterValues {
    return this.#reserved;
  }

  /** Ends the counting; the counts stay. */
  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
  }
}
