import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { averaged, decayed, unbiased } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import type { OptimizerOptions, OptimizerParameters } from "../optimizer/parameter_group.ts";

/** Options of {@linkcode NAdam}. */
export interface NAdamOptions extends OptimizerOptions {
  /** The learning rate; default 0.002. */
  lr?: number;
  /** Share of the mean gradient kept from step to step; default 0.9. */
  beta1?: number;
  /** Share of the mean squared gradient kept from step to step; default 0.999. */
  beta2?: number;
  /** Added to the root of the mean square; default 1e-8. */
  eps?: number;
  /** Share of the parameter that is added to its gradient; default 0. */
  weightDecay?: number;
  /** Speed at which the momentum grows to beta1; default 0.004. */
  momentumDecay?: number;
  /** True when parameters shrink by `lr * weightDecay` instead, as in AdamW; default false. */
  decoupledWeightDecay?: boolean;
}

/**
 * NAdam: Adam with Nesterov momentum (T. Dozat, Incorporating Nesterov Momentum into Adam, 2016).
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const x = Tensor.fromHost([3, -2], { requiresGrad: true });
 * const optimizer = new optim.NAdam([x], { lr: 0.1 });
 * for (let step = 0; step < 30; step++) {
 *   using loss = x.square().sum();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 * }
 * assert(await x.square().sum().item() < 13);
 * ```
 */
export class NAdam extends Optimizer<NAdamOptions> {
  static {
    declareOptions<NAdamOptions>(this, {
      lr: [2e-3, takes.nonNegative],
      beta1: [0.9, takes.belowOne],
      beta2: [0.999, takes.belowOne],
      eps: [1e-8, takes.nonNegative],
      weightDecay: [0, takes.nonNegative],
      momentumDecay: [4e-3, takes.nonNegative],
      decoupledWeightDecay: [false, takes.bool],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, decay rates.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When a beta is not in [0, 1), or another number is negative.
   */
  constructor(parameters: OptimizerParameters<NAdamOptions>, options: NAdamOptions = {}) {
    super(parameters, options);
  }

  /** Both moments, and the product of all momenta so far. */
  protected override initialState(parameter: Tensor): Record<string, Tensor> {
    const product = zerosFor(parameter).onesLike([]);
    return { exp_avg: zerosFor(parameter), exp_avg_sq: zerosFor(parameter), mu_product: product };
  }

  /** The momentum and the moments depend on the number of steps. */
  protected override counts(): boolean {
    return true;
  }

  /** Steps along what the mean gradient will be, divided by the root of its mean square. */
  protected override update(u: Update<NAdamOptions>, assign: Assign): void {
    const { state, lr, group: { options } } = u;
    const { beta2, eps, momentumDecay } = options;
    const beta1 = u.group.momentumOn(u.parameter.device);
    const { gradient, parameter } = decayed(u, options.decoupledWeightDecay);
    const step = u.step.slice(0);
    const momentum = (at: Tensor): Tensor =>
      at.mul(momentumDecay * Math.log(0.96)).exp().mul(-0.5).add(1).mul(beta1);
    const mu = momentum(step), next = momentum(step.add(1));
    const product = state.mu_product!.mul(mu);
    const mean = averaged(state.exp_avg!, gradient, beta1);
    const square = averaged(state.exp_avg_sq!, gradient.square(), beta2);
    assign(state.mu_product!, product);
    assign(state.exp_avg!, mean);
    assign(state.exp_avg_sq!, square);
    const root = square.div(unbiased(step, beta2)).sqrt().add(eps);
    const here = gradient.mul(mu.neg().add(1).div(product.neg().add(1)));
    const ahead = mean.mul(next.div(product.mul(next).neg().add(1)));
    assign(u.parameter, parameter.sub(here.add(ahead).mul(lr).div(root)));
  }
}
