/**
 * Synchronous waits that Ctrl+C can end. No listener runs while JavaScript is blocked, so the wait
 * asks the device, sleeps, and asks the kernel whether a signal came.
 */
import { advance, hasBackground } from "./background.ts";
import { drainSync, sleepSync } from "./draining.ts";
import {
  beginInterruption,
  completeInterruption,
  deliver,
  isDraining,
  isRunning,
  throwIfInterrupted,
} from "./interruption.ts";
import { exitNow } from "./libc.ts";
import { hasFired, stopDeadline } from "./native_handlers.ts";
import { graceMs } from "./options.ts";
import { Pace } from "./pace.ts";
import { dieBy, expectStaleInterrupt, limitInterruption, obeyLimit } from "./signals.ts";
import { tellWatchdogSeen } from "./watchdog.ts";

/** Waits that last less poll without sleeping, in milliseconds. */
const MAX_SPIN_MS = 0.05;
/** A wait that is much shorter than usual ends so late, or after twice its time. */
const MIN_SURPRISE_MS = 0.5;
/** The longest sleep, in milliseconds: so late a signal may be seen. */
export const MAX_SLEEP_MS = 5;

/** Loops wait for much the same again. */
const usual = new Pace();

/**
 * Blocks until `isDone()`.
 *
 * @param isDone Asks the device; cheap.
 * @throws {InterruptedError} After the first Ctrl+C, when the queues are done.
 */
export function waitSync(isDone: () => boolean): void {
  throwIfInterrupted();
  if (isDone()) return;
  const start = performance.now();
  const spinMs = usual.afterAsking(0) < MAX_SPIN_MS ? MAX_SPIN_MS : 0;
  let waited = 0;
  do {
    advance();
    const sleepMs = Math.min(usual.afterAsking(waited), Math.max(waited, MIN_SURPRISE_MS));
    if (waited >= spinMs) sleepAlert(sleepMs, MAX_BUSY_SLEEP_MS);
    waited = performance.now() - start;
  } while (!isDone());
  usual.end(waited);
}

/** The longest sleep of a wait for a device while work in the background goes on only when it is asked. */
const MAX_BUSY_SLEEP_MS = 0.02;

/**
 * Blocks the thread for so long. Signals are obeyed, and work in the background goes on.
 *
 * @param busyMs How often work in the background is asked for.
 * @throws {InterruptedError} After the first Ctrl+C, when the queues are done.
 */
export function sleepAlert(milliseconds: number, busyMs: number): void {
  const end = performance.now() + milliseconds;
  for (let left = milliseconds; left > 0; left = end - performance.now()) {
    obeySignals();
    sleepSync(Math.min(hasBackground() ? busyMs : MAX_SLEEP_MS, left));
    advance();
  }
}

/** Does here what the listeners would do, if a signal came that they cannot see. */
export function obeySignals(): void {
  if (hasFired("SIGTERM")) {
    drainSync(performance.now() + graceMs());
    dieBy("SIGTERM");
  }
  obeyLimit();
  if (isDraining()) interruptSync(); // by the listener; another task began this wait
  if (isRunning() && hasFired("SIGINT")) {
    beginInterruption();
    expectStaleInterrupt();
    interruptSync();
  }
}

/** From the first signal on the disposition is the default one: a second ends the program. */
function interruptSync(): never {
  tellWatchdogSeen();
  stopDeadline("SIGINT");
  const { finished, errors } = drainSync(performance.now() + graceMs());
  if (!finished) exitNow(130);
  completeInterruption(errors[0]);
  limitInterruption();
  throw deliver();
}
