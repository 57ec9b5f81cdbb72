/**
 * Finishing what every queue was given so far. Markers, not clFinish: work that is enqueued later
 * must not hold up the end, and polling needs no thread and leaves the event loop alone.
 */
import { type Event, liveQueues } from "../../ffi/mod.ts";
import { advance, hasBackground } from "./background.ts";

/**
 * Waits for the work in the background, without which queues would not end: no drain, since what it waits
 * for may be another process.
 */
export function finishBackgroundSync(): void {
  for (advance(); hasBackground(); advance()) sleepSync(BACKGROUND_POLL_MS);
}

/** Result of the draining. */
export interface Drained {
  /** False when a queue was still busy at the deadline. */
  readonly finished: boolean;
  /** Errors of queues: a device that was lost finishes nothing. */
  readonly errors: readonly unknown[];
}

const POLL_MS = 2;
const BACKGROUND_POLL_MS = 0.05;
const never = new Int32Array(new SharedArrayBuffer(4));

/** Blocks this thread; the event loop and its timers stand still. */
export function sleepSync(milliseconds: number): void {
  Atomics.wait(never, 0, 0, milliseconds);
}

/**
 * Waits for the queues and lets the event loop go on.
 *
 * @param deadline When to give up, on the clock of `performance.now()`.
 */
export async function drain(deadline: number): Promise<Drained> {
  const draining = new Draining();
  while (!draining.poll() && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return draining.end();
}

/**
 * Waits for the queues and blocks the thread.
 *
 * @param deadline When to give up, on the clock of `performance.now()`.
 */
export function drainSync(deadline: number): Drained {
  const draining = new Draining();
  while (!draining.poll() && performance.now() < deadline) sleepSync(POLL_MS);
  return draining.end();
}

class Draining {
  readonly #errors: unknown[] = [];
  #markers: Event[] = [];

  constructor() {
    for (const queue of liveQueues()) {
      this.#attempt(() => {
        this.#markers.push(queue.marker());
        queue.flush();
      });
    }
  }

  /** True when nothing is left to wait for. */
  poll(): boolean {
    this.#attempt(advance);
    this.#markers = this.#markers.filter((marker) => {
      const done = this.#attempt(() => marker.status === "complete") ?? true;
      if (done) marker.release();
      return !done;
    });
    return this.#markers.length === 0;
  }

  end(): Drained {
    const finished = this.#markers.length === 0;
    for (const marker of this.#markers) marker.release();
    return { finished, errors: this.#errors };
  }

  #attempt<T>(action: () => T): T | undefined {
    try {
      return action();
    } catch (error) {
      this.#errors.push(error);
      return undefined;
    }
  }
}
