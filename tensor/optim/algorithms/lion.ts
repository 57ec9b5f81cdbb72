import type { Tensor } from "../../tensor.ts";
import { decayed } from "./moments.ts";
import {
  type Assign,
  isDeterminedByOptions,
  Optimizer,
  type Update,
  zerosFor,
} from "../optimizer/optimizer.ts";
import {
  completed,
  type GroupOptions,
  type OptimizerOptions,
  type ParameterGroup,
} from "../optimizer/parameter_group.ts";

/** Options of {@linkcode Lion}. */
export interface LionOptions extends OptimizerOptions {
  /** The learning rate; default 0.0001. */
  lr?: number;
  /** How much of the momentum is in the direction of a step; default 0.9. */
  beta1?: number;
  /** How much of the momentum is kept from step to step; default 0.99. */
  beta2?: number;
  /** Parameters shrink by `lr * weightDecay` a step; default 0. */
  weightDecay?: number;
}

const defaults: Required<LionOptions> = {
  lr: 1e-4,
  beta1: 0.9,
  beta2: 0.99,
  weightDecay: 0,
};

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
    isDeterminedByOptions(this);
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, decay rates.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When a beta is not in [0, 1), or another number is negative.
   */
  constructor(
    parameters: readonly Tensor[] | readonly GroupOptions<LionOptions>[],
    options: LionOptions = {},
  ) {
    super(parameters, completed(new.target.name, defaults, options));
  }

  /** The momentum. */
  protected override initialState(
    parameter: Tensor,
    _group: ParameterGroup<LionOptions>,
  ): Record<string, Tensor> {
    return { exp_avg: zerosFor(parameter) };
  }

  /** Steps along the sign of the momentum. */
  protected override update(u: Update<LionOptions>, assign: Assign): void {
    const { state, gradient, lr, group: { options: { beta1, beta2 } } } = u;
    const { parameter } = decayed(u, true);
    const direction = state.exp_avg!.mul(beta1).add(gradient.mul(1 - beta1)).sign();
    assign(state.exp_avg!, state.exp_avg!.mul(beta2).add(gradient.mul(1 - beta2)));
    assign(u.parameter, parameter.sub(direction.mul(lr)));
  }
}
