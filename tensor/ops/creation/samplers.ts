/**
 * Samplers of distributions, from uniform and normal numbers of the one sequence: the same in a second
 * evaluation, in `checkpoint` and in `compile`. Nothing of them has a gradient; `distributions/` adds those.
 */
import { broadcastShapes, isFloat, type Shape } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import type { ExponentialOptions, TensorLike, TensorOptions } from "../../core/arguments.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { rand, randn, requireFloatType } from "./random.ts";
import { full as filled } from "./sequences.ts";
import { checkedShape, tensorRules } from "./tensor_options.ts";

/** Numbers that others are made of, as they are drawn. */
export function plain(options: TensorOptions): TensorOptions {
  return { ...options, dtype: "float32", requiresGrad: false };
}

/** Uniform numbers within (0, 1), never its ends: half of the smallest step off either. */
export function open(shape: Shape, options: TensorOptions): Tensor {
  return rand(shape, plain(options)).mul(1 - 2 ** -24).add(2 ** -25);
}

/** Numbers drawn without a gradient, in the type and as the options say. */
export function drawn(
  op: string,
  shape: Shape,
  options: TensorOptions,
  draw: (shape: Shape) => Tensor,
): Tensor {
  checkOptions(op, options, tensorRules);
  requireFloatType(op, options);
  const wanted = checkedShape(op, shape);
  const out = withoutGrad(() => draw(wanted).cast(options.dtype ?? "float32"));
  if (options.requiresGrad) out.requiresGrad = true;
  return out;
}

const exponentialRules: Rules<ExponentialOptions> = { ...tensorRules, rate: takes.positive };

/** See `Tensor.exponential`. */
export function exponential(shape: Shape, options: ExponentialOptions = {}): Tensor {
  checkOptions("draw exponential numbers", options, exponentialRules);
  const { rate = 1, ...others } = options;
  return drawn("exponential", shape, others, (shape) => open(shape, others).log().div(-rate));
}

/** Checks a place and a width. */
function requirePlace(op: string, location: number, scale: number): void {
  requireValue(op, "location", location, takes.finite);
  requireValue(op, "scale", scale, takes.positive);
}

/** See `Tensor.laplace`. */
export function laplace(
  location: number,
  scale: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  requirePlace("draw Laplace's numbers", location, scale);
  return drawn("laplace", shape, options, (shape) => {
    const centred = open(shape, options).sub(0.5);
    const size = centred.abs().mul(-2).add(1).log().neg();
    return size.mul(centred.sign()).mul(scale).add(location);
  });
}

/** See `Tensor.cauchy`. */
export function cauchy(
  location: number,
  scale: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  requirePlace("draw Cauchy's numbers", location, scale);
  return drawn("cauchy", shape, options, (shape) => {
    return open(shape, options).sub(0.5).mul(Math.PI).tan().mul(scale).add(location);
  });
}

/** See `Tensor.gumbel`. */
export function gumbel(
  location: number,
  scale: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  requirePlace("draw Gumbel's numbers", location, scale);
  return drawn("gumbel", shape, options, (shape) => {
    return open(shape, options).log().neg().log().mul(-scale).add(location);
  });
}

/** See `Tensor.logNormal`. */
export function logNormal(
  mean: number,
  std: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  requireValue("draw lognormal numbers", "mean", mean, takes.finite);
  requireValue("draw lognormal numbers", "std", std, takes.nonNegative);
  return drawn("logNormal", shape, options, (shape) => {
    return randn(shape, plain(options)).mul(std).add(mean).exp();
  });
}

/** Candidates of which the first that is taken counts: each is taken in 95 of 100 cases, and more. */
const ROUNDS = 8;

/**
 * Parameters as float32 tensors of the drawn shape, which is theirs by default, and options of what is drawn:
 * the device of the first tensor, and its type where that is a floating point one.
 */
