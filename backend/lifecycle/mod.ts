/**
 * How a program ends: Ctrl+C, SIGTERM, Deno.exit, uncaught errors, `shutdown()`. It knows the
 * devices and `ffi/`.
 *
 * @module
 */
export { InterruptedError, interruptible, interruptSignal } from "./interruption.ts";
export type { SignalOptions } from "./options.ts";
export { shutdown } from "../devices/shutdown.ts";
export { configureSignals, rearm } from "./signals.ts";
export { startWatchdog } from "./watchdog.ts";
