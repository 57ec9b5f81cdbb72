/**
 * Work under way that goes on only when somebody asks, such as copies that wait for another process. It
 * is asked after launches, in every wait and by the event loop, and so goes on whatever the program does.
 */

/** Work that goes on when it is asked. */
export interface Progress {
  /**
   * Goes on, and tells whether it is done.
   *
   * @throws {Error} When it failed; it is over then, and holds nothing up.
   */
  isDone(): boolean;
  /**
   * Longest sleep of a waiter with no other wait after a query, in milliseconds; by default that
   * grows with the time waited.
   */
  pauseMs?(): number;
  /**
   * Blocks the thread until it may go on, where something wakes it then: for so long at most where that is
   * not known to be soon. Not called while there is work in the background.
   *
   * @returns False where it has not: the caller is to sleep.
   */
  sleep?(milliseconds: number): boolean;
}

/** So long the event loop asks in each turn; then with pauses. */
const MAX_BUSY_MS = 20;
const PAUSE_MS = 1;

/** Asking costs a call into the driver for each piece of work (2 us on NVIDIA's): not after every launch. */
const LAUNCHES_INTERVAL_MS = 0.2;

const pending = new Set<Progress>();
let lastAdvance = 0;
const failures: unknown[] = [];
let isAdvancing = false, isWatched = false;

/** True when there is such work. */
export const hasBackground = (): boolean => pending.size > 0;

/** Leaves work to whoever waits next. */
export function inBackground(progress: Progress): void {
  pending.add(progress);
  if (isWatched) return;
  isWatched = true;
  watch();
}

/**
 * Goes on with all of it; cheap where there is none.
 *
 * @throws {Error} What failed since the last call.
 */
export function advance(): void {
  if (pending.size > 0) goOn();
  if (failures.length > 0) throw failures.shift();
}

/** The same for who comes often: goes on a few times in a millisecond. */
export function advanceAtTimes(): void {
  if (pending.size > 0 && performance.now() - lastAdvance < LAUNCHES_INTERVAL_MS) return;
  advance();
}

function goOn(): void {
  // Work may wait for a device itself.
  if (isAdvancing) return;
  isAdvancing = true;
  for (const progress of pending) {
    try {
      if (progress.isDone()) pending.delete(progress);
    } catch (error) {
      pending.delete(progress);
      failures.push(error);
    }
  }
  isAdvancing = false;
  lastAdvance = performance.now();
}

/** While the program awaits something; who waits next is told of failures. */
async function watch(): Promise<void> {
  const start = performance.now();
  while (pending.size > 0) {
    const isLong = performance.now() - start > MAX_BUSY_MS;
    await new Promise<void>((resolve) => {
      if (isLong) setTimeout(resolve, PAUSE_MS);
      else setImmediate(resolve);
    });
    goOn();
  }
  isWatched = false;
}
