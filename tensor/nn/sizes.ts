/** Sizes of layers, as callers without types may pass them. */

/** @throws {RangeError} Unless every size is a whole number of at least 0. */
export function requireSizes(layer: string, sizes: Readonly<Record<string, number>>): void {
  for (const [name, size] of Object.entries(sizes)) {
    if (Number.isSafeInteger(size) && size >= 0) continue;
    throw new RangeError(
      `Cannot make ${layer} with ${name} ${size}: pass a whole number of at least 0`,
    );
  }
}
