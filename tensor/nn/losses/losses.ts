/**
 * Losses: how far an output is from what it should be.
 *
 * This folder (`losses/`) imports `module/`, `ops/` and `core/`. Outputs and targets come in; what
 * goes out is a tensor, by default a scalar.
 */
import { type DType, isFloat, sameShape } from "../../../backend/internal.ts";
import { widened } from "../../core/autocast.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import type { CrossEntropyOptions } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { aTensor, requireTensor, result } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { unbroadcast } from "../../ops/elementwise/elementwise.ts";
import { promote } from "../../core/rules/promotion.ts";

/** Reduction of the elements' losses to one number. */
export interface LossOptions {
  /** Their mean (default), their sum, or each one. */
  reduction?: "mean" | "sum" | "none";
}

/** Options of {@linkcode bceWithLogits}. */
export interface BCEOptions extends LossOptions {
  /** Weight of a positive; broadcast over the classes. */
  positiveWeight?: Tensor;
}

/** Options of {@linkcode huber}. */
export interface HuberOptions extends LossOptions {
  /** Start of the linear part; default 1. */
  delta?: number;
}

/** Rules for {@linkcode LossOptions}. */
export const lossRules: Rules<LossOptions> = { reduction: takes.oneOf("mean", "sum", "none") };
/** Rules of {@linkcode BCEOptions}. */
export const bceWithLogitsRules: Rules<BCEOptions> = { ...lossRules, positiveWeight: aTensor() };
/** Rules of {@linkcode HuberOptions}. */
export const huberRules: Rules<HuberOptions> = { ...lossRules, delta: takes.positive };

/** The operands of a loss, checked; in single precision under autocast. */
export function operands(
  name: string,
  input: Tensor,
  target: Tensor,
): [Tensor, Tensor] {
  requireTensor(`compute ${name}`, input);
  requireTensor(`compute ${name}`, target);
  if (!sameShape(input.shape, target.shape)) {
    throw shapeError(name)`
      Cannot compute ${name} of an input of shape ${input.shape} and a target of ${target.shape}:
      they must be equal`;
  }
  if (!isFloat(input.dtype)) {
    throw dtypeError(name)`
      Cannot compute ${name} of ${input.dtype}: cast the input with .cast("float32")`;
  }
  return [widened(input), widened(target)];
}

/** The losses of elements as one number, or as they are, in a type. */
export function reduced(
  losses: Tensor,
  { reduction = "mean" }: LossOptions,
  dtype: DType = losses.dtype,
): Tensor {
  if (reduction === "none") return losses.cast(dtype);
  return compute(toNumber, losses, reduction, dtype);
}

/** One operation: a number on the way would be taken for one that the program reads. */
function toNumber(losses: Tensor, reduction: "sum" | "mean", dtype: DType): Tensor {
  return (reduction === "sum" ? losses.sum() : losses.mean()).cast(dtype);
}

/**
 * `-log(softmax(logits)[label])`, see {@linkcode Tensor.crossEntropy}.
 *
 * @param logits (N, C) or (N, C, d1, ...).
 * @param labels Integers (N) or (N, d1, ...), or probabilities of the logits' shape.
 */
export function crossEntropy(
  logits: Tensor,
  labels: Tensor,
  options?: CrossEntropyOptions,
): Tensor {
  requireTensor("crossEntropy", logits);
  return logits.crossEntropy(labels, options);
}

/**
 * The mean squared difference, `mean((input - target) ** 2)`, or as `reduction` says. The shapes
 * are equal.
 *
 * @param input The predictions, of any shape.
 * @param target The values that they should be, of the same shape.
 * @param options The reduction.
 * @returns A scalar; with `reduction: "none"` a loss for each element.
 * @throws {ShapeError} When the shapes differ.
 */
export function mse(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions("compute mse", options, lossRules);
  const [x, y] = operands("mse", input, target);
  return reduced(x.sub(y).square(), options);
}

