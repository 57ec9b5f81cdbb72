/**
 * Waiting for what makes progress only when it is asked: MPI, and chains of copies and MPI calls. Both
 * ways end at Ctrl+C, as waits for a device do.
 */
import { advance, hasBackground, inBackground, type Progress } from "../lifecycle/background.ts";
import { interruptible, throwIfInterrupted } from "../lifecycle/interruption.ts";
import { MAX_SLEEP_MS, obeySignals, sleepAlert } from "../lifecycle/waits.ts";
import type { Communicator } from "./communicator.ts";

export type { Progress };

/** Time before another process counts as lost. */
const DEFAULT_TIMEOUT_MS = 30 * 60_000;
let timeoutMs = DEFAULT_TIMEOUT_MS;

/** Sets how long a wait for other processes may take, in milliseconds; Infinity for ever. */
export function setCommunicationTimeout(milliseconds: number = DEFAULT_TIMEOUT_MS): void {
  timeoutMs = milliseconds;
}

/** Polls in a row before the event loop gets its turn: a message between cores takes less. */
const SPIN_MS = 0.05;
/** The longest pause between two polls. */
const MAX_PAUSE_MS = 5;

/**
 * Waits while the event loop goes on. Pauses grow to 4 % of the time waited, 5 ms at most.
 *
 * @param what What is waited for, for the error: "finish allReduce".
 * @throws {InterruptedError} At Ctrl+C.
 * @throws {Error} When another process did not do its part in time.
 */
export function completed(what: string, progress: Progress): Promise<void> {
  return interruptible(poll(what, progress));
}

async function poll(what: string, progress: Progress): Promise<void> {
  throwIfInterrupted();
  const start = performance.now();
  for (let waited = 0; !progress.isDone();) {
    advance();
    waited = performance.now() - start;
    checkTime(what, waited);
    if (waited < SPIN_MS) continue;
    await new Promise((resolve) => setTimeout(resolve, Math.min(MAX_PAUSE_MS, waited / 25)));
  }
}

const MIN_SLEEP_MS = 0.02;
/** The longest while messages are under way, which go on only when they are asked. */
const MAX_BUSY_SLEEP_MS = 0.2;

/**
 * Sleep while other processes are waited for, in milliseconds: none at first.
 *
 * @param waitedMs Since they were first asked.
 */
export function messagePauseMs(waitedMs: number): number {
  if (waitedMs < SPIN_MS) return 0;
  return Math.min(MAX_BUSY_SLEEP_MS, Math.max(MIN_SLEEP_MS, waitedMs / 25));
}

/**
 * The same, blocking the event loop. Not the lifecycle's wait for a device, which sleeps for most of what
 * the last wait took, whatever it was for: who waits for a device and then for messages tells the pauses.
 */
export function completedSync(what: string, progress: Progress): void {
  throwIfInterrupted();
  const start = performance.now();
  for (let waited = 0; !progress.isDone(); waited = performance.now() - start) {
    advance();
    checkTime(what, waited);
    // The device may wait for work in the background, which needs this thread.
    if (!hasBackground() && progress.sleep?.(MAX_SLEEP_MS)) {
      obeySignals();
      continue;
    }
    const pause = progress.pauseMs?.() ?? messagePauseMs(waited);
    if (pause > 0) sleepAlert(pause, MAX_BUSY_SLEEP_MS);
  }
}

/**
 * Leaves something to the next waits, whatever they are for.
 *
 * @param end Called when it is done; also where it fails, or another process did not do its part in time:
 * the error is for who waits then.
 * @returns Whether it is over; the progress itself is not asked any more then.
 */
export function leaveBehind(what: string, progress: Progress, end: () => void): Progress {
  const start = performance.now();
  let isOver = false;
  const left: Progress = {
    isDone: () => {
      if (isOver) return true;
      try {
        isOver = progress.isDone();
        if (!isOver) checkTime(what, performance.now() - start);
      } catch (error) {
        isOver = true;
        end();
        throw error;
      }
      if (isOver) end();
      return isOver;
    },
  };
  inBackground(left);
  return left;
}

function checkTime(what: string, waited: number): void {
  if (waited <= timeoutMs) return;
  throw new Error(
    `Cannot ${what}: another rank has not done its part for ${
      Math.round(waited / 1000)
    } s; every ` +
      "rank must make the same calls in the same order (as many batches, too). Pass a longer " +
      "timeoutMs to distributed.init() where ranks may be so far apart",
  );
}

/** Asks all processes; true where it is true for all. Blocks until all have come here. */
export function agree(communicator: Communicator, value: boolean): boolean {
  const vote = Int32Array.of(value ? 1 : 0), bytes = new Uint8Array(vote.buffer);
  completedSync("agree with the other ranks", communicator.allReduce(bytes, "int32", "min"));
  return vote[0] === 1;
}
