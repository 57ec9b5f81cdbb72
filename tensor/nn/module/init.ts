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
  /** The slope of leakyRelu below 0; default 0. */
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
 * The factor by which an activation scales the standard deviation of what goes through it.
 *
 * @param nonlinearity The activation.
 * @param slope The slope of leakyRelu below 0; default 0.01.
 */
export function gain(nonlinearity: Nonlinearity, slope = 0.01): number {
  requireValue("compute the gain", "nonlinearity", nonlinearity, kaimingRules.nonlinearity);
  requireValue("compute the gain", "slope", slope, kaimingRules.slope);
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

/** Options of {@linkcode uniform}. */
export interface UniformOptions extends TensorOptions {
  /** The smallest number; 0 by default. */
  low?: number;
  /** The number that all are below; 1 by default. */
  high?: number;
}

/** Options of {@linkcode normal}. */
export interface NormalOptions extends TensorOptions {
  /** The mean; 0 by default. */
  mean?: number;
  /** The standard deviation; 1 by default. */
  std?: number;
}

/** Options of {@linkcode xavierUniform} and {@linkcode xavierNormal}. */
export interface XavierOptions extends TensorOptions {
  /** The gain of the activation that follows, see {@linkcode gain}; 1 by default. */
  gain?: number;
}

const uniformRules: Rules<UniformOptions> = {
  ...tensorRules,
  low: takes.finite,
  high: takes.finite,
};
const normalRules: Rules<NormalOptions> = {
  ...tensorRules,
  mean: takes.finite,
  std: takes.finite,
};
const xavierRules: Rules<XavierOptions> = { ...tensorRules, gain: takes.finite };

/** Uniform in [low, high). */
export function uniform(shape: Shape, options: UniformOptions = {}): Tensor {
  checkOptions("make initial weights", options, uniformRules);
  const { low = 0, high = 1, ...others } = options;
  return Tensor.rand(shape, others).mul(high - low).add(low);
}

/** Normal with the given mean and standard deviation. */
export function normal(shape: Shape, options: NormalOptions = {}): Tensor {
  checkOptions("make initial weights", options, normalRules);
  const { mean = 0, std = 1, ...others } = options;
  return Tensor.randn(shape, others).mul(std).add(mean);
}

/** Uniform around 0, up to a bound. */
function uniformWithin(shape: Shape, bound: number, options: TensorOptions): Tensor {
  return uniform(shape, { ...options, low: -bound, high: bound });
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
  return uniformWithin(shape, Math.sqrt(3) * deviation, others);
}

/** As {@linkcode kaimingUniform}, normal. */
export function kaimingNormal(shape: Shape, options: KaimingOptions = {}): Tensor {
  const [deviation, others] = kaiming(shape, options);
  return normal(shape, { ...others, std: deviation });
}

/** The standard deviation, and what is left of the options for the tensor. */
function xavier(shape: Shape, options: XavierOptions): [deviation: number, TensorOptions] {
  checkOptions("make initial weights", options, xavierRules);
  const { gain = 1, ...others } = options, { fanIn, fanOut } = fans(shape);
  return [gain * Math.sqrt(2 / Math.max(1, fanIn + fanOut)), others];
}

/**
 * Uniform, between the variances that inputs and gradients want (X. Glorot, Y. Bengio, Understanding
 * the difficulty of training deep feedforward neural networks, 2010).
 *
 * @param shape The shape of the weight.
 * @param options The gain of the activation; type, device.
 */
export function xavierUniform(shape: Shape, options: XavierOptions = {}): Tensor {
  const [deviation, others] = xavier(shape, options);
  return uniformWithin(shape, Math.sqrt(3) * deviation, others);
}

/** As {@linkcode xavierUniform}, normal. */
export function xavierNormal(shape: Shape, options: XavierOptions = {}): Tensor {
  const [deviation, others] = xavier(shape, options);
  return normal(shape, { ...others, std: deviation });
}