/**
 * The mean absolute difference, `mean(|input - target|)`, or as `reduction` says. The shapes are
 * equal.
 *
 * @param input The predictions, of any shape.
 * @param target The values that they should be, of the same shape.
 * @param options The reduction.
 * @returns A scalar; with `reduction: "none"` a loss for each element.
 * @throws {ShapeError} When the shapes differ.
 */
export function l1(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions("compute l1", options, lossRules);
  const [x, y] = operands("l1", input, target);
  return reduced(x.sub(y).abs(), options);
}

/**
 * The mean of half the squared difference where the difference is below `delta`, and of a line beyond,
 * `delta * (|d| - delta / 2)` (P. Huber, Robust Estimation of a Location Parameter, 1964); in the input's
 * type.
 *
 * @param input The predictions, of any shape.
 * @param target The values that they should be, of the same shape.
 * @param options The reduction, and `delta`, 1 by default.
 * @throws {ShapeError} When the shapes differ.
 */
export function huber(input: Tensor, target: Tensor, options: HuberOptions = {}): Tensor {
  checkOptions("compute huber", options, huberRules);
  const [x, y] = operands("huber", input, target);
  const { delta = 1 } = options;
  return reduced(compute(huberOf, x.sub(y), delta).cast(x.dtype), options);
}

function huberOf(distance: Tensor, delta: number): Tensor {
  const value = withoutGrad(() => {
    const d = distance.detach(), size = d.abs();
    return size.lt(delta).where(d.square().mul(0.5), size.sub(delta / 2).mul(delta));
  });
  // The slope of each branch alone: that of a square is not finite where the line is taken.
  return result("huber", [distance], value, (g) => [g.mul(distance.clamp(-delta, delta))]);
}

/**
 * The cross-entropy of independent yes-or-no answers, straight from the logits, without overflow; in
 * the target's type where that is a floating one, as in PyTorch.
 *
 * @param logits What becomes a probability by the sigmoid.
 * @param target The probability that it should be, of the same shape.
 * @throws {ShapeError} When the shapes differ.
 */
export function bceWithLogits(logits: Tensor, target: Tensor, options: BCEOptions = {}): Tensor {
  checkOptions("compute bceWithLogits", options, bceWithLogitsRules);
  const [x, y] = operands("bceWithLogits", logits, target);
  const common = promote(x.dtype, y.dtype);
  const { positiveWeight } = options;
  const weight = positiveWeight?.cast(common) ?? null;
  const losses = compute(binaryEntropy, x.cast(common), y.cast(common), weight);
  return reduced(losses.cast(isFloat(y.dtype) ? y.dtype : x.dtype), options);
}

/** `(1 - t) x + (1 + (p - 1) t) log(1 + exp(-x))`, where p, the weight of positives, is 1 or given. */
function binaryEntropy(x: Tensor, t: Tensor, positive: Tensor | null): Tensor {
  const value = withoutGrad(() => {
    const weights = positive && t.detach().mul(positive.detach().sub(1)).add(1);
    const rest = x.detach().neg().softplus();
    return t.detach().neg().add(1).mul(x.detach()).add(weights ? weights.mul(rest) : rest);
  });
  const inputs = positive ? [x, t, positive] : [x, t];
  return result("bceWithLogits", inputs, value, (g) => {
    const rest = (): Tensor => x.neg().softplus();
    const gradients = [
      x.requiresGrad ? g.mul(slope(x, t, positive)) : null,
      t.requiresGrad ? g.mul(positive ? positive.sub(1).mul(rest()).sub(x) : x.neg()) : null,
    ];
    if (!positive) return gradients;
    const ofWeight = (): Tensor => unbroadcast(g.mul(t).mul(rest()), positive.shape);
    return [...gradients, positive.requiresGrad ? ofWeight() : null];
  });
}

/** The derivative by the logit: `(1 + (p - 1) t) sigmoid(x) - p t`, exact also where it is small. */
function slope(x: Tensor, t: Tensor, positive: Tensor | null): Tensor {
  if (!positive) return x.sigmoid().sub(t);
  const weighted = t.mul(positive);
  return weighted.add(1).sub(t).mul(x.sigmoid()).sub(weighted);
}
