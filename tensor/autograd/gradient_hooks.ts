/** What users have done to gradients on their way: see `Tensor.registerHook`. */
import { formatShape, sameShape } from "../../backend/internal.ts";
import { ShapeError } from "../core/rules/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { exposed } from "../core/internals.ts";
import type { GradientHook } from "../core/arguments.ts";

const hooks = new WeakMap<object, Set<{ readonly run: GradientHook }>>();

/**
 * Adds a hook; disposing of what it returns takes it away.
 *
 * @throws {TypeError} When the tensor requires no gradient.
 */
export function addGradientHook(tensor: Tensor, run: GradientHook): Disposable {
  requireValue("register a hook", "hook", run, takes.callback);
  if (!tensor.requiresGrad) {
    throw new TypeError(
      `Cannot register a hook of ${tensor}: it requires no gradient; set requiresGrad, or what it is ` +
        `computed from`,
    );
  }
  const entry = { run };
  const entries = hooks.get(tensor) ?? new Set();
  hooks.set(tensor, entries.add(entry));
  return { [Symbol.dispose]: () => void entries.delete(entry) };
}

/** The gradient that goes on, after all hooks of a tensor. */
export function hookedGradient(tensor: Tensor, gradient: Tensor): Tensor {
  const entries = hooks.get(tensor);
  if (!entries) return gradient;
  return [...entries].reduce((current, { run }) => {
    // The user may keep what he gets.
    const given = exposed(current.detach());
    const next = run(given) ?? null;
    if (next === null) return current;
    if (sameShape(next.shape, tensor.shape)) return next.cast(tensor.dtype);
    throw new ShapeError(
      `Cannot go backward with a gradient of shape ${
        formatShape(next.shape)
      } from a hook of a tensor of shape ${formatShape(tensor.shape)}: return one of its shape`,
    );
  }, gradient);
}
