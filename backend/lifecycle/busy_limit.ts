/**
 * Longest time a program may be busy in JavaScript, or in a foreign call, at a signal.
 */
import { isWatched } from "./interruption.ts";
import { type ExitSignal, limit } from "./native_handlers.ts";
import { graceMs } from "./options.ts";

/** Milliseconds from the grace window to the native deadline: listeners act before it. */
const SLACK_MS = 100;

let hasWatchdog = false;

/**
 * The limit in milliseconds, null for none: a program that uses `interruptSignal` will act upon
 * Ctrl+C, however late, and a watchdog has a limit of its own.
 */
export function busyLimit(signal: ExitSignal): number | null {
  const isAwaited = signal === "SIGINT" && (isWatched() || hasWatchdog);
  return isAwaited ? null : graceMs() + SLACK_MS;
}

/** Called when the program begins to use `interruptSignal`. */
export function updateBusyLimit(): void {
  limit("SIGINT", busyLimit("SIGINT"));
}

/** A watchdog has begun, or ended. */
export function leaveToWatchdog(isThere: boolean): void {
  hasWatchdog = isThere;
  updateBusyLimit();
}
