/** Random tensors: counter-based, so the same bits on every device and every evaluation. */
import {
  broadcastShapes,
  type DType,
  dtypes,
  isFloat,
  Node,
  sameShape,
  type Shape,
} from "../../../backend/internal.ts";
import { requireTensor, sameDevice } from "../../core/apply.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import {
  checkOptions,
  phraseOf,
  requireValue,
  type Rules,
  shown,
  takes,
} from "../../core/rules/options.ts";
import { promote } from "../../core/rules/promotion.ts";
import { requireType } from "../../core/rules/supported_types.ts";
import { nextRandom } from "../../core/random_state.ts";
import { normalizeAxis } from "../shaping/axes.ts";
import { checkedShape, deviceOf, made, required, tensorRules } from "./tensor_options.ts";
import type { MultinomialOptions, TensorOptions } from "../../core/arguments.ts";
import { checkedIndices, indexSelect } from "../indexing/indexing.ts";
import { commonShape, searchsorted } from "../indexing/searching.ts";
import type { Tensor } from "../../core/mod.ts";

/** Multiples of what the half types hold up to 1: rounded to the nearest, the last ones would be 1. */
const halfSteps: Readonly<Partial<Record<DType, number>>> = { float16: 2 ** 11, bfloat16: 2 ** 8 };

/** Uniform in [0, 1), 24 bits; in half types as many as they have. */
export function uniform(shape: Shape, options: TensorOptions = {}): Tensor {
  requireFloatType("rand", options);
  const { seed, stream } = nextRandom();
  const node = new Node(
    { kind: "random", seed, stream },
    [],
    checkedShape("rand", shape),
    "float32",
  );
  const dtype = options.dtype ?? "float32", steps = halfSteps[dtype];
  const single = made(node, { ...options, requiresGrad: false });
  return (steps ? single.mul(steps).floor().div(steps) : single).cast(dtype);
}

/** @throws {DTypeError} Unless options name a type of floating point, or none. */
export function requireFloatType(op: string, { dtype = "float32" }: TensorOptions): void {
  if (dtypes[dtype]?.kind === "float") return;
  throw dtypeError(op)`Cannot ${op} in ${dtype}: pass a floating point type, or use randint`;
}

/** Normal, by the transform of G. Box and M. Muller, 1958. */
function standardNormal(shape: Shape, options: TensorOptions = {}): Tensor {
  requireFloatType("randn", options);
  const plain: TensorOptions = { ...options, dtype: "float32" };
  const radius = uniform(shape, plain).neg().add(1).log().mul(-2).sqrt();
  const angle = uniform(shape, plain).mul(2 * Math.PI);
  return radius.mul(angle.cos()).cast(options.dtype ?? "float32");
}

/** Whole numbers from `low` to before `high`. */
export function integers(
  low: number,
  high: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  checkOptions("randint", options, tensorRules);
  if (!Number.isInteger(low) || !Number.isInteger(high) || high <= low || high - low > 2 ** 24) {
    throw new RangeError(
      `Cannot compute randint from ${shown(low)} to ${shown(high)}: pass whole numbers, at most ${
        2 ** 24
      } apart`,
    );
  }
  const dtype = options.dtype ?? "int32";
  requireType(deviceOf(options), dtype);
  const steps = uniform(shape, { ...options, dtype: "float32" }).mul(high - low).floor();
  // Integers hold what float32 would round far from 0.
  const isWhole = !isFloat(dtype) && dtype !== "bool";
  return isWhole ? steps.cast(dtype).add(low) : steps.add(low).cast(dtype);
}

/** Uniform random numbers in [0, 1). */
export function rand(shape: Shape, options?: TensorOptions): Tensor {
  checkedShape("rand", shape);
  checkOptions("rand", options, tensorRules);
  return required(uniform(shape, options), options);
}

/** Normal random numbers with mean 0 and variance 1. */
export function randn(shape: Shape, options?: TensorOptions): Tensor {
  checkedShape("randn", shape);
  checkOptions("randn", options, tensorRules);
  return required(standardNormal(shape, options), options);
}

/** Uniform random numbers of the shape, device and type of another tensor. */
export function randLike({ shape, device, dtype }: Tensor): Tensor {
  return uniform(shape, { device, dtype });
}

/** Normal random numbers of the shape, device and type of another tensor. */
export function randnLike({ shape, device, dtype }: Tensor): Tensor {
  return standardNormal(shape, { device, dtype });
}

/** A random order of 0 to `n - 1`, as int32. */
export function randperm(n: number, options?: TensorOptions): Tensor {
  checkOptions("randperm", options, tensorRules);
  const shape = checkedShape("randperm", [n]);
  return uniform(shape, { ...options, dtype: "float32" }).argsort();
}

const drawRules: Rules<MultinomialOptions> = { replacement: takes.bool };

function requireFloat(op: string, what: string, { dtype }: Tensor): void {
  if (isFloat(dtype)) return;
  throw dtypeError(op)`Cannot ${
    phraseOf(op)
  }: ${what} are ${dtype}; cast them with .cast("float32")`;
}

