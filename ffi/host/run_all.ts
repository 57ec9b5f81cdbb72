/**
 * Giving several things back, of which none may be forgotten because another one failed.
 *
 * @module
 */

/** Runs every step, also those behind one that fails; throws the first error at the end. */
export function runAll(steps: Iterable<() => void>): void {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}
