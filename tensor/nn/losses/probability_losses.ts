/** Losses of probabilities, and of their logarithms. */
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { isFloat, sameShape } from "../../../backend/internal.ts";
import { aTensor, requireTensor, result, sameDevice } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { gather, indexSelect } from "../../ops/indexing/indexing.ts";
import { inRows, weightsOf } from "../../ops/losses.ts";
import type { Tensor } from "../../core/mod.ts";
import { huber, l1, type LossOptions, lossRules, operands, reduced } from "./losses.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode nll}. */
export interface NLLOptions extends LossOptions {
  /** Weight of each class, (C); the mean is weighted by them. It does not learn. */
  weight?: Tensor;
  /** Samples with this label count for nothing; by default each label must be a class. */
  ignoreIndex?: number;
}

/** Options of {@linkcode bce}. */
export interface BCEProbabilityOptions extends LossOptions {
  /** Factor of each loss; broadcast. */
  weight?: Tensor;
}

/** Options of {@linkcode klDiv}. */
export interface KLDivOptions {
  /** The mean over elements (default), the sum, the sum divided by the batch, or each one. */
  reduction?: "mean" | "sum" | "batchMean" | "none";
  /** True when the target is given as logarithms, too; false by default. */
  logTarget?: boolean;
}

/** Options of {@linkcode smoothL1}. */
export interface SmoothL1Options extends LossOptions {
  /** Start of the linear part; default 1. */
  beta?: number;
}

/** Rules of {@linkcode NLLOptions}. */
export const nllRules: Rules<NLLOptions> = {
  ...lossRules,
  weight: aTensor(),
  ignoreIndex: takes.integer,
};
/** Rules of {@linkcode BCEProbabilityOptions}. */
export const bceRules: Rules<BCEProbabilityOptions> = { ...lossRules, weight: aTensor() };
/** Rules of {@linkcode KLDivOptions}. */
export const klDivRules: Rules<KLDivOptions> = {
  reduction: takes.oneOf("mean", "sum", "batchMean", "none"),
  logTarget: takes.bool,
};
/** Rules of {@linkcode SmoothL1Options}. */
export const smoothRules: Rules<SmoothL1Options> = { ...lossRules, beta: takes.nonNegative };

/**
 * The negative log-likelihood, `-logProbabilities[label]`: of `logSoftmax` it makes the cross-entropy.
 *
 * @param logProbabilities (N, C) or (N, C, d1, ...).
 * @param labels Integers (N) or (N, d1, ...).
 * @throws {ShapeError} When the labels or the weight do not fit.
 * @throws {DTypeError} When the labels are not integers, or the logarithms are.
 * @throws {RangeError} At the next read, when a label is not a class.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const logits = Tensor.fromHost([[1, 2], [0, 3]]), labels = Tensor.fromHost(Int32Array.of(0, 1));
 * const loss = await nn.nll(logits.logSoftmax(1), labels).item();
 * assertAlmostEquals(loss, await logits.crossEntropy(labels).item(), 1e-6);
 * ```
 */
export function nll(logProbabilities: Tensor, labels: Tensor, options: NLLOptions = {}): Tensor {
  requireTensor("compute nll", logProbabilities);
  checkOptions("compute nll", options, nllRules);
  if (!isFloat(logProbabilities.dtype)) {
    throw dtypeError("nll")`
      Cannot compute nll of ${logProbabilities.dtype}: cast the input with .cast("float32")`;
  }
  return compute(likelihoods, logProbabilities, labels, options);
}

function likelihoods(input: Tensor, labels: Tensor, options: NLLOptions): Tensor {
  const { weight, ignoreIndex, reduction = "mean" } = options;
  const { scores, targets, shape } = inRows("nll", input, labels);
  const counts = ignoreIndex === undefined ? null : targets.ne(ignoreIndex);
  const known = counts ? counts.where(targets, 0) : targets;
  const weights = weightsOf("nll", scores, weight);
  const picked = gather(scores, 1, known.unsqueeze(1), "nll").squeeze(1).neg();
  const ofLabels = weights ? indexSelect(weights, 0, known, "nll") : scores.onesLike([known.size]);
  const shares = counts ? counts.where(ofLabels, 0) : ofLabels;
  // Rows that do not count are selected away: they may be infinite.
  const weighted = picked.mul(shares);
  const losses = counts ? counts.where(weighted, 0) : weighted;
  if (reduction === "none") return losses.reshape(shape);
  return reduction === "sum" ? losses.sum() : losses.sum().div(shares.sum());
}

