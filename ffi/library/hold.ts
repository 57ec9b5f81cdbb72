/**
 * Memory that C reads while no JavaScript that is still to run mentions it: an engine that compiles
 * the caller sees that the array is no longer used, and the collector may take it.
 *
 * @module
 */

const held = new Set<{ readonly memory: unknown }>();

/** Holds memory until a call returns. */
export function holdWhile<T>(memory: unknown, call: () => T): T {
  const hold = { memory };
  held.add(hold);
  try {
    return call();
  } finally {
    held.delete(hold);
  }
}

/** Holds memory until a call on another thread is through. */
export async function holdDuring<T>(memory: unknown, call: Promise<T>): Promise<T> {
  const hold = { memory };
  held.add(hold);
  try {
    return await call;
  } finally {
    held.delete(hold);
  }
}
