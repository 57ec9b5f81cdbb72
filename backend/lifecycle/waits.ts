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
import { dieBy, expectStaleInterrupt } from "./signals.ts";
import { tellWatchdogSeen } from "./watchdog.ts";

/** Waits that last less poll without sleeping, in milliseconds. */
const MAX_SPIN_MS = 0.05;
/** The longest sleep: so late a signal may be seen. */
const MAX_SLEEP_MS = 2;
/** The same while work in the background goes on only when it is asked. */
const MAX_BUSY_SLEEP_MS = 0.02;

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
  const spinMs = usual.begin() < MAX_SPIN_MS ? MAX_SPIN_MS : 0;
  let waited = 0;
  do {
    advance();
    const sleepMs = usual.afterAsking(waited);
    if (waited >= spinMs) {
      obeySignals();
      sleepSync(Math.min(hasBackground() ? MAX_BUSY_SLEEP_MS : MAX_SLEEP_MS, sleepMs));
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
