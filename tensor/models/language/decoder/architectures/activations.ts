import type { Tensor } from "../../../../core/mod.ts";

/** Activations by the names that configurations give them. */
const activations = {
  silu: (x: Tensor) => x.silu(),
  swish: (x: Tensor) => x.silu(),
  relu: (x: Tensor) => x.relu(),
  relu2: (x: Tensor) => x.relu().square(),
  gelu: (x: Tensor) => x.gelu(),
  gelu_new: (x: Tensor) => x.gelu("tanh"),
  gelu_fast: (x: Tensor) => x.gelu("tanh"),
  gelu_pytorch_tanh: (x: Tensor) => x.gelu("tanh"),
  quick_gelu: (x: Tensor) => x.mul(x.mul(1.702).sigmoid()),
} as const;

/** The name of an activation. */
export type ActivationName = keyof typeof activations;

/**
 * The activation of a name.
 *
 * @throws {TypeError} When it is not known.
 */
export function activationOf(name: unknown): (x: Tensor) => Tensor {
  if (Object.hasOwn(activations, String(name))) return activations[name as ActivationName];
  throw new TypeError(
    `Cannot load a model with the activation ${JSON.stringify(name)}: netcl knows ${
      Object.keys(activations).join(", ")
    }`,
  );
}
