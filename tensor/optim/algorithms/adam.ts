import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { averaged, decayed, logOf } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions, type OptionTable } from "../optimizer/declared_options.ts";
import type {
  OptimizerOptions,
  OptimizerParameters,
  ParameterGroup,
} from "../optimizer/parameter_group.ts";

/** Options of {@linkcode Adam} and {@linkcode AdamW}. */
export interface AdamOptions extends OptimizerOptions {
  /** The learning rate; default 0.001. */
  lr?: number;
  /** Share of the mean gradient kept from step to step; default 0.9. */
  beta1?: number;
  /** Share of the mean squared gradient kept from step to step; default 0.999. */
  beta2?: number;
  /** Added to the root of the mean square; default 1e-8. */
  eps?: number;
  /**
   * Share of the parameter that is added to its gradient, 0 by default; of AdamW the share, times
   * lr, that is taken from the parameter itself, 0.01 by default.
   */
  weightDecay?: number;
  /** Divides by the largest mean square so far (S. Reddi et al., 2018); default false. */
  amsgrad?: boolean;
}

const adamOptions: OptionTable<AdamOptions> = {
  lr: [1e-3, takes.nonNegative],
  beta1: [0.9, takes.belowOne],
  beta2: [0.999, takes.belowOne],
  eps: [1e-8, takes.nonNegative],
  weightDecay: [0, takes.nonNegative],
  amsgrad: [false, takes.bool],
};

/**
 * Adam: steps by the mean gradient, divided by the root of its mean square (D. Kingma, J. Ba, Adam:
 * A Method for Stochastic Optimization, 2015).
 *
 * @example
 * ```ts
 * import { nn, optim, Tensor } from "@netcl/netcl";
 * import { assert } from "@std/assert";
 *
 * const model = new nn.Linear(2, 1);
 * const optimizer = new optim.Adam(model.parameters(), { lr: 0.1 });
 * const losses: number[] = [];
 * for (let step = 0; step < 20; step++) {
 *   using loss = model.forward(Tensor.ones([4, 2])).sub(3).square().mean();
 *   optimizer.zeroGrad();
 *   loss.backward();
 *   optimizer.step();
 *   losses.push(await loss.item());
 * }
 * assert(losses.at(-1)! < losses[0]!);
 * ```
 */
export class Adam extends Optimizer<AdamOptions> {
  static {
    declareOptions(this, adamOptions);
  }

  /** The bias corrections of the step that is being made, by its number. */
  readonly #corrections = new WeakMap<Tensor, Tensor>();

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, decay rates.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When a beta is not in [0, 1), or another number is negative.
   */
  constructor(parameters: OptimizerParameters<AdamOptions>, options: AdamOptions = {}) {
    super(parameters, options);
  }

  /** Both moments, and the largest second one for amsgrad. */
  protected override initialState(
    parameter: Tensor,
    { options }: ParameterGroup<AdamOptions>,
  ): Record<string, Tensor> {
    const moments = { exp_avg: zerosFor(parameter), exp_avg_sq: zerosFor(parameter) };
    return options.amsgrad ? { ...moments, max_exp_avg_sq: zerosFor(parameter) } : moments;
  }

  /** The moments are corrected by the number of steps. */
  protected override counts(): boolean {
    return true;
  }

  /** The gradient and the parameter with the decay in them: here in the gradient. */
  protected decay(u: Update<AdamOptions>): { gradient: Tensor; parameter: Tensor } {
    return decayed(u, false);
  }

  /** Steps along the mean gradient, divided by the root of its mean square. */
  protected override update(u: Update<AdamOptions>, assign: Assign): void {
    const { state, group: { options: { beta2, eps } } } = u;
    const beta1 = u.group.momentumOn(u.parameter.device);
    const { gradient, parameter } = this.decay(u);
    const mean = averaged(state.exp_avg!, gradient, beta1);
    const square = averaged(state.exp_avg_sq!, gradient.square(), beta2);
    assign(state.exp_avg!, mean);
    assign(state.exp_avg_sq!, square);
    const spread = this.#largest(square, u, assign);
    const corrections = this.#correctionsOf(u);
    const root = spread.mul(corrections.slice(1)).sqrt().add(eps);
    const step = mean.mul(corrections.slice(0)).div(root);
    assign(u.parameter, parameter.sub(step));
  }

  #largest(square: Tensor, { state, group }: Update<AdamOptions>, assign: Assign): Tensor {
    if (!group.options.amsgrad) return square;
    const largest = state.max_exp_avg_sq!.maximum(square);
    assign(state.max_exp_avg_sq!, largest);
    return largest;
  }

  /**
   * `1 / (1 - beta ** step)` of both betas, the first times the learning rate. Held in memory, computed
   * once for all parameters; by expm1, because `1 - 0.999 ** 1` has lost half its digits in float32.
   */
  #correctionsOf({ step, lr, group, parameter }: Update<AdamOptions>): Tensor {
    const known = this.#corrections.get(step);
    if (known) return known;
    const first = step.indexLike([2]).eq(0);
    const beta1 = logOf(group.momentumOn(parameter.device));
    const rates = first.where(beta1, Math.log(group.options.beta2));
    const unbiased = step.mul(rates).expm1().neg().reciprocal();
    const made = unbiased.mul(first.where(lr, 1)).contiguous();
    this.#corrections.set(step, made);
    return made;
  }
}

/**
 * Adam with decay of the parameters themselves: they shrink by `lr * weightDecay` a step, whatever
 * their gradients (I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2019).
 */
export class AdamW extends Adam {
  static {
    declareOptions(this, { ...adamOptions, weightDecay: [0.01, takes.nonNegative] });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Those of {@linkcode Adam}; `weightDecay` is 0.01 by default.
   */
  constructor(parameters: OptimizerParameters<AdamOptions>, options: AdamOptions = {}) {
    super(parameters, options);
  }

  /** The gradient and the parameter with the decay in them: here in the parameter. */
  protected override decay(u: Update<AdamOptions>): { gradient: Tensor; parameter: Tensor } {
    return decayed(u, true);
  }
}
