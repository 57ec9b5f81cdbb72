import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { averaged, decayed, unbiased } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import type { OptimizerOptions, OptimizerParameters } from "../optimizer/parameter_group.ts";

/** Options of {@linkcode RAdam}. */
export interface RAdamOptions extends OptimizerOptions {
  /** The learning rate; default 0.001. */
  lr?: number;
  /** Share of the mean gradient kept from step to step; default 0.9. */
  beta1?: number;
  /** Share of the mean squared gradient kept from step to step; default 0.999. */
  beta2?: number;
  /** Added to the root of the mean square; default 1e-8. */
  eps?: number;
  /** Share of the parameter that is added to its gradient; default 0. */
  weightDecay?: number;
  /** True when parameters shrink by `lr * weightDecay` instead, as in AdamW; default false. */
  decoupledWeightDecay?: boolean;
}

/**
 * RAdam: Adam whose first steps, when the mean square is not known well, are steps of plain momentum (L.
 * Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2020).
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const x = Tensor.fromHost([3, -2], { requiresGrad: true });
 * const optimizer = new optim.RAdam([x], { lr: 0.1 });
 * for (let step = 0; step < 30; step++) {
 *   using loss = x.square().sum();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 * }
 * assert(await x.square().sum().item() < 13);
 * ```
 */
export class RAdam extends Optimizer<RAdamOptions> {
  static {
    declareOptions<RAdamOptions>(this, {
      lr: [1e-3, takes.nonNegative],
      beta1: [0.9, takes.belowOne],
      beta2: [0.999, takes.belowOne],
      eps: [1e-8, takes.nonNegative],
      weightDecay: [0, takes.nonNegative],
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
  constructor(parameters: OptimizerParameters<RAdamOptions>, options: RAdamOptions = {}) {
    super(parameters, options);
  }

  /** Both moments. */
  protected override initialState(parameter: Tensor): Record<string, Tensor> {
    return { exp_avg: zerosFor(parameter), exp_avg_sq: zerosFor(parameter) };
  }

  /** True: the number of steps tells how well the mean square is known. */
  protected override counts(): boolean {
    return true;
  }

  /** Steps along the mean gradient, divided by the root of its mean square where that is known well. */
  protected override update(u: Update<RAdamOptions>, assign: Assign): void {
    const { state, lr, group: { options } } = u;
    const { beta2, eps } = options, beta1 = u.group.momentumOn(u.parameter.device);
    const { gradient, parameter } = decayed(u, options.decoupledWeightDecay);
    const step = u.step.slice(0);
    const mean = averaged(state.exp_avg!, gradient, beta1);
    const square = averaged(state.exp_avg_sq!, gradient.square(), beta2);
    assign(state.exp_avg!, mean);
    assign(state.exp_avg_sq!, square);
    // The length of the average's memory: 2 / (1 - beta2) - 1 in the end.
    const longest = 2 / (1 - beta2) - 1;
    const gone = step.mul(-Math.log(beta2)).expm1();
    const length = step.mul(2).div(gone).neg().add(longest);
    const known = length.sub(4).mul(length.sub(2)).mul(longest)
      .div(length.mul((longest - 4) * (longest - 2)));
    const scale = known.maximum(0).mul(unbiased(step, beta2)).sqrt();
    const adaptive = scale.div(square.sqrt().add(eps));
    const factor = length.gt(5).where(adaptive, 1);
    assign(u.parameter, parameter.sub(mean.mul(lr.div(unbiased(step, beta1))).mul(factor)));
  }
}
