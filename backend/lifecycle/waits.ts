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
import { dieBy, expectStaleInterrupt } from "./signals.ts";
import { tellWatchdogSeen } from "./watchdog.ts";

/** Waits that last less poll without sleeping, in milliseconds. */
const MAX_SPIN_MS = 0.05;
const MIN_SLEEP_MS = 0.02;
const MAX_SLEEP_MS = 2;
/** Part of the usual duration before the first poll. */
const FIRST_POLL_SHARE = 0.75;
/** Part of the time waited so far between two polls. */
const POLL_INTERVAL_SHARE = 0.04;

/** How long the last wait was busy: loops wait for much the same again. */
let usualMs = 0;

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
  // Every poll takes time from the driver's threads. The first one comes after 75 % of the usual
  // duration, then one every 4 % of the time waited, so that a wait overshoots the work by at most 4 %.
  const quietMs = usualMs * FIRST_POLL_SHARE;
  const spinMs = quietMs < MAX_SPIN_MS ? MAX_SPIN_MS : 0;
  let waited = 0;
  do {
    advance();
    usualMs = waited;
    if (waited >= spinMs) {
      obeySignals();
      const sleepMs = Math.max(quietMs - waited, waited * POLL_INTERVAL_SHARE);
      const isAlone = !hasBackground();
      sleepSync(Math.min(isAlone ? MAX_SLEEP_MS : MIN_SLEEP_MS, Math.max(MIN_SLEEP_MS, sleepMs)));
    }
    waited = performance.now() - start;
  } while (!isDone());
}

/** Does here what the listeners would do, if a signal came that they cannot see. */
export function obeySignals(): void {
  if (hasFired("SIGTERM")) {
    drainSync(performance.now() + graceMs());
    dieBy("SIGTERM");
  }
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
  throw deliver();
}
