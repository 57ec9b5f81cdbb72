/**
 * A second thread that watches for Ctrl+C while this one is blocked in a foreign call: for programs
 * that call other native libraries, or a driver that does not return. Costs 60 ms and 24 MiB, so
 * it is there for those that ask.
 */
import { host } from "../../ffi/runtime/host.ts";
import { Worker } from "node:worker_threads";
import { libcName } from "../../ffi/host/libc.ts";
import { leaveToWatchdog } from "./busy_limit.ts";
import { graceMs, handlesSignals } from "./options.ts";

/** Fields shared by the two threads. */
const fields = {
  /** 1 when this thread has seen the signal and acts upon it. */
  seen: 0,
  /** Counts rearms: a signal after one is again a first one. */
  epoch: 1,
  /** 1 when the program ends: then the first signal is enough. */
  ending: 2,
} as const;

// Runs alone in its thread: no import, no permission but the one for foreign functions.
const source = `
const host = ${host.threadHost};
const { parentPort, workerData } = require("node:worker_threads");
const { _exit } = host.dlopen(workerData.libc, {
  _exit: { parameters: ["i32"], result: "void" },
}).symbols;
const shared = new Int32Array(workerData.shared);
let epoch = 0, count = 0;
host.addSignalListener("SIGINT", () => {
  const now = Atomics.load(shared, ${fields.epoch});
  if (now !== epoch) count = 0;
  epoch = now;
  if (++count > 1 || Atomics.load(shared, ${fields.ending})) _exit(130);
  setTimeout(() => Atomics.load(shared, ${fields.seen}) || _exit(130), workerData.graceMs);
});
parentPort.on("message", () => {}); // a listener for signals does not keep the thread alive
parentPort.postMessage("ready");
`;

let shared: Int32Array | null = null;

/**
 * Starts the watchdog: from now on Ctrl+C ends the program after the grace window also while
 * JavaScript is blocked in a foreign call, and a second Ctrl+C ends it at once.
 *
 * @returns Ends the watchdog.
 * @throws {Error} Without --allow-ffi, on Windows, on Node and Bun, where signals are not netcl's (see
 *   `configureSignals`), or when a watchdog runs already.
 *
 * @example
 * ```ts
 * import { startWatchdog } from "@netcl/netcl/backend";
 *
 * using watchdog = await startWatchdog();
 * ```
 */
export async function startWatchdog(): Promise<Disposable> {
  if (shared !== null) throw new Error("Cannot start a second watchdog: one runs already");
  if (!handlesSignals()) {
    throw new Error("Cannot start a watchdog: signals are not handled by netcl (NETCL_SIGNALS)");
  }
  if (!host.hasSignalsInThreads) {
    throw new Error(
      `Cannot start a watchdog on ${host.runtime}, whose threads hear no signals: use Deno, or ` +
        "await between calls that take long",
    );
  }
  const libc = libcName();
  if (libc === null) {
    throw new Error(
      "Cannot start a watchdog: it ends the program through libc, which takes --allow-ffi on " +
        "Linux or macOS",
    );
  }
  const state = new Int32Array(new SharedArrayBuffer(12));
  const workerData = { libc, graceMs: graceMs(), shared: state.buffer };
  shared = state;
  const worker = new Worker(source, { eval: true, workerData });
  try {
    await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  } catch (error) {
    shared = null;
    throw error;
  }
  worker.unref();
  leaveToWatchdog(true);
  return {
    [Symbol.dispose]: () => {
      leaveToWatchdog(false);
      shared = null;
      void worker.terminate();
    },
  };
}

/** This thread acts upon the signal, within its own bounds. */
export function tellWatchdogSeen(): void {
  if (shared !== null) Atomics.store(shared, fields.seen, 1);
}

/** The next signal is again a first one. */
export function tellWatchdogRearmed(): void {
  if (shared === null) return;
  Atomics.add(shared, fields.epoch, 1);
  Atomics.store(shared, fields.seen, 0);
}

/** The program ends: the next signal is the last one. */
export function tellWatchdogEnding(): void {
  if (shared !== null) Atomics.store(shared, fields.ending, 1);
}
