import { shown, takes } from "../../core/rules/options.ts";

/** Sizes of layers, as callers without types may pass them. */

/** @throws {RangeError} Unless every size is a whole number of at least 0. */
export function requireSizes(layer: string, sizes: Readonly<Record<string, number>>): void {
  for (const [name, size] of Object.entries(sizes)) {
    if (takes.whole.accepts(size)) continue;
    throw new RangeError(
      `Cannot make ${layer} with ${name} ${shown(size)}: pass ${takes.whole.takes}`,
    );
  }
}
