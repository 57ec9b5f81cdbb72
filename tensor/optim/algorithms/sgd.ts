/**
 * Stochastic gradient descent. This folder (`algorithms/`) has the formula of each optimizer; it
 * imports `optimizer/`, `ops/`, `execution/` and `core/`.
 */
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

/** Options of {@linkcode SGD}. */
export interface SGDOptions extends OptimizerOptions {
  /** The learning rate; default 0.001. */
  lr?: number;
  /** Share of the former step that is made again; default 0. */
  momentum?: number;
  /** Share of the gradient that is kept out of the momentum; default 0. */
  dampening?: number;
  /** Share of the parameter that is added to its gradient; default 0. */
  weightDecay?: number;
  /** Looks ahead along the momentum (Y. Nesterov, 1983); default false. */
  nesterov?: boolean;
}

/**
 * Stochastic gradient descent, with momentum where wanted: `v = momentum * v + g`, `p = p - lr * v`.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([1, 2], { requiresGrad: true });
 * const optimizer = new optim.SGD([x], { lr: 0.25 });
 * x.mul(x).sum().backward();
 * optimizer.step();
 * assertEquals(await x.toArray(), [0.5, 1]);
 * ```
 */
export class SGD extends Optimizer<SGDOptions> {
  static {
    declareOptions<SGDOptions>(this, {
      lr: [1e-3, takes.nonNegative],
      momentum: [0, takes.nonNegative],
      dampening: [0, takes.nonNegative],
      weightDecay: [0, takes.nonNegative],
      nesterov: [false, takes.bool],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, momentum, decay.
   * @throws {TypeError} When an option is not known.
   * @throws {RangeError} When nesterov is asked for without momentum, or with dampening, or a number is
   * negative.
   */
  constructor(parameters: OptimizerParameters<SGDOptions>, options: SGDOptions = {}) {
    super(parameters, options);
  }

  /** Nesterov's momentum is one. */
  protected override checkGroup(
    { nesterov, momentum, dampening }: Required<Omit<SGDOptions, "lr">>,
  ): void {
    if (!nesterov || momentum > 0 && dampening === 0) return;
    throw new RangeError(
      "Cannot use nesterov without momentum, or with dampening: pass a momentum above 0 and no dampening",
    );
  }

  /** The momentum, where there is one. */
  protected override initialState(
    parameter: Tensor,
    { hasMomentum }: ParameterGroup<SGDOptions>,
  ): Record<string, Tensor> {
    return !hasMomentum ? {} : { momentum_buffer: zerosFor(parameter) };
  }

  /** The first gradient is not damped. */
  protected override counts({ hasMomentum, options }: ParameterGroup<SGDOptions>): boolean {
    return hasMomentum && options.dampening !== 0;
  }

  /** Steps along the gradient, or along the momentum. */
  protected override update(u: Update<SGDOptions>, assign: Assign): void {
    const { lr, group } = u, momentum = group.momentumOn(u.parameter.device);
    const { gradient, parameter } = decayed(u, false);
    let direction = gradient;
    if (group.hasMomentum) {
      const buffer = u.state.momentum_buffer!;
      const velocity = buffer.mul(momentum).add(this.#damped(gradient, u));
      assign(buffer, velocity);
      direction = group.options.nesterov ? gradient.add(velocity.mul(momentum)) : velocity;
    }
    assign(parameter, parameter.sub(direction.mul(lr)));
  }

  /** The first gradient is not damped, as in PyTorch. */
  #damped(
    gradient: Tensor,
    { step, group: { options: { dampening } } }: Update<SGDOptions>,
  ): Tensor {
    if (dampening === 0) return gradient;
    return gradient.mul(step.slice(0).eq(1).where(1, 1 - dampening));
  }
}
