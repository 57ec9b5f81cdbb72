/**
 * Temporaries: tensors that an operation, `backward` or an optimizer makes on its way and that nobody
 * else has. They need not be computed again once they have been.
 */
import { NEED, type Need } from "../../../backend/internal.ts";
import { withoutGrad } from "./grad_mode.ts";

/** How strongly a tensor that is made now needs its value after it was computed on the way. */
export let need: Need = NEED.lasting;

/**
 * Runs `fn`, whose tensors are temporaries; what leaves it for the user must be exposed.
 *
 * @param fn What to run; it must not be asynchronous.
 * @param kept For how long they may be read nevertheless: by default until the next assignment.
 */
export function withTemporaries<T>(fn: () => T, kept: Need = NEED.transient): T {
  const former = need;
  need = Math.min(kept, former) as Need;
  try {
    return fn();
  } finally {
    need = former;
  }
}

/** Says what tensors that are made from now on are needed for; the caller takes it back. */
export function setNeed(next: Need): void {
  need = next;
}

/** Runs a part of an operation: its tensors are temporaries, and it is not recorded. */
export function internally<T>(fn: () => T, kept: Need = NEED.transient): T {
  return withoutGrad(() => withTemporaries(fn, kept));
}
