/** Activations whose gradient is not that of the operations that they are made of. */
import { dtypes, formatShape } from "../../backend/internal.ts";
import { requireTensor, result, sameDevice } from "../core/apply.ts";
import { ShapeError } from "../core/errors.ts";
import { noGrad } from "../core/grad_mode.ts";
import type { Tensor } from "../tensor.ts";

/** `x * clamp(x + 3, 0, 6) / 6`; at its corners the slope is that outside, as in PyTorch. */
export function hardswish(x: Tensor): Tensor {
  const input = dtypes[x.dtype].kind === "float" ? x : x.cast("float32");
  const value = noGrad(() => {
    const detached = input.detach();
    return detached.mul(detached.add(3).clamp(0, 6)).div(6);
  });
  return result("hardswish", [input], value, (g) => {
    const inside = g.mul(input.div(3).add(0.5));
    return [input.le(-3).where(0, input.ge(3).where(g, inside))];
  });
}

/** `x` where positive, else `weight * x`; a weight of several elements goes along axis 1. */
export function prelu(x: Tensor, weight: Tensor): Tensor {
  requireTensor("prelu", weight, " for the weight");
  sameDevice("prelu", [x, weight]);
  const channels = x.ndim < 2 ? 1 : x.shape[1]!;
  if (weight.ndim > 1 || weight.size !== 1 && weight.size !== channels) {
    throw new ShapeError(
      `Cannot prelu a tensor of shape ${formatShape(x.shape)} with a weight of shape ${
        formatShape(weight.shape)
      }: pass one number, or one for each of the ${channels} channels of axis 1`,
    );
  }
  const slope = weight.size === 1
    ? weight.reshape([])
    : weight.reshape([weight.size, ...x.shape.slice(2).map(() => 1)]);
  const isPositive = x.gt(0);
  // The negative part alone meets the weight, whose gradient a positive infinity would make NaN.
  return isPositive.where(x, isPositive.where(0, x).mul(slope));
}
