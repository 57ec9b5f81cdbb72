import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { decayed } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import type {
  OptimizerOptions,
  OptimizerParameters,
  ParameterGroup,
} from "../optimizer/parameter_group.ts";

/** Options of {@linkcode Adagrad}. */
export interface AdagradOptions extends OptimizerOptions {
  /** The learning rate; default 0.01. */
  lr?: number;
  /** The rate is divided by `1 + (step - 1) * lrDecay`; default 0. */
  lrDecay?: number;
  /** Share of the parameter that is added to its gradient; default 0. */
  weightDecay?: number;
  /** Initial sum of squared gradients; default 0. */
  initialAccumulatorValue?: number;
  /** Added to the root of the sum; default 1e-10. */
  eps?: number;
}

/**
 * Adagrad: steps by the gradient, divided by the root of the sum of all squared gradients (J. Duchi, E.
 * Hazan, Y. Singer, Adaptive Subgradient Methods, 2011).
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const x = Tensor.fromHost([3, -2], { requiresGrad: true });
 * const optimizer = new optim.Adagrad([x], { lr: 0.5 });
 * for (let step = 0; step < 30; step++) {
 *   using loss = x.square().sum();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 * }
 * assert(await x.square().sum().item() < 13);
 * ```
 */
export class Adagrad extends Optimizer<AdagradOptions> {
  static {
    declareOptions<AdagradOptions>(this, {
      lr: [1e-2, takes.nonNegative],
      lrDecay: [0, takes.nonNegative],
      weightDecay: [0, takes.nonNegative],
      initialAccumulatorValue: [0, takes.nonNegative],
      eps: [1e-10, takes.nonNegative],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, its decay, the first sum.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When a number is negative.
   */
  constructor(parameters: OptimizerParameters<AdagradOptions>, options: AdagradOptions = {}) {
    super(parameters, options);
  }

  /** The sum of squared gradients. */
  protected override initialState(
    parameter: Tensor,
    { options }: ParameterGroup<AdagradOptions>,
  ): Record<string, Tensor> {
    return { sum: zerosFor(parameter).add(options.initialAccumulatorValue) };
  }

  /** The rate decays with the steps. */
  protected override counts({ options }: ParameterGroup<AdagradOptions>): boolean {
    return options.lrDecay !== 0;
  }

  /** Steps along the gradient, divided by the root of the sum of squares. */
  protected override update(u: Update<AdagradOptions>, assign: Assign): void {
    const { state, lr, group: { options: { lrDecay, eps } } } = u;
    const { gradient, parameter } = decayed(u, false);
    const sum = state.sum!.add(gradient.square());
    assign(state.sum!, sum);
    const rate = lrDecay === 0 ? lr : lr.div(u.step.slice(0).sub(1).mul(lrDecay).add(1));
    assign(parameter, parameter.sub(gradient.mul(rate).div(sum.sqrt().add(eps))));
  }
}
