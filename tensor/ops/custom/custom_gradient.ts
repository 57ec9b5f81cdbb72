/** Gradients of the user's own, for functions of tensors. */
import { isEager, isFloat, Node, sameShape } from "../../../backend/internal.ts";
import { newGradFn, requireTensor } from "../../core/apply.ts";
import { observed } from "../../core/operations.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import type { UserGradient } from "../../core/grad_fn.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { requireValue, shown, takes } from "../../core/rules/options.ts";
import { internally } from "../../core/modes/temporaries.ts";
import type { Tensor } from "../../core/mod.ts";
import { isTensor, makeTensor, nodeOf, stateOf } from "../../core/internals.ts";

/** The gradients of a function's inputs, null where there is none. */
export type CustomGradientFn<Inputs extends Tensor[] = Tensor[]> = (
  g: Tensor,
  inputs: Inputs,
  output: Tensor,
) => (Tensor | null)[];

/**
 * A function of tensors with a gradient of its own, as PyTorch's `autograd.Function`: for what has
 * none (rounding, comparisons), or where another one is wanted (straight-through estimators, reversed
 * or clipped gradients).
 *
 * @param forward Computes the value; nothing in it is recorded for `backward`.
 * @param gradient Gets the gradient of the output, the inputs and the output, and gives a gradient of
 * its shape for each input, or null. It is called by each `backward`, in every call of a compiled function,
 * too. Under `createGraph` it is recorded itself.
 * @returns The function: lazy like any operation, part of `compile` and of `checkpoint`.
 * @throws {TypeError} When called with something that is no tensor, or `forward` gives none.
 * @throws {DTypeError} When an input requires a gradient and `forward` gives integers.
 * @throws {ShapeError} From `backward`, when a gradient has another shape than its input.
 *
 * @example A gradient that passes through rounding
 * ```ts
 * import { customGradient, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const round = customGradient((x: Tensor) => x.round(), (g) => [g]);
 * const x = Tensor.fromHost([0.4, 1.6], { requiresGrad: true });
 * const y = round(x);
 * y.sum().backward();
 * assertEquals(await y.toArray(), [0, 2]);
 * assertEquals(await x.grad!.toArray(), [1, 1]);
 * ```
 */
export function customGradient<Inputs extends Tensor[]>(
  forward: (...inputs: Inputs) => Tensor,
  gradient: CustomGradientFn<Inputs>,
): (...inputs: Inputs) => Tensor {
  requireValue("make a custom gradient", "forward", forward, takes.callback);
  requireValue("make a custom gradient", "gradient", gradient, takes.callback);
  const name = forward.name || "customGradient";
  const attach = observed(
    (value: Tensor, ...inputs: Inputs) => recorded(name, value, inputs, gradient),
    "compute",
  );
  return (...inputs) => {
    for (const input of inputs) requireTensor(name, input);
    const value = internally(() => forward(...inputs));
    requireTensor(`return from ${name}`, value);
    return attach(value, ...inputs);
  };
}

/** The value as a tensor of its own, whose gradient is the caller's. */
function recorded<Inputs extends Tensor[]>(
  name: string,
  value: Tensor,
  inputs: Inputs,
  gradient: CustomGradientFn<Inputs>,
): Tensor {
  const node = new Node({ kind: "reshape" }, [nodeOf(value)], value.shape, value.dtype);
  const out = makeTensor(node, value.device);
  if (isGradEnabled() && inputs.some((input) => input.requiresGrad)) {
    if (!isFloat(value.dtype)) {
      throw dtypeError(name)`
        Cannot give ${name} a gradient: it returns ${value.dtype}, and only floating point has
        one; cast() what it returns`;
    }
    const user: UserGradient = {
      ask: ([g], inputs, [output]) => gradient(g!, inputs as Inputs, output!),
      resultsOf: ([output], [g]) => ({ results: [output!], gradients: [g!] }),
      gradientsIn: (given) => gradientsOfUser(name, given, inputs),
    };
    const state = stateOf(out);
    state.record(newGradFn(name, inputs, () => [], { outputs: [state.order], user }));
  }
  return isEager() ? out.realize() : out;
}

/**
 * The gradients that a function of the user gave, each in the type of its input.
 *
 * @throws {TypeError} When they are not one for each input, or no tensors.
 * @throws {ShapeError} When one has another shape than its input.
 */
export function gradientsOfUser(
  name: string,
  found: unknown,
  inputs: readonly Tensor[],
): (Tensor | null)[] {
  if (!Array.isArray(found) || found.length !== inputs.length) {
    const given = Array.isArray(found) ? `${found.length} gradients` : shown(found);
    throw new TypeError(
      `Cannot go backward through ${name}: its gradient gave ${given}; return an array of ` +
        `${inputs.length}, one for each input, null where there is none`,
    );
  }
  return inputs.map((input, k) => {
    const gradient = found[k] ?? null;
    if (gradient === null || !input.requiresGrad) return null;
    if (!isTensor(gradient)) {
      throw new TypeError(
        `Cannot go backward through ${name}: its gradient gave ${
          shown(gradient)
        } for input ${k}; ` +
          `return a tensor or null`,
      );
    }
    if (sameShape(gradient.shape, input.shape)) return gradient.cast(input.dtype);
    throw shapeError(name)`
      Cannot go backward through ${name}: its gradient gave shape ${gradient.shape} for input ${k}
      of shape ${input.shape}; sum() what was broadcast`;
  });
}
