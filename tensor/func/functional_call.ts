/** Modules as functions of their parameters. */
import { sameShape } from "../../backend/internal.ts";
import { requireState } from "../core/apply.ts";
import { shapeError } from "../core/rules/errors.ts";
import { shown } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { type AnyModule, Module, stateOfModule, tensorMembers } from "../nn/module/module.ts";

/**
 * Calls a module with other tensors in place of its parameters and buffers, which it has again afterwards: as a
 * function of them it can be differentiated and batched.
 *
 * @param module The module.
 * @param parameters Tensors by name, as in `stateDict`; what is left out stays. A tied weight is replaced
 * everywhere.
 * @param inputs What its `forward` gets.
 * @returns What `forward` gives.
 * @throws {RangeError} When the module has no parameter or buffer of a name.
 * @throws {ShapeError} When one has another shape.
 * @throws {TypeError} When `forward` is asynchronous.
 *
 * @example Gradients of each sample
 * ```ts
 * import { func, nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const model = new nn.Linear(2, 1);
 * const parameters = Object.fromEntries(model.namedParameters());
 * const loss = (parameters: Record<string, Tensor>, x: Tensor) =>
 *   func.functionalCall(model, parameters, x).square().sum();
 * const each = func.vmap(func.grad(loss), { inAxes: [null, 0] })(parameters, Tensor.ones([8, 2]));
 * assertEquals([each.weight!.shape, each.bias!.shape], [[8, 1, 2], [8, 1]]);
 * ```
 */
export function functionalCall<M extends AnyModule>(
  module: M,
  parameters: Readonly<Record<string, Tensor>>,
  ...inputs: Parameters<M["forward"]>
): ReturnType<M["forward"]> {
  const op = "call a module as a function";
  if (!(module instanceof Module)) {
    throw new TypeError(`Cannot ${op}: pass a module first, not ${shown(module)}`);
  }
  requireState(op, parameters);
  const others = replacements(module, parameters);
  const places = tensorMembers(module).filter(({ value }) => others.has(value));
  try {
    for (const { value, replace } of places) replace(others.get(value)!);
    const output: unknown = module.forward(...inputs);
    if (output instanceof Promise) {
      throw new TypeError(`Cannot ${op}: forward is asynchronous, and would run without them`);
    }
    return output as ReturnType<M["forward"]>;
  } finally {
    for (const { value, replace } of places) replace(value);
  }
}

/** Tensors in place of those of a module. */
function replacements(
  module: AnyModule,
  parameters: Readonly<Record<string, Tensor>>,
): Map<Tensor, Tensor> {
  const known = new Map(
    stateOfModule(module).flatMap(({ names, tensor }) => names.map((name) => [name, tensor])),
  );
  return new Map(
    Object.entries(parameters).map(([name, other]) => {
      const own = known.get(name);
      if (own === undefined) {
        throw new RangeError(
          `Cannot call ${module.constructor.name} with ${shown(name)}: it has ${
            [...known.keys()].join(", ") || "no parameters"
          }`,
        );
      }
      if (sameShape(own.shape, other.shape)) return [own, other];
      throw shapeError(module.constructor.name)`
        Cannot call ${module.constructor.name} with ${name} of shape ${other.shape}: it has shape
        ${own.shape}`;
    }),
  );
}
