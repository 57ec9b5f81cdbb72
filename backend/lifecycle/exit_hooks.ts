/**
 * Exit hooks: what netcl does when the program ends, put in place with the first queue and taken away
 * after the last one.
 *
 * This folder (`lifecycle/`) is how a program ends: Ctrl+C, SIGTERM, Deno.exit, uncaught errors. It
 * imports `ffi/` only; queues come from its registry of live ones. Waits of `ffi/` come here by the
 * wait policy, and leave with an `InterruptedError` where a signal came.
 */
import { host } from "../../ffi/runtime/host.ts";
import type { EndingEvent, Endings } from "../../ffi/runtime/types.ts";
import { isMainThread } from "node:worker_threads";
import { liveQueues, setWaitPolicy } from "../../ffi/mod.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { primeSignals } from "../../ffi/library/signals.ts";
import { updateBusyLimit } from "./busy_limit.ts";
import { drainSync, finishBackgroundSync } from "./draining.ts";
import {
  countUnhandled,
  interruptible,
  isInterruptedError,
  isWatched,
  whenWatched,
} from "./interruption.ts";
import { libc } from "./libc.ts";
import { restoreHandlers } from "./native_handlers.ts";
import { checkSignalOptions, graceMs } from "./options.ts";
import { endInterrupted, listenForSignals, stopListening } from "./signals.ts";
import { waitSync } from "./waits.ts";
import { tellWatchdogEnding } from "./watchdog.ts";

let installed = false;

/** Signals belong to the main thread: a listener in a worker would end the default for all. */
const ownsSignals = isMainThread && !("WorkerGlobalScope" in globalThis);

/**
 * Called with every queue that a device handle opens, and with the built-in backend.
 *
 * @param hasQueue Whether there are queues to be finished when a signal comes.
 */
export function installExitHooks(hasQueue: boolean): void {
  if (!installed) install();
  if (ownsSignals && (hasQueue || isWatched() || mayReplaceHandlers())) listenForSignals();
}

function install(): void {
  checkSignalOptions();
  installed = true;
  host.addEndingListener("unload", finishQueues);
  host.addEndingListener("error", onError);
  host.addEndingListener("unhandledrejection", onRejection);
  if (!ownsSignals) return;
  primeSignals();
  restoreHandlers();
  setWaitPolicy({ waitSync, wait: interruptible });
  whenWatched(() => {
    if (installed) listenForSignals();
    updateBusyLimit();
  });
}

/**
 * Without the permission for libc a program that is busy in JavaScript would outlive Ctrl+C once
 * netcl listened: then it listens only to finish queues, or where the program wants to know.
 */
const mayReplaceHandlers = (): boolean => host.os !== "linux" || libc() !== null;

/** Takes everything away again, after the last queue. */
export function removeExitHooks(): void {
  if (!installed) return;
  installed = false;
  host.removeEndingListener("unload", finishQueues);
  host.removeEndingListener("error", onError);
  host.removeEndingListener("unhandledrejection", onRejection);
  setWaitPolicy(null);
  stopListening();
}

/** The normal end, and an exit by the program. Without the listeners first, Ctrl+C would be swallowed here. */
function finishQueues(): void {
  tellWatchdogEnding();
  stopListening();
  setWaitPolicy(null);
  finishBackgroundSync();
  runAll(liveQueues().map((queue) => () => queue.finishSync()));
}

function onError(event: Endings["error"]): void {
  end(event, event.error);
}

function onRejection(event: Endings["unhandledrejection"]): void {
  end(event, event.reason);
}

/** Uncaught errors fire no unload: what was enqueued is finished and kept here, within a bound. */
function end(event: EndingEvent, error: unknown): void {
  if (event.defaultPrevented) return;
  if (!isInterruptedError(error)) {
    drainSync(performance.now() + graceMs());
    return;
  }
  event.preventDefault(); // status 130 without a stack trace
  host.exitCode = 130;
  // Another call that was interrupted may have been caught by code that now saves: it has its time.
  if (countUnhandled()) endInterrupted();
}
