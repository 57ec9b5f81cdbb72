/**
 * Transfers that are not complete. Memory is freed or refilled only after them.
 *
 * @module
 */
import { check } from "../library/errors.ts";
import { Event } from "./event.ts";
import { cl } from "../library/library.ts";
import { pendingWith, retireTransfers } from "./transfers.ts";

/**
 * The transfers under way from or to mapped memory, also those of queues that were released since.
 *
 * @param owner Whose memory: a mapped region.
 * @returns Their events, which are the caller's to release.
 */
export function transfersWith(owner: object): Event[] {
  retireTransfers();
  return pendingWith(owner).map((handle) => {
    check(cl.clRetainEvent(handle), "clRetainEvent");
    return new Event(handle);
  });
}
