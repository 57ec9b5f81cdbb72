import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { averaged, decayed } from "./moments.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import type {
  OptimizerOptions,
  OptimizerParameters,
  ParameterGroup,
} from "../optimizer/parameter_group.ts";

/** Options of {@linkcode RMSprop}. */
export interface RMSpropOptions extends OptimizerOptions {
  /** The learning rate; default 0.01. */
  lr?: number;
  /** Share of the mean squared gradient kept from step to step; default 0.99. */
  alpha?: number;
  /** Added to the root of the mean square; default 1e-8. */
  eps?: number;
  /** Share of the parameter that is added to its gradient; default 0. */
  weightDecay?: number;
  /** Share of the former step that is made again; default 0. */
  momentum?: number;
  /** Divides by the deviation, not by the root of the mean square; default false. */
  centered?: boolean;
}

/**
 * Steps by the gradient, divided by the root of its mean square (T. Tieleman, G. Hinton, Lecture 6.5,
 * 2012).
 */
export class RMSprop extends Optimizer<RMSpropOptions> {
  static {
    declareOptions<RMSpropOptions>(this, {
      lr: [1e-2, takes.nonNegative],
      alpha: [0.99, takes.nonNegative],
      eps: [1e-8, takes.nonNegative],
      weightDecay: [0, takes.nonNegative],
      momentum: [0, takes.nonNegative],
      centered: [false, takes.bool],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, decay rate, momentum.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When a number is negative.
   */
  constructor(parameters: OptimizerParameters<RMSpropOptions>, options: RMSpropOptions = {}) {
    super(parameters, options);
  }

  /** The mean square, and what momentum and centering need. */
  protected override initialState(
    parameter: Tensor,
    { hasMomentum, options: { centered } }: ParameterGroup<RMSpropOptions>,
  ): Record<string, Tensor> {
    const state: Record<string, Tensor> = { square_avg: zerosFor(parameter) };
    if (hasMomentum) state.momentum_buffer = zerosFor(parameter);
    if (centered) state.grad_avg = zerosFor(parameter);
    return state;
  }

  /** Steps along the gradient, divided by the root of its mean square. */
  protected override update(u: Update<RMSpropOptions>, assign: Assign): void {
    const { state, group: { options } } = u;
    const { gradient, parameter } = decayed(u, false);
    const kept = (name: string, value: Tensor): Tensor => {
      const next = averaged(state[name]!, value, options.alpha);
      assign(state[name]!, next);
      return next;
    };
    const square = kept("square_avg", gradient.square());
    const spread = options.centered ? square.sub(kept("grad_avg", gradient).square()) : square;
    let step = gradient.div(spread.sqrt().add(options.eps));
    if (u.group.hasMomentum) {
      const momentum = u.group.momentumOn(parameter.device);
      step = state.momentum_buffer!.mul(momentum).add(step);
      assign(state.momentum_buffer!, step);
    }
    assign(parameter, parameter.sub(step.mul(u.lr)));
  }
}
