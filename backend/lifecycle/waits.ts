/**
 * Synchronous waits that Ctrl+C can end. No listener runs while JavaScript is blocked, so the wait
 * asks the device, naps, and asks the kernel whether a signal came.
 */
import { drainSync, napSync } from "./draining.ts";
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

const SPIN_MS = 0.05;
const MIN_NAP_MS = 0.02;
const MAX_NAP_MS = 2;

/** When the last wait saw its command busy for the last time: loops wait for much the same again. */
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
  // Every look takes time from the driver's threads. Most of the usual time nobody looks, then after
  // each twenty-fifth of the time waited: that much longer than the work is the wait.
  const quietMs = usualMs * 0.75;
  const spinMs = quietMs < SPIN_MS ? SPIN_MS : 0;
  let waited = 0;
  do {
    usualMs = waited;
    if (waited >= spinMs) {
      obeySignals();
      const nap = Math.max(quietMs - waited, waited / 25);
      napSync(Math.min(MAX_NAP_MS, Math.max(MIN_NAP_MS, nap)));
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
