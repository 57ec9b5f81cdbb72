/**
 * Releases what the garbage collector finds unreleased.
 *
 * @module
 */

const told = new Set<string>();

/**
 * A registry whose work may fail. No caller can catch the error, so it is printed, once for each
 * kind, in one line, and the program goes on.
 *
 * @param what What was found: "a forgotten Buffer".
 * @param finish What is done with what was registered.
 */
export function finalizer<T>(
  what: string | ((held: T) => string),
  finish: (held: T) => void,
): FinalizationRegistry<T> {
  return new FinalizationRegistry<T>((held) => {
    try {
      finish(held);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const name = typeof what === "string" ? what : what(held);
      const line = `netcl: cannot give back ${name}: ${reason.replaceAll(/\s*\n\s*/g, " ")}`;
      if (!told.has(line)) console.error(line);
      told.add(line);
    }
  });
}
