/** Common part of optimizers that average gradients. */
import type { Tensor } from "../../core/mod.ts";
import type { Update } from "../optimizer/optimizer.ts";
import type { OptimizerOptions } from "../optimizer/parameter_group.ts";

/** A moving average with `value` in it: `beta * average + (1 - beta) * value`. */
export function averaged(average: Tensor, value: Tensor, beta: number | Tensor): Tensor {
  const rest = typeof beta === "number" ? 1 - beta : beta.neg().add(1);
  return average.mul(beta).add(value.mul(rest));
}

/** The share of an average from zero that is there after `step` steps: `1 - beta ** step`. */
export function unbiased(step: Tensor, beta: number | Tensor): Tensor {
  // By expm1: 1 - 0.999 ** 1 has lost half its digits in float32.
  return step.mul(logOf(beta)).expm1().neg();
}

/** The natural logarithm of a number, or of a scalar. */
export function logOf(value: number | Tensor): number | Tensor {
  return typeof value === "number" ? Math.log(value) : value.log();
}

/** The gradient and the parameter with the weight decay in one of them. */
export function decayed<Options extends OptimizerOptions & { weightDecay?: number }>(
  { gradient, parameter, lr, group }: Update<Options>,
  isDecoupled: boolean,
): { gradient: Tensor; parameter: Tensor } {
  const { weightDecay } = group.options as { weightDecay: number };
  if (weightDecay === 0) return { gradient, parameter };
  if (isDecoupled) {
    return { gradient, parameter: parameter.sub(parameter.mul(lr.mul(weightDecay))) };
  }
  return { gradient: gradient.add(parameter.mul(weightDecay)), parameter };
}
