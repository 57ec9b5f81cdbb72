import { requireTensor } from "../../core/apply.ts";
import type { Tensor } from "../../core/mod.ts";

/**
 * The input of a layer that is a method of tensors.
 *
 * @param layer What is run, for the message.
 * @param x The input, as callers without types may pass it.
 * @throws {TypeError} When it is no tensor, such as the result of a recurrent layer as a whole.
 */
export function inputOf(layer: object, x: Tensor): Tensor {
  requireTensor(`run ${layer.constructor.name}`, x);
  return x;
}
