/** Initial values of weights. Drawn from the seeded generator: the same bits on every device. */
import type { Shape } from "../../../backend/internal.ts";
import { checkedShape, tensorRules } from "../../ops/creation/tensor_options.ts";
import type { TensorOptions } from "../../core/arguments.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";

/** Options computed from the spread of a layer's inputs or outputs. */
export interface KaimingOptions extends TensorOptions {
  /** Variance that is kept: that of the inputs ("fanIn", the default) or of the gradients. */
  mode?: "fanIn" | "fanOut";
  /** The activation that follows; default "leakyRelu". */
  nonlinearity?: Nonlinearity;
  /** The slope of leakyRelu below 0. */
  slope?: number;
}

/** Activations with a known gain. */
export type Nonlinearity = "linear" | "sigmoid" | "tanh" | "relu" | "leakyRelu" | "selu";

const gains: Readonly<Record<Nonlinearity, (slope: number) => number>> = {
  linear: () => 1,
  sigmoid: () => 1,
  tanh: () => 5 / 3,
  relu: () => Math.SQRT2,
  leakyRelu: (slope) => Math.sqrt(2 / (1 + slope ** 2)),
  selu: () => 3 / 4,
};

const kaimingRules: Rules<KaimingOptions> = {
  ...tensorRules,
  mode: takes.oneOf("fanIn", "fanOut"),
  nonlinearity: takes.oneOf(...Object.keys(gains)),
  slope: takes.finite,
};

/**
 * By what an activation scales the standard deviation of what goes through it.
 *
 * @param nonlinearity The activation.
 * @param slope The slope of leakyRelu below 0.
 */
export function gain(nonlinearity: Nonlinearity, slope = 0.01): number {
  requireValue("compute the gain", "nonlinearity", nonlinearity, kaimingRules.nonlinearity);
  return gains[nonlinearity](slope);
}

/**
 * Number of an output's inputs, and of an input's outputs: of weights (out, in, kernel...).
 *
 * @throws {ShapeError} When there are fewer than two axes.
 */
export function fans(shape: Shape): { fanIn: number; fanOut: number } {
  checkedShape("compute the fans of", shape);
  if (shape.length < 2) {
    throw shapeError("fans")`
      Cannot compute the fans of a weight of shape ${shape}: it needs two axes`;
  }
  const field = shape.slice(2).reduce((a, b) => a * b, 1);
  return { fanIn: shape[1]! * field, fanOut: shape[0]! * field };
}

/** Uniform in [low, high). */
export function uniform(shape: Shape, low = 0, high = 1, options?: TensorOptions): Tensor {
  return Tensor.rand(shape, options).mul(high - low).add(low);
}

/** Normal with the given mean and standard deviation. */
export function normal(shape: Shape, mean = 0, deviation = 1, options?: TensorOptions): Tensor {
  return Tensor.randn(shape, options).mul(deviation).add(mean);
}

/** The standard deviation, and what is left of the options for the tensor. */
function kaiming(shape: Shape, options: KaimingOptions): [deviation: number, TensorOptions] {
  checkOptions("make initial weights", options, kaimingRules);
  const { mode = "fanIn", nonlinearity = "leakyRelu", slope = 0, ...others } = options;
  return [gain(nonlinearity, slope) / Math.sqrt(Math.max(1, fans(shape)[mode])), others];
}

/**
 * Uniform, so that the variance stays through layers of the given activation (K. He et al., Delving
 * Deep into Rectifiers, 2015).
 *
 * @example Another beginning for a layer
 * ```ts
 * import { nn } from "@netcl/netcl";
 *
 * const layer = new nn.Conv2d(3, 8, 3);
 * layer.weight.assign(nn.init.kaimingUniform(layer.weight.shape, { nonlinearity: "relu" }));
 * layer.bias?.assign(layer.bias.zerosLike());
 * ```
 */
export function kaimingUniform(shape: Shape, options: KaimingOptions = {}): Tensor {
  const [deviation, others] = kaiming(shape, options);
  const bound = Math.sqrt(3) * deviation;
  return uniform(shape, -bound, bound, others);
}

/** As {@linkcode kaimingUniform}, normal. */
export function kaimingNormal(shape: Shape, options: KaimingOptions = {}): Tensor {
  const [deviation, others] = kaiming(shape, options);
  return normal(shape, 0, deviation, others);
}

function xavierDeviation(shape: Shape, factor: number): number {
  requireValue("make initial weights", "factor", factor, takes.finite);
  const { fanIn, fanOut } = fans(shape);
  return factor * Math.sqrt(2 / Math.max(1, fanIn + fanOut));
}

/**
 * Uniform, between the variances that inputs and gradients want (X. Glorot, Y. Bengio, Understanding
 * the difficulty of training deep feedforward neural networks, 2010).
 *
 * @param shape The shape of the weight.
 * @param factor The gain of the activation, see {@linkcode gain}.
 */
export function xavierUniform(shape: Shape, factor = 1, options?: TensorOptions): Tensor {
  const bound = Math.sqrt(3) * xavierDeviation(shape, factor);
  return uniform(shape, -bound, bound, options);
}

/** As {@linkcode xavierUniform}, normal. */
export function xavierNormal(shape: Shape, factor = 1, options?: TensorOptions): Tensor {
  return normal(shape, 0, xavierDeviation(shape, factor), options);
}
