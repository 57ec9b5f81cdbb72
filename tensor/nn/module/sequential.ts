import { DTypeError, ShapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { Module } from "./module.ts";

/**
 * Layers one after the other. Their names are their positions: "0.weight", "2.bias".
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * assertEquals(model.forward(Tensor.zeros([3, 4])).shape, [3, 2]);
 * assertEquals(model.namedParameters().map(([name]) => name), [
 *   "0.weight", "0.bias", "2.weight", "2.bias",
 * ]);
 * ```
 */
export class Sequential extends Module {
  /** The layers in order. */
  readonly layers: Module[];

  /**
   * Makes the module.
   *
   * @param layers The layers in order.
   * @throws {TypeError} When one is no module.
   */
  constructor(...layers: Module[]) {
    super();
    const other = layers.findIndex((layer) => !(layer instanceof Module));
    if (other >= 0) {
      throw new TypeError(
        `Cannot make a Sequential: layer ${other} is ${typeof layers[
          other
        ]}, no module; pass modules ` +
          `one by one, and write a class that extends nn.Module around a function`,
      );
    }
    this.layers = layers;
  }

  /** The layers are named by their positions. */
  protected override stateName(property: string): string {
    return property === "layers" ? "" : super.stateName(property);
  }

  /**
   * Runs every layer on the output of the one before.
   *
   * @throws {ShapeError} When an input does not fit a layer, which the message names.
   */
  forward(x: Tensor): Tensor {
    return this.layers.reduce((value, layer, position) => {
      try {
        return layer.forward(value);
      } catch (error) {
        throw located(error, position, layer);
      }
    }, x);
  }
}

/** The error with the layer's name in front, where it is one of what the layer was given. */
function located(error: unknown, position: number, layer: Module): unknown {
  const text = `Layer ${position} (${layer.constructor.name}): ${(error as Error).message}`;
  const located = error instanceof ShapeError
    ? new ShapeError(text, error)
    : error instanceof DTypeError
    ? new DTypeError(text, error)
    : null;
  if (located) located.cause = error;
  return located ?? error;
}