export function parametersOf(
  op: string,
  given: readonly TensorLike[],
  shape: Shape | undefined,
  options: TensorOptions,
): { all: TensorOptions; shape: Shape; wide: (shape: Shape) => Tensor[] } {
  checkOptions(op, options, tensorRules); // what is no object would be lost in the spread
  const tensors = given.filter((value) => typeof value !== "number") as Tensor[];
  for (const tensor of tensors) requireTensor(op, tensor, " or a number");
  const [first] = tensors;
  const own = first &&
    { device: first.device, ...(isFloat(first.dtype) && { dtype: first.dtype }) };
  const all = { ...own, ...options };
  const common = tensors.reduce<Shape | null>((s, t) => s && broadcastShapes(s, t.shape), []);
  const wide = (shape: Shape) =>
    given.map((value) =>
      typeof value === "number"
        ? filled(op, shape, value, plain(all))
        : value.detach().cast("float32").expand(shape)
    );
  return { all, shape: shape ?? common ?? [], wide };
}

/** Numbers made of those that were taken, each times a power of a uniform one where alpha is below 1. */
type Made = (taken: Tensor, isSmall: Tensor, alpha: Tensor, share: Tensor) => Tensor;

const numbers: Made = (taken, isSmall, alpha, share) =>
  isSmall.where(taken.mul(share.pow(alpha.reciprocal())), taken);

/** Logarithms: of a small alpha most numbers are below the range of the type. */
const logarithms: Made = (taken, isSmall, alpha, share) =>
  taken.log().add(isSmall.where(share.log().div(alpha), 0));

/**
 * The method of G. Marsaglia and W. Tsang, 2000: cubes of normal numbers, each kept with a probability. As
 * nobody waits for values, a fixed number of candidates is drawn. Below 1 it takes a number of alpha + 1
 * times a power of a uniform one.
 */
function gammaOf(alpha: Tensor, made: Made, options: TensorOptions): Tensor {
  const { shape } = alpha;
  const isSmall = alpha.lt(1), d = isSmall.where(alpha.add(1), alpha).sub(1 / 3);
  const c = d.mul(9).rsqrt();
  let taken = d;
  for (let round = 0; round < ROUNDS; round++) {
    const x = randn(shape, plain(options)), v = x.mul(c).add(1).pow(3);
    const isPositive = v.gt(0), cube = isPositive.where(v, 1);
    const bound = x.square().mul(0.5).add(d.mul(cube.log().sub(cube).add(1)));
    const isTaken = open(shape, options).log().lt(bound).logicalAnd(isPositive);
    taken = isTaken.where(d.mul(cube), taken);
  }
  return made(taken, isSmall, alpha, open(shape, options));
}

/** See `Tensor.gamma`. */
export function gamma(alpha: TensorLike, shape?: Shape, options: TensorOptions = {}): Tensor {
  const op = "draw gamma numbers";
  if (typeof alpha === "number") requireValue(op, "alpha", alpha, takes.positive);
  const { all, shape: wanted, wide } = parametersOf(op, [alpha], shape, options);
  return drawn("gamma", wanted, all, (shape) => gammaOf(wide(shape)[0]!, numbers, all));
}

/** See `Tensor.beta`. */
export function beta(
  a: TensorLike,
  b: TensorLike,
  shape?: Shape,
  options: TensorOptions = {},
): Tensor {
  const op = "draw beta numbers";
  if (typeof a === "number") requireValue(op, "a", a, takes.positive);
  if (typeof b === "number") requireValue(op, "b", b, takes.positive);
  const { all, shape: wanted, wide } = parametersOf(op, [a, b], shape, options);
  return drawn("beta", wanted, all, (shape) => {
    const [x, y] = wide(shape).map((alpha) => gammaOf(alpha, logarithms, all));
    return x!.sub(y!).sigmoid();
  });
}

/** See `Tensor.dirichlet`. */
export function dirichlet(alpha: Tensor, shape?: Shape, options: TensorOptions = {}): Tensor {
  const op = "draw Dirichlet's numbers";
  requireTensor(op, alpha);
  const { all, shape: wanted, wide } = parametersOf(op, [alpha], shape, options);
  return drawn("dirichlet", wanted, all, (shape) => {
    return gammaOf(wide(shape)[0]!, logarithms, all).softmax(-1);
  });
}
