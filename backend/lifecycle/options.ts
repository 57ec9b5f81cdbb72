/**
 * Options of signal handling: what the program says, else what the environment says.
 */
import { EnvironmentError, readEnvironment } from "../../ffi/host/environment.ts";
import { readSwitch } from "../../ffi/host/switches.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options for ending a program; see {@linkcode configureSignals}. */
export interface SignalOptions {
  /** True when netcl handles SIGINT and SIGTERM. Default: NETCL_SIGNALS, else true. */
  readonly enabled?: boolean;
  /**
   * Milliseconds that the queues get to finish after the first Ctrl+C or a SIGTERM, and after an
   * uncaught error. Default: NETCL_SIGINT_GRACE_MS, else 3000.
   */
  readonly graceMs?: number;
}

const rules: Rules<SignalOptions> = { enabled: takes.bool, graceMs: takes.nonNegative };

let chosen: SignalOptions = {};

/** Sets what the program wants; takes effect where it is read next. */
export function setSignalOptions(options: SignalOptions): void {
  checkOptions("configure signals", options, rules);
  chosen = { ...chosen, ...options };
}

/** True when netcl handles signals. */
export const handlesSignals = (): boolean => chosen.enabled ?? readSwitch("NETCL_SIGNALS") ?? true;

/** Milliseconds for the queues to finish before the program ends without them. */
export function graceMs(): number {
  if (chosen.graceMs !== undefined) return chosen.graceMs;
  const value = readEnvironment("NETCL_SIGINT_GRACE_MS") ?? "3000";
  if (/^\d+$/.test(value)) return Number(value);
  const remedy = "write a whole number of milliseconds, such as 3000";
  throw new EnvironmentError("NETCL_SIGINT_GRACE_MS", value, remedy);
}

/** Reads everything once, so that a wrong value is an error when a queue is made, not when a signal comes. */
export function checkSignalOptions(): void {
  handlesSignals();
  graceMs();
}
