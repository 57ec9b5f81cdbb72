/**
 * Puts the ways to end in place, with the first queue, and takes them away again.
 */
import { isMainThread } from "node:worker_threads";
import { liveQueues, setWaitPolicy } from "../../ffi/mod.ts";
import { runAll } from "../../ffi/run_all.ts";
import { drainSync } from "./draining.ts";
import { countUnhandled, InterruptedError, interruptible } from "./interruption.ts";
import { restoreHandlers } from "./native_handlers.ts";
import { checkSignalOptions, graceMs } from "./options.ts";
import { dieBy, listenForSignals, stopListening } from "./signals.ts";
import { waitSync } from "./waits.ts";
import { tellWatchdogEnding } from "./watchdog.ts";

let installed = false;

/** Signals belong to the main thread: a listener in a worker would end the default for all. */
const ownsSignals = isMainThread && !("WorkerGlobalScope" in globalThis);

/** Called with every queue that a device handle opens; only the first call does something. */
export function installLifecycle(): void {
  if (installed) return;
  checkSignalOptions();
  installed = true;
  addEventListener("unload", finishQueues);
  addEventListener("error", onError);
  addEventListener("unhandledrejection", onRejection);
  if (!ownsSignals) return;
  restoreHandlers();
  setWaitPolicy({ waitSync, wait: interruptible });
  listenForSignals();
}

/** Takes everything away again, after the last queue. */
export function uninstallLifecycle(): void {
  if (!installed) return;
  installed = false;
  removeEventListener("unload", finishQueues);
  removeEventListener("error", onError);
  removeEventListener("unhandledrejection", onRejection);
  setWaitPolicy(null);
  stopListening();
}

/** The normal end and Deno.exit. Without the listeners first, Ctrl+C would be swallowed here. */
function finishQueues(): void {
  tellWatchdogEnding();
  stopListening();
  setWaitPolicy(null);
  runAll(liveQueues().map((queue) => () => queue.finishSync()));
}

function onError(event: ErrorEvent): void {
  end(event, event.error);
}

function onRejection(event: PromiseRejectionEvent): void {
  end(event, event.reason);
}

/** Uncaught errors fire no unload: what was enqueued is finished and kept here, within a bound. */
function end(event: globalThis.Event, error: unknown): void {
  if (event.defaultPrevented) return;
  if (!(error instanceof InterruptedError)) {
    drainSync(performance.now() + graceMs());
    return;
  }
  event.preventDefault(); // status 130 without a stack trace
  if (countUnhandled()) dieBy("SIGINT");
  // Another call that was interrupted may have been caught by code that now saves.
  Deno.exitCode = 130;
  Deno.unrefTimer(setTimeout(() => dieBy("SIGINT"), graceMs()));
}