/** 1 with the probability that each element is, else 0. */
export function bernoulli(x: Tensor): Tensor {
  requireFloat("bernoulli", "probabilities", x);
  return withoutGrad(() => {
    const p = x.detach().cast("float32");
    return uniform(x.shape, { device: x.device }).lt(p).cast(x.dtype);
  });
}

/** Classes drawn by their weights, which are the elements of the last axis. */
export function multinomial(x: Tensor, count: number, options: MultinomialOptions = {}): Tensor {
  const op = "multinomial";
  checkOptions(op, options, drawRules);
  requireValue(op, "count", count, takes.count);
  const classes = x.shape[x.ndim - 1] ?? 0;
  if ((x.ndim !== 1 && x.ndim !== 2) || classes === 0) {
    throw shapeError("multinomial")`
      Cannot draw from weights of shape ${x.shape}: pass [classes] or [rows, classes], of one
      class at least`;
  }
  const isRepeated = options.replacement ?? false;
  if (!isRepeated && count > classes) {
    throw new RangeError(
      `Cannot draw ${
        shown(count)
      } of ${classes} classes: pass { replacement: true }, or draw fewer`,
    );
  }
  return withoutGrad(() => {
    const p = x.detach().cast("float32").contiguous();
    const drawn = isRepeated ? withReplacement(p, count) : withoutReplacement(p, count);
    // A row without a distribution draws a class that there is not: an error at the next read.
    const isRight = isDistribution(p, isRepeated ? 1 : count);
    const checked = isRight.where(drawn, classes);
    return checkedIndices(op, checked, classes);
  });
}

/** True for rows of finite weights of at least 0, of which enough are not 0. */
function isDistribution(p: Tensor, least: number): Tensor {
  const keepDims = true;
  const isRight = p.ge(0).logicalAnd(p.lt(Infinity)).all(-1, { keepDims });
  return isRight.logicalAnd(p.gt(0).cast("float32").sum(-1, { keepDims }).ge(least));
}

/** The class at a uniform share of the running sum. */
function withReplacement(p: Tensor, count: number): Tensor {
  const last = p.ndim - 1, n = p.shape[last]!;
  const sums = p.cumsum(last).contiguous();
  const total = sums.slice(...p.shape.map((_, k) => k === last ? [n - 1, n] as const : null));
  const shares = uniform(p.shape.with(last, count), { device: p.device }).mul(total);
  // A share that is rounded up to the total belongs to the last class that has a weight.
  const end = searchsorted(sums, total);
  return searchsorted(sums, shares, { right: true }).minimum(end);
}

/** The first of exponential clocks of these rates: weights over draws of an exponential distribution. */
function withoutReplacement(p: Tensor, count: number): Tensor {
  // Never 0: a half of the smallest step is added.
  const shares = uniform(p.shape, { device: p.device }).add(2 ** -25);
  const race = p.gt(0).where(p.log().sub(shares.log().neg().log()), -Infinity);
  const last = p.ndim - 1;
  if (count === 1) return race.argmax(last, { keepDims: true });
  return race.topk(count, last).indices;
}

/** Normal numbers of these means and deviations; gradients go to both. */
export function normal(
  mean: Tensor | number,
  std: Tensor | number,
  shape?: Shape,
  options: TensorOptions = {},
): Tensor {
  const tensors = [mean, std].filter((t) => typeof t !== "number");
  checkOptions("normal", options, tensorRules);
  for (const t of tensors) requireTensor("normal", t, " or a number");
  for (const t of tensors) requireFloat("normal", "mean and deviation", t);
  if (typeof mean === "number") requireValue("normal", "mean", mean, takes.number);
  if (typeof std === "number") requireValue("normal", "std", std, takes.nonNegative);
  const [like] = tensors;
  if (like) sameDevice("normal", tensors);
  const wanted = shape === undefined ? [] : checkedShape("draw", shape);
  const common = commonShape("normal", [...tensors]);
  const full = broadcastShapes(wanted, common);
  if (!full || shape !== undefined && !sameShape(full, wanted)) {
    throw shapeError("normal")`
      Cannot draw a tensor of shape ${wanted} with means and deviations of shape ${common}: they
      do not broadcast to it`;
  }
  const dtype = tensors.map((t): DType => t.dtype).reduce(promote, tensors[0]?.dtype ?? "float32");
  const drawn = standardNormal(full, { dtype, ...(like && { device: like.device }), ...options });
  const out = drawn.mul(std).add(mean);
  if (options.requiresGrad && !out.requiresGrad) out.requiresGrad = true;
  return out;
}

/** The numbers before `x`, or the slices of `x` along an axis, in a random order. */
export function permutation(x: Tensor | number, axis = 0): Tensor {
  if (typeof x === "number") {
    return uniform(checkedShape("permute", [x]), { dtype: "float32" }).argsort();
  }
  requireTensor("permute", x, " or a number");
  const at = normalizeAxis("permute", axis, x.shape);
  using order = withoutGrad(() => uniform([x.shape[at]!], { device: x.device }).argsort(0));
  return indexSelect(x, at, order.realize(), "permutation");
}
