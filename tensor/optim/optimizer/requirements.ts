/** Checks of untyped callers' arguments for an optimizer or its parameters. */
import { sameShape } from "../../../backend/internal.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import { isTensor, stateOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";

/** @throws {TypeError} Unless it has groups whose rates can be set. */
export function requireOptimizer(action: string, value: unknown): void {
  if (Array.isArray((value as { groups?: unknown } | null | undefined)?.groups)) return;
  throw new TypeError(`Cannot ${action} with ${shown(value)}: pass an optimizer`);
}

/** @throws {TypeError} Unless it is an array of tensors. */
export function requireParameters(action: string, values: unknown): asserts values is Tensor[] {
  const isList = Array.isArray(values) && Array.from(values).every((value) => isTensor(value));
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

/** @throws {TypeError} Unless there are parameters, each of them a leaf that learns, and there once. */
export function checkParameters(parameters: readonly Tensor[]): void {
  requireAny("make an optimizer", parameters);
  const seen = new Set<Tensor>();
  for (const parameter of parameters) {
    if (!parameter.requiresGrad || stateOf(parameter).gradFn) {
      throw new TypeError(
        `Cannot optimize ${parameter}: pass leaves that require a gradient, such as model.parameters()`,
      );
    }
    if (seen.has(parameter)) {
      throw new TypeError(`Cannot optimize ${parameter} twice: pass each parameter once`);
    }
    seen.add(parameter);
  }
}

/**
 * @throws {RangeError} When names are missing or not known.
 * @throws {ShapeError} When a shape differs.
 */
export function checkState(
  optimizer: string,
  own: Readonly<Record<string, Tensor>>,
  state: Readonly<Record<string, Tensor>>,
): void {
  const missing = Object.keys(own).filter((name) => !Object.hasOwn(state, name));
  const unknown = Object.keys(state).filter((name) => !Object.hasOwn(own, name));
  if (missing.length + unknown.length > 0) {
    throw new RangeError(
      `Cannot load the state of ${optimizer}: missing are [${missing.join(", ")}], ` +
        `not known are [${unknown.join(", ")}]`,
    );
  }
  for (const [name, { shape }] of Object.entries(own)) {
    if (sameShape(shape, state[name]!.shape)) continue;
    throw shapeError("loadStateDict")`
      Cannot load the state of ${optimizer}: ${name} is ${shape} and got ${state[name]!.shape}`;
  }
}
