import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import { type Assign, Optimizer, type Update } from "../optimizer/optimizer.ts";
import type { OptimizerOptions, OptimizerParameters } from "../optimizer/parameter_group.ts";
import { averaged, decayed } from "./moments.ts";

/** Options of {@linkcode Adafactor}. */
export interface AdafactorOptions extends OptimizerOptions {
  /** The learning rate, relative to the size of a parameter; default 0.01. */
  lr?: number;
  /** The mean square forgets `step ** beta2Decay`; default -0.8. */
  beta2Decay?: number;
  /** The least mean of squares, and root of one; default 2 ** -23. */
  eps1?: number;
  /** The least size of a parameter that a step is relative to; default 0.001. */
  eps2?: number;
  /** The longest step, as a root of a mean square; default 1. */
  d?: number;
  /** Parameters shrink by `lr * weightDecay` a step; default 0. */
  weightDecay?: number;
}

/**
 * Adafactor: of a matrix's mean squares it keeps those of rows and columns alone, so that its state is
 * small; steps are relative to the size of a parameter (N. Shazeer, M. Stern, Adafactor, 2018). As
 * PyTorch's.
 *
 * @example
 * ```ts
 * import { nn, optim, Tensor } from "@netcl/netcl";
 *
 * const model = new nn.Linear(64, 32), optimizer = new optim.Adafactor(model.parameters());
 * model.forward(Tensor.ones([2, 64])).square().mean().backward();
 * optimizer.step();
 * ```
 */
export class Adafactor extends Optimizer<AdafactorOptions> {
  static {
    declareOptions<AdafactorOptions>(this, {
      lr: [1e-2, takes.nonNegative],
      beta2Decay: [-0.8, {
        takes: "a number of at most 0",
        accepts: (v) => typeof v === "number" && v <= 0,
      }],
      eps1: [2 ** -23, takes.positive],
      eps2: [1e-3, takes.nonNegative],
      d: [1, { takes: "a number of at least 1", accepts: (v) => typeof v === "number" && v >= 1 }],
      weightDecay: [0, takes.nonNegative],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters What is learned, or groups of it with options of their own.
   * @param options Learning rate, decay, bounds.
   */
  constructor(parameters: OptimizerParameters<AdafactorOptions>, options: AdafactorOptions = {}) {
    super(parameters, options);
  }

  /** Mean squares of rows and columns, or of each element of a vector. */
  protected override initialState(parameter: Tensor): Record<string, Tensor> {
    const { shape, ndim, dtype } = parameter;
    const zeros = (shape: readonly number[]): Tensor => {
      const isHalf = dtype === "float16" || dtype === "bfloat16";
      const made = parameter.detach().zerosLike([...shape]);
      return (isHalf ? made.cast("float32") : made).realize();
    };
    if (ndim < 2) return { variance: zeros(shape) };
    return { row_var: zeros(shape.with(-1, 1)), col_var: zeros(shape.with(-2, 1)) };
  }

  /** True: what is forgotten depends on the number of steps. */
  protected override counts(): boolean {
    return true;
  }

  /** Steps along the gradient over the root of its mean square. */
  protected override update(u: Update<AdafactorOptions>, assign: Assign): void {
    const { gradient, state, lr, group: { options } } = u, { eps1, eps2, d } = options;
    const step = u.step.slice(0), root = Math.sqrt(gradient.size);
    const kept = step.pow(options.beta2Decay).neg().add(1);
    const next = (name: string, value: Tensor): Tensor => {
      const mean = averaged(state[name]!, value, kept);
      assign(state[name]!, mean);
      return mean;
    };
    const squares = gradient.square(), keepDims = true;
    const size = u.parameter.norm().div(root).cast("float32").maximum(eps2);
    const length = size.mul(lr.minimum(step.rsqrt()));
    const { parameter } = decayed(u, true);
    let spread: Tensor;
    if (gradient.ndim < 2) spread = next("variance", squares);
    else {
      const rows = next("row_var", squares.mean(-1, { keepDims }));
      const columns = next("col_var", squares.mean(-2, { keepDims }));
      spread = rows.mul(columns).div(rows.mean(-2, { keepDims }).clamp(eps1));
    }
    const direction = spread.clamp(eps1 * eps1).rsqrt().mul(gradient);
    const excess = direction.norm().div(root * d).maximum(1);
    assign(u.parameter, parameter.sub(direction.mul(length.div(excess)).cast(parameter.dtype)));
  }
}
