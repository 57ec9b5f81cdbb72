/** Roles of a tensor in the module that holds it. */
import type { Tensor } from "../../core/mod.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { requireTensor } from "../../core/apply.ts";
import { stateOf } from "../../core/internals.ts";

/** A parameter is learned; a buffer is state beside it; a constant is no business of the module. */
export type Role = "parameter" | "buffer" | "transient";

/** Kept beside the tensors: a frozen parameter stays one, although it requires no gradient. */
const roles = new WeakMap<Tensor, Role>();

/**
 * Makes a tensor a parameter: it is computed, requires a gradient, and the modules that hold it list
 * and save it.
 *
 * @param value The initial value, a leaf of floating point numbers.
 * @returns The same tensor.
 *
 * @example A module with a parameter of its own
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * class Scale extends nn.Module {
 *   factor: Tensor = nn.parameter(Tensor.ones([1]));
 *   forward(x: Tensor): Tensor {
 *     return x.mul(this.factor);
 *   }
 * }
 * assertEquals(new Scale().namedParameters().map(([name]) => name), ["factor"]);
 * ```
 */
export function parameter(value: Tensor): Tensor {
  requireTensor("make a parameter", value);
  value.requiresGrad = true;
  return withRole(value, "parameter");
}

const bufferRules: Rules<{ persistent?: boolean }> = { persistent: takes.bool };

/**
 * Makes a tensor a buffer: state that is not learned but moves with the module.
 *
 * @param value The initial value.
 * @param options `persistent: false` keeps it out of `stateDict`.
 * @returns The same tensor.
 */
export function buffer(value: Tensor, options: { persistent?: boolean } = {}): Tensor {
  requireTensor("make a buffer", value);
  checkOptions("make a buffer", options, bufferRules);
  return withRole(value, options.persistent === false ? "transient" : "buffer");
}

/** Gives a tensor a role. It is computed now, not again and again by what uses it. */
export function withRole(value: Tensor, role: Role): Tensor {
  roles.set(value.realize(), role);
  return value;
}

/** The role of a tensor; null for those that are neither marked nor require a gradient. */
export function roleOf(tensor: Tensor): Role | null {
  return roles.get(tensor) ?? (tensor.requiresGrad && !stateOf(tensor).gradFn ? "parameter" : null);
}
