/**
 * The event parameters that every enqueue function ends with. One scratch array each: calls are
 * synchronous, and no worker shares this module.
 *
 * @module
 */
import * as takes from "../host/option_rules.ts";
import { requireValue } from "../host/options.ts";
import { requireObject } from "../objects/object.ts";
import type { Completion } from "./enqueue_target.ts";

/** Scratch for the event that an enqueue function makes. */
export const eventOut = new BigUint64Array(1);

let events = new BigUint64Array(16);

/** Puts events into the list that {@linkcode eventList} returns, and returns their number. */
export function listEvents(wait: readonly Completion[] | undefined): number {
  if (wait === undefined) return 0;
  requireValue("wait for events", "the list", wait, takes.list);
  if (wait.length > events.length) events = new BigUint64Array(2 * wait.length);
  for (let i = 0; i < wait.length; i++) {
    requireObject("wait for an event", wait[i], "Event");
    events[i] = wait[i]!.unsafeHandle;
  }
  return wait.length;
}

/** The list for C: null where it is empty, as C demands. Evaluated after {@linkcode listEvents}. */
export function eventList(wait: readonly Completion[] | undefined): BigUint64Array | null {
  return wait?.length ? events : null;
}
