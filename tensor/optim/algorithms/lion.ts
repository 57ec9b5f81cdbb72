import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { averaged, decayed } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import type { OptimizerOptions, OptimizerParameters } from "../optimizer/parameter_group.ts";

/** Options of {@linkcode Lion}. */
export interface LionOptions extends OptimizerOptions {
  /** The learning rate; default 0.0001. */
  lr?: number;
  /** Share of the momentum in the direction of a step; default 0.9. */
  beta1?: number;
  /** Share of the momentum kept from step to step; default 0.99. */
  beta2?: number;
  /** Parameters shrink by `lr * weightDecay` a step; default 0. */
  weightDecay?: number;
}

/**
 * Lion: steps of one length, along the sign of the momentum (X. Chen et al., Symbolic Discovery of
 * Optimization Algorithms, 2023). Its learning rate is 3 to 10 times smaller than that of AdamW, its
 * decay as much larger; it remembers half as much.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const x = Tensor.fromHost([3, -2], { requiresGrad: true });
 * const optimizer = new optim.Lion([x], { lr: 0.05 });
 * for (let step = 0; step < 30; step++) {
 *   using loss = x.square().sum();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 * }
 * assert(await x.square().sum().item() < 13);
 * ```
 */
export class Lion extends Optimizer<LionOptions> {
  static {
    declareOptions<LionOptions>(this, {
      lr: [1e-4, takes.nonNegative],
      beta1: [0.9, takes.belowOne],
      beta2: [0.99, takes.belowOne],
      weightDecay: [0, takes.nonNegative],
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
  constructor(parameters: OptimizerParameters<LionOptions>, options: LionOptions = {}) {
    super(parameters, options);
  }

  /** The momentum. */
  protected override initialState(parameter: Tensor): Record<string, Tensor> {
    return { exp_avg: zerosFor(parameter) };
  }

  /** Steps along the sign of the momentum. */
  protected override update(u: Update<LionOptions>, assign: Assign): void {
    const { state, gradient, lr, group } = u, { beta2 } = group.options;
    const beta1 = group.momentumOn(u.parameter.device);
    const { parameter } = decayed(u, true);
    const direction = averaged(state.exp_avg!, gradient, beta1).sign();
    assign(state.exp_avg!, averaged(state.exp_avg!, gradient, beta2));
    assign(u.parameter, parameter.sub(direction.mul(lr)));
  }
}
