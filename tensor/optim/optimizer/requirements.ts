/** Checks of untyped callers' arguments for an optimizer or its parameters. */
import { shown } from "../../core/rules/options.ts";
import { isTensor } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";

/** @throws {TypeError} Unless it has groups whose rates can be set. */
export function requireOptimizer(action: string, value: unknown): void {
  if (Array.isArray((value as { groups?: unknown } | null | undefined)?.groups)) return;
  throw new TypeError(`Cannot ${action} with ${shown(value)}: pass an optimizer`);
}

/** @throws {TypeError} Unless it is an array of tensors. */
export function requireParameters(action: string, values: unknown): asserts values is Tensor[] {
  const isList = Array.isArray(values) && values.every((value) => isTensor(value));
  if (isList) return;
  throw new TypeError(
    `Cannot ${action} with ${shown(values)}: pass an array of tensors, such as model.parameters()`,
  );
}

/** @throws {TypeError} When there is nothing to learn. */
export function requireAny(action: string, parameters: readonly Tensor[]): void {
  if (parameters.length > 0) return;
  throw new TypeError(
    `Cannot ${action} of no parameters: pass model.parameters() of a model that has some. They are ` +
      `found in its properties; what #private fields hold is not: use TypeScript's private`,
  );
}
