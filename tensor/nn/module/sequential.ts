import { DTypeError, ShapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
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

  /** The layers, named by their positions. */
  protected override members(): Record<string, unknown> {
    return this.layers as unknown as Record<string, unknown>;
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
  const kind = [ShapeError, DTypeError].find((type) => error instanceof type);
  if (!kind) return error;
  const { message } = error as Error;
  const located = new kind(`Layer ${position} (${layer.constructor.name}): ${message}`);
  located.cause = error;
  return located;
}
