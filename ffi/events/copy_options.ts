/**
 * Options of all transfers between the device and an array.
 *
 * @module
 */
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";
import type { Event } from "./event.ts";

/** Options of a transfer between the device and an array. */
export interface CopyOptions {
  /** True to return only when it is done; false by default. */
  readonly blocking?: boolean;
  /**
   * True to hand the driver the array itself, which saves a copy: leave it alone, and do not
   * transfer it to anyone, until the event is complete. False by default.
   */
  readonly noCopy?: boolean;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** Rules for the values of {@linkcode CopyOptions}. */
export const copyRules: Rules<CopyOptions> = {
  blocking: takes.bool,
  noCopy: takes.bool,
  wait: takes.list,
};
