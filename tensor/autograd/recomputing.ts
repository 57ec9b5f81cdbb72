/** The second run of a checkpointed function, which does again what the first has done for good. */

let recomputing = false;

/** True while `backward` runs a checkpointed function again: what counts calls has counted this one. */
export function isRecomputing(): boolean {
  return recomputing;
}

/** Runs `fn` as the second run. */
export function whileRecomputing<T>(fn: () => T): T {
  const former = recomputing;
  recomputing = true;
  try {
    return fn();
  } finally {
    recomputing = former;
  }
}
