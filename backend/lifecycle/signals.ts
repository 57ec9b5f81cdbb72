/**
 * The listeners: first Ctrl+C, SIGTERM, and what is left of them afterwards.
 */
import { host } from "../../ffi/runtime/host.ts";
import { ignoredSignals } from "../../ffi/library/signals.ts";
import { isSaving, savesFinished } from "../../ffi/host/atomic_file.ts";
import { busyLimit } from "./busy_limit.ts";
import { drain, sleepSync } from "./draining.ts";
import {
  beginInterruption,
  completeInterruption,
  isHandled,
  isRunning,
  isUncaught,
  resetInterruption,
} from "./interruption.ts";
import { exitNow } from "./libc.ts";
import { arm, disarm, type ExitSignal } from "./native_handlers.ts";
import { graceMs, handlesSignals, setSignalOptions, type SignalOptions } from "./options.ts";
import { tellWatchdogRearmed, tellWatchdogSeen } from "./watchdog.ts";

const listeners: Record<ExitSignal, () => void> = {
  SIGINT: () => void interrupt(),
  SIGTERM: () => void terminate(),
};
const all = Object.keys(listeners) as ExitSignal[];
const listening = new Set<ExitSignal>();
let active = false;
/** The next call of SIGINT's listener is for a signal that was dealt with. */
let isStale = false;

/** Starts to listen, unless the user wants to do it alone. What `nohup` ignores stays ignored. */
export function listenForSignals(): void {
  if (active) return;
  active = true;
  listenAgain();
}

function listenAgain(): void {
  if (handlesSignals()) all.forEach(listen);
}

/** Stops listening: signals do what they do by default, or what other listeners do. */
export function stopListening(): void {
  active = false;
  all.forEach(mute);
}

function listen(signal: ExitSignal): void {
  if (ignoredSignals()?.includes(signal)) return;
  if (signal === "SIGTERM" && host.os === "windows") return; // has no such event
  if (!listening.has(signal)) host.addSignalListener(signal, listeners[signal]);
  listening.add(signal);
  arm(signal, busyLimit(signal));
}

/**
 * A blocked wait saw SIGINT and acted upon it. Deno still has to tell the listener, which stays
 * for that: a listener taken away and added again by `rearm()` would take it for a new signal.
 */
export function expectStaleInterrupt(): void {
  isStale = true;
}

/** Takes our listener away, so that the next such signal has its default action at once. */
function mute(signal: ExitSignal): void {
  if (!listening.delete(signal)) return;
  host.removeSignalListener(signal, listeners[signal]);
  disarm(signal);
}

async function interrupt(): Promise<void> {
  if (isStale) {
    isStale = false;
    if (!isRunning()) mute("SIGINT");
    return;
  }
  tellWatchdogSeen();
  mute("SIGINT");
  if (!beginInterruption()) return;
  const { finished, errors } = await drain(performance.now() + graceMs());
  if (!finished) exitNow(130);
  completeInterruption(errors[0]);
  limitInterruption();
}

/** The time at which a program that does not act upon its interrupt ends; infinite while there is none. */
let end = Infinity;
let stopTimer = (): void => {};

/** An interrupt is complete: a program that does not act upon it ends after the grace window. */
export function limitInterruption(): void {
  liftLimit();
  const milliseconds = graceMs(), timer = setTimeout(endUnhandled, milliseconds);
  host.unrefTimer(timer);
  end = performance.now() + milliseconds;
  stopTimer = () => clearTimeout(timer);
}

function liftLimit(): void {
  stopTimer();
  end = Infinity;
}

/** For calls that wait: no timer comes in a loop that never awaits. */
export function obeyLimit(): void {
  if (performance.now() >= end) endUnhandled();
}

/** Gives the program the grace window again after each save: another save may follow. */
function endUnhandled(): void {
  liftLimit();
  if (isHandled()) return;
  if (isSaving()) void savesFinished().then(limitInterruption);
  else endInterrupted();
}

/** Ends the program as Ctrl+C does; where it listens to the signal itself, only if an error is uncaught. */
export function endInterrupted(): void {
  dieBy("SIGINT");
  if (isUncaught()) host.exit(130);
}

async function terminate(): Promise<void> {
  mute("SIGTERM");
  const deadline = performance.now() + graceMs();
  await drain(deadline);
  if (isSaving()) await Promise.race([savesFinished(), sleep(deadline - performance.now())]);
  host.kill(host.pid, "SIGTERM"); // the default action, unless the user listens as well
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));
}

/** The status of a program on Windows that Ctrl+C ended: STATUS_CONTROL_C_EXIT. */
const CONTROL_C_EXIT = 0xC000013A;

/**
 * Ends the program the way that `signal` does by default. Returns where the program listens to it
 * as well: then it is the program's to end. Windows knows no signals, and does not tell who listens: there it
 * ends.
 */
export function dieBy(signal: ExitSignal): void {
  mute(signal);
  if (host.os === "windows") exitNow(CONTROL_C_EXIT);
  host.kill(host.pid, signal);
  sleepSync(250); // Deno's signal thread ends the process within milliseconds
}

/**
 * Lets netcl handle signals or not, and sets the grace window. By default the first Ctrl+C
 * lets the queues finish for at most 3 seconds and then rejects what awaits with an
 * `InterruptedError`; the second one ends the program at once; SIGTERM lets the queues
 * finish and then ends the program. With `enabled: false` (or NETCL_SIGNALS=0) signals are yours.
 *
 * @param options What to change.
 * @throws {RangeError} When `graceMs` is not a number from 0.
 *
 * @example A server that ends itself
 * ```ts
 * import { configureSignals } from "@netcl/netcl/backend";
 *
 * configureSignals({ enabled: false });
 * ```
 */
export function configureSignals(options: SignalOptions): void {
  setSignalOptions(options);
  if (!active) return;
  stopListening();
  listenForSignals();
}

/**
 * Goes on after a caught `InterruptedError`: `interruptSignal` becomes a fresh one, and the next
 * Ctrl+C is again a first one.
 *
 * @throws {Error} While the first Ctrl+C still waits for the queues.
 *
 * @example Asking before ending
 * ```ts
 * import { InterruptedError, rearm } from "@netcl/netcl/backend";
 *
 * try {
 *   await train();
 * } catch (error) {
 *   if (!(error instanceof InterruptedError) || confirm("Stop?")) throw error;
 *   rearm();
 * }
 *
 * async function train(): Promise<void> {}
 * ```
 */
export function rearm(): void {
  resetInterruption();
  liftLimit();
  tellWatchdogRearmed();
  if (active) listenAgain();
}
