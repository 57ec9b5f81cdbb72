/** Steps of training that tests are about only in passing. */
import { type amp, type optim, profiler, type Tensor } from "../../mod.ts";

/** The optimizers' methods that a step takes. */
type Learner = Pick<optim.Optimizer, "zeroGrad" | "step">;

/**
 * One step: gradients of a loss, and parameters that have learned from them. Gives the loss.
 *
 * @param loss The loss; as a function it is computed after the former gradients were let go of.
 * @param scaler Its factor is the gradients' on the way; without it they are as they are.
 */
export function learn(
  optimizer: Learner,
  loss: Tensor | (() => Tensor),
  scaler?: amp.GradScaler,
): Tensor {
  optimizer.zeroGrad();
  const value = typeof loss === "function" ? loss() : loss;
  (scaler?.scale(value) ?? value).backward();
  if (scaler === undefined) optimizer.step();
  else scaler.step(optimizer as optim.Optimizer), scaler.update();
  return value;
}

/** The number of kernels that are launched. */
export function kernelsOf(fn: () => unknown): number {
  profiler.reset();
  fn();
  return profiler.counters().kernels;
}
