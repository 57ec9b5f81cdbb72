/**
 * What all transfers between the device and an array can be told.
 *
 * @module
 */
import * as takes from "../host/option_rules.ts";
import type { Rules } from "../host/options.ts";
import type { Event } from "./event.ts";

/** How bytes move between the device and an array. */
export interface CopyOptions {
  /** Whether to return only when it is done. */
  readonly blocking?: boolean;
  /**
   * Hands the driver the array itself, which saves a copy: leave it alone, and do not transfer it to
   * anyone, until the event is complete.
   */
  readonly noCopy?: boolean;
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** What {@linkcode CopyOptions} may hold. */
export const copyRules: Rules<CopyOptions> = {
  blocking: takes.bool,
  noCopy: takes.bool,
  wait: takes.list,
};
