/** Activations: what networks put between their layers. */
import { isFloat } from "../../../backend/internal.ts";
import { requireTensor, result, sameDevice } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/mod.ts";
import { binary } from "./elementwise.ts";

const SQRT_HALF = Math.SQRT1_2;
const SQRT_TWO_OVER_PI = Math.sqrt(2 / Math.PI);

/** Beyond it gelu's tanh is 1 in every type; cubes of much larger numbers leave their range. */
const GELU_END = 8;

/** Integers and truth values as float32. */
function asFloat(x: Tensor): Tensor {
  return isFloat(x.dtype) ? x : x.cast("float32");
}

/** `x` where positive, else 0. */
export function relu(x: Tensor): Tensor {
  return binary("relu", x, 0);
}

/** `x` where positive, else `slope * x`. */
export function leakyRelu(x: Tensor, slope = 0.01): Tensor {
  const input = asFloat(x);
  const value = withoutGrad(() => {
    const detached = input.detach();
    return detached.gt(0).where(detached, detached.mul(slope));
  });
  return result("leakyRelu", [input], value, (g) => [input.gt(0).where(g, g.mul(slope))]);
}

/** `x * P(X <= x)`, by the error function or by the usual approximation. */
export function gelu(x: Tensor, approximate: "none" | "tanh" = "none"): Tensor {
  if (approximate === "none") return x.mul(0.5).mul(x.mul(SQRT_HALF).erf().add(1));
  if (approximate !== "tanh") {
    throw new TypeError(`Cannot compute gelu by ${shown(approximate)}: pass "none" or "tanh"`);
  }
  const near = x.clamp(-GELU_END, GELU_END);
  const inner = near.mul(near.mul(near).mul(0.044715).add(1)).mul(SQRT_TWO_OVER_PI);
  return x.mul(0.5).mul(inner.tanh().add(1));
}

/** `x * sigmoid(x)`. */
export function silu(x: Tensor): Tensor {
  return x.mul(x.sigmoid());
}

/** `log(sigmoid(x))`. */
export function logSigmoid(x: Tensor): Tensor {
  return x.neg().softplus().neg();
}

/** `clamp(x + 3, 0, 6) / 6`. */
export function hardsigmoid(x: Tensor): Tensor {
  return x.div(6).add(0.5).clamp(0, 1);
}

/** `x * tanh(log(1 + exp(x)))`. */
export function mish(x: Tensor): Tensor {
  return x.mul(softplus(x).tanh());
}

/** `x * clamp(x + 3, 0, 6) / 6`; at its corners the slope is that outside, as in PyTorch. */
export function hardswish(x: Tensor): Tensor {
  const input = asFloat(x);
  const value = withoutGrad(() => {
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
    throw shapeError("prelu")`
      Cannot prelu a tensor of shape ${x.shape} with a weight of shape ${weight.shape}: pass one
      number, or one for each of the ${channels} channels of axis 1`;
  }
  const slope = weight.size === 1
    ? weight.reshape([])
    : weight.reshape([weight.size, ...x.shape.slice(2).map(() => 1)]);
  const isPositive = x.gt(0);
  // The negative part alone meets the weight, whose gradient a positive infinity would make NaN.
  return isPositive.where(x, isPositive.where(0, x).mul(slope));
}

/**
 * `log(1 + exp(x))`, by a form that does not overflow; the gradient is not that form's, which has
 * a corner at 0.
 */
export function softplus(x: Tensor): Tensor {
  const input = asFloat(x);
  const value = withoutGrad(() => {
    const detached = input.detach();
    return detached.abs().neg().exp().log1p().add(detached.relu());
  });
  return result("softplus", [input], value, (g) => [g.mul(input.sigmoid())]);
}

/** `x` where positive, else `alpha * (exp(x) - 1)`; its gradient does not vanish before `exp(x)` does. */
export function elu(x: Tensor, alpha = 1): Tensor {
  const input = asFloat(x);
  const value = withoutGrad(() => {
    const detached = input.detach();
    return detached.gt(0).where(detached, detached.minimum(0).expm1().mul(alpha));
  });
  return result("elu", [input], value, (g) => [
    g.mul(input.gt(0).where(1, input.minimum(0).exp().mul(alpha))),
  ]);
}
