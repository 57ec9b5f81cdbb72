/**
 * Temporaries: tensors that an operation, `backward` or an optimizer makes on its way and that nobody
 * else has. They need not be computed again once they have been.
 */
import { NEED, type Need } from "../../backend/engine.ts";
import { noGrad } from "../core/grad_mode.ts";

let need: Need = NEED.lasting;

/** How strongly a tensor that is made now needs its value after it was computed on the way. */
export function presentNeed(): Need {
  return need;
}

/**
 * Runs `fn`, whose tensors are temporaries; what leaves it for the user must be exposed.
 *
 * @param fn What to run; it must not be asynchronous.
 * @param kept For how long they may be read nevertheless: by default until the next assignment.
 */
export function withTemporaries<T>(fn: () => T, kept: Need = NEED.brief): T {
  const former = need;
  need = Math.min(kept, former) as Need;
  try {
    return fn();
  } finally {
    need = former;
  }
}

interface Exposable {
  expose(): unknown;
}

/** Runs an operation, of whose tensors its results alone are the user's. */
export function composed(
  // deno-lint-ignore no-explicit-any -- operations take what they take
  fn: (this: any, ...args: any[]) => unknown,
  self: unknown,
  args: unknown[],
): unknown {
  if (need !== NEED.lasting) return fn.apply(self, args);
  need = NEED.brief;
  try {
    const made = fn.apply(self, args);
    exposeAll(made);
    return made;
  } finally {
    need = NEED.lasting;
  }
}

/** Exposes a tensor, or those in an array or a plain object. */
function exposeAll(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if ("expose" in value) (value as Exposable).expose();
  else for (const item of Object.values(value)) exposeAll(item);
}

/** Runs a part of an operation: its tensors are temporaries, and it is not recorded. */
export function internally<T>(fn: () => T, kept: Need = NEED.brief): T {
  return noGrad(() => withTemporaries(fn, kept));
}
