import { shapeError } from "../../core/rules/errors.ts";
import { takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { declareOptions } from "../optimizer/declared_options.ts";
import { type Assign, Optimizer, type Update, zerosFor } from "../optimizer/optimizer.ts";
import type { OptimizerOptions, OptimizerParameters } from "../optimizer/parameter_group.ts";
import { averaged, decayed } from "./moments.ts";

/** Options of {@linkcode Muon}. */
export interface MuonOptions extends OptimizerOptions {
  /** The learning rate; default 0.001. */
  lr?: number;
  /** Share of the momentum kept from step to step; default 0.95. */
  momentum?: number;
  /** True: the gradient has a part in the direction beside the momentum (default). */
  nesterov?: boolean;
  /** Parameters shrink by `lr * weightDecay` a step; default 0.1. */
  weightDecay?: number;
  /** Iterations that make the direction orthogonal; default 5. */
  nsSteps?: number;
  /** The least norm that a direction is divided by; default 1e-7. */
  eps?: number;
  /**
   * Dependence of the rate on the shape: by the root of rows over columns (`original`, default), or such that
   * steps are as long as those of AdamW (`matchRmsAdamw`), whose rate is then the right one.
   */
  adjustLr?: "original" | "matchRmsAdamw";
}

/** Coefficients of the iteration: those with the steepest slope at 0. */
const [FIRST, THIRD, FIFTH] = [3.4445, -4.775, 2.0315];

/**
 * Muon: steps along the momentum made orthogonal, so that all directions of a matrix change alike (K.
 * Jordan et al., 2024). For matrices inside a model; biases, norms, embeddings and the last layer are
 * learned by AdamW. Products are of float32, where PyTorch rounds to bfloat16.
 *
 * @example
 * ```ts
 * import { nn, optim, Tensor } from "@netcl/netcl";
 *
 * const model = new nn.Linear(8, 8);
 * const muon = new optim.Muon([model.weight], { lr: 0.02 });
 * const adam = new optim.AdamW([model.bias!], { lr: 0.001 });
 * model.forward(Tensor.ones([2, 8])).square().mean().backward();
 * for (const optimizer of [muon, adam]) optimizer.step();
 * ```
 */
export class Muon extends Optimizer<MuonOptions> {
  static {
    declareOptions<MuonOptions>(this, {
      lr: [1e-3, takes.nonNegative],
      momentum: [0.95, takes.belowOne],
      nesterov: [true, takes.bool],
      weightDecay: [0.1, takes.nonNegative],
      nsSteps: [5, takes.count],
      eps: [1e-7, takes.positive],
      adjustLr: ["original", takes.oneOf("original", "matchRmsAdamw")],
    });
  }

  /**
   * Makes the optimizer.
   *
   * @param parameters Matrices that are learned, or groups of them with options of their own.
   * @param options Learning rate, momentum.
   * @throws {ShapeError} When one is no matrix.
   */
  constructor(parameters: OptimizerParameters<MuonOptions>, options: MuonOptions = {}) {
    super(parameters, options);
    for (const { parameters } of this.groups) {
      for (const { ndim, shape } of parameters) {
        if (ndim === 2) continue;
        throw shapeError("Muon")`
          Cannot make a Muon for a parameter of shape ${shape}: it learns matrices; pass others to
          an AdamW`;
      }
    }
  }

  /** The momentum. */
  protected override initialState(parameter: Tensor): Record<string, Tensor> {
    return { momentum_buffer: zerosFor(parameter) };
  }

  /** Steps along the momentum made orthogonal. */
  protected override update(u: Update<MuonOptions>, assign: Assign): void {
    const { gradient, state, lr, group: { options } } = u, kept = u.group.momentumOn(lr.device);
    const { parameter } = decayed(u, true);
    const mean = averaged(state.momentum_buffer!, gradient, kept);
    assign(state.momentum_buffer!, mean);
    const direction = options.nesterov ? averaged(mean, gradient, kept) : mean;
    const [rows, columns] = gradient.shape as [number, number];
    const factor = options.adjustLr === "original"
      ? Math.sqrt(Math.max(1, rows / columns))
      : 0.2 * Math.sqrt(Math.max(rows, columns));
    assign(u.parameter, parameter.sub(orthogonal(direction, options).mul(lr.mul(factor))));
  }
}

/** The nearest matrix of which all singular values are about 1, by the iteration of Newton and Schulz. */
function orthogonal(
  direction: Tensor,
  { nsSteps, eps }: Required<Pick<MuonOptions, "nsSteps" | "eps">>,
): Tensor {
  const [rows, columns] = direction.shape as [number, number], isTall = rows > columns;
  const wide = isTall ? direction.transpose() : direction;
  let x = wide.div(wide.norm().clamp(eps));
  for (let step = 0; step < nsSteps; step++) {
    const gram = x.matmul(x.transpose());
    x = gram.mul(THIRD).add(gram.matmul(gram).mul(FIFTH)).matmul(x).add(x.mul(FIRST));
  }
  return isTall ? x.transpose() : x;
}