/**
 * The cross-entropy of yes-or-no answers, given as probabilities: `-(t log(x) + (1 - t) log(1 - x))`,
 * with logarithms of at least -100. From logits `bceWithLogits` is exact.
 *
 * @param probabilities From 0 to 1.
 * @param target The probability that it should be, of the same shape.
 * @throws {ShapeError} When the shapes differ.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const loss = nn.bce(Tensor.fromHost([0.5, 0.5]), Tensor.fromHost([0, 1]));
 * assertAlmostEquals(await loss.item(), Math.LN2, 1e-6);
 * ```
 */
export function bce(
  probabilities: Tensor,
  target: Tensor,
  options: BCEProbabilityOptions = {},
): Tensor {
  checkOptions("compute bce", options, bceRules);
  const [x, y] = operands("bce", probabilities, target);
  const losses = compute(bceOf, x, y.cast(x.dtype));
  const { weight } = options;
  return reduced(weight ? losses.mul(weight.cast(x.dtype)) : losses, options);
}

function bceOf(x: Tensor, t: Tensor): Tensor {
  const value = withoutGrad(() => {
    const p = x.detach(), y = t.detach();
    const yes = p.log().clamp(-100), no = p.neg().log1p().clamp(-100);
    return y.sub(1).mul(no).sub(y.mul(yes));
  });
  return result("bce", [x, t], value, (g) => [
    x.requiresGrad ? g.mul(x.sub(t)).div(x.mul(x.neg().add(1)).clamp(1e-12)) : null,
    t.requiresGrad ? g.mul(x.neg().log1p().clamp(-100).sub(x.log().clamp(-100))) : null,
  ]);
}

/**
 * The Kullback-Leibler divergence of a target from a model, element by element
 * `target * (log(target) - logProbabilities)`; what is not likely at all costs nothing.
 *
 * @param logProbabilities The model's, as `logSoftmax` gives them.
 * @param target Probabilities, or with `logTarget` their logarithms, of the same shape.
 * @throws {ShapeError} When the shapes differ.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const p = Tensor.fromHost([[0.25, 0.75]]);
 * assertAlmostEquals(await nn.klDiv(p.log(), p, { reduction: "batchMean" }).item(), 0, 1e-6);
 * ```
 */
export function klDiv(
  logProbabilities: Tensor,
  target: Tensor,
  options: KLDivOptions = {},
): Tensor {
  checkOptions("compute klDiv", options, klDivRules);
  const [x, y] = operands("klDiv", logProbabilities, target);
  const { reduction = "mean", logTarget = false } = options;
  const isNone = y.le(0);
  // Each branch has harmless operands where it is not chosen: a zero times infinity has a NaN gradient.
  const losses = logTarget
    ? y.exp().mul(y.sub(x))
    : isNone.where(isNone.where(y, 0).mul(x).neg(), y.mul(isNone.where(1, y).log().sub(x)));
  if (reduction !== "batchMean") return reduced(losses, { reduction });
  if (x.ndim === 0) {
    throw shapeError("klDiv")`
      Cannot compute klDiv of shape ${x.shape} by "batchMean": pass a batch`;
  }
  return compute(batchMean, losses);
}

function batchMean(losses: Tensor): Tensor {
  return losses.sum().div(losses.shape[0]!);
}

/**
 * Half the squared difference divided by `beta` where it is below `beta`, a line beyond (R. Girshick,
 * Fast R-CNN, 2015). With a beta of 0 it is the absolute difference.
 *
 * @throws {ShapeError} When the shapes differ.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const losses = nn.smoothL1(Tensor.fromHost([1, 4]), Tensor.zeros([2]), { reduction: "none" });
 * assertEquals(await losses.toArray(), [0.5, 3.5]);
 * ```
 */
export function smoothL1(input: Tensor, target: Tensor, options: SmoothL1Options = {}): Tensor {
  checkOptions("compute smoothL1", options, smoothRules);
  const { beta = 1, ...others } = options;
  if (beta === 0) return l1(input, target, others);
  return compute(scaledHuber, input, target, others, beta);
}

/** One operation: a number on the way would be taken for one that the program reads. */
function scaledHuber(input: Tensor, target: Tensor, options: LossOptions, delta: number): Tensor {
  return huber(input, target, { ...options, delta }).div(delta);
}

/** Checks losses of vectors: tensors of one device and shape, of floating point. */
export function requireVectors(name: string, vectors: readonly Tensor[]): void {
  for (const x of vectors) requireTensor(`compute ${name}`, x);
  sameDevice(`compute ${name} of`, vectors);
  const [first] = vectors as [Tensor];
  for (const x of vectors) {
    if (!isFloat(x.dtype)) {
      throw dtypeError(name)`Cannot compute ${name} of ${x.dtype}: cast it with .cast("float32")`;
    }
    if (sameShape(x.shape, first.shape)) continue;
    throw shapeError(name)`
      Cannot compute ${name} of shapes ${first.shape} and ${x.shape}: they must be equal`;
  }
}
