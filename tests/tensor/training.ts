/** Steps of training that tests are about only in passing. */
import type { optim, Tensor } from "../../mod.ts";

/** The optimizers' methods that a step takes. */
type Learner = Pick<optim.Optimizer, "zeroGrad" | "step">;

/**
 * One step: gradients of a loss, and parameters that have learned from them. Gives the loss.
 *
 * @param loss The loss; as a function it is computed after the former gradients were let go of.
 */
export function learn(optimizer: Learner, loss: Tensor | (() => Tensor)): Tensor {
  optimizer.zeroGrad();
  const value = typeof loss === "function" ? loss() : loss;
  value.backward();
  optimizer.step();
  return value;
}
