/** The loss of sequences that are not aligned with their labels. */
import { atLeastSingle } from "../../core/autocast.ts";
import { requireTensor, sameDevice } from "../../core/apply.ts";
import { observedCall } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { gather } from "../../ops/indexing/indexing.ts";
import { requireInteger } from "../../core/rules/promotion.ts";
import { isTensor } from "../../core/internals.ts";
import { Tensor } from "../../class/tensor.ts";
import { type LossOptions, lossRules } from "./losses.ts";
import { checkOptions, type Rules, shown, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode ctc}. */
export interface CTCOptions extends LossOptions {
  /** The class that stands for no label; default 0. */
  blank?: number;
  /** True when labels that do not fit their input cost nothing; they are infinite otherwise. */
  zeroInfinity?: boolean;
}

/** Rules of {@linkcode CTCOptions}. */
export const ctcRules: Rules<CTCOptions> = {
  ...lossRules,
  blank: takes.whole,
  zeroInfinity: takes.bool,
};

/** The logarithm of what cannot be: finite, so that differences of it are numbers. */
const NEVER = -1e30;

/** Lengths, one for each sample: integers (N), or an array. */
export type Lengths = Tensor | readonly number[];

/**
 * The negative logarithm of the probability of all alignments of labels with a longer input (A. Graves
 * et al., Connectionist Temporal Classification, 2006). The mean is of losses divided by the numbers of
 * their labels.
 *
 * @param logProbabilities (T, N, C), as `logSoftmax(-1)` gives them.
 * @param targets Labels (N, S), integers other than the blank; what stands behind a length is ignored.
 * @param inputLengths How many of the T steps each sample has.
 * @param targetLengths How many labels each sample has.
 * @throws {ShapeError} When the shapes do not fit.
 * @throws {RangeError} When the blank is not a class; at the next read, when a label is none.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const even = Tensor.zeros([2, 1, 2]).logSoftmax(-1);
 * // Three of the four paths of two steps say "1": 1 1, 1 blank, blank 1.
 * const loss = nn.ctc(even, Tensor.fromHost(Int32Array.of(1), { shape: [1, 1] }), [2], [1]);
 * assertAlmostEquals(await loss.item(), -Math.log(3 / 4), 1e-6);
 * ```
 */
export function ctc(
  logProbabilities: Tensor,
  targets: Tensor,
  inputLengths: Lengths,
  targetLengths: Lengths,
  options: CTCOptions = {},
): Tensor {
  requireTensor("compute ctc", logProbabilities);
  requireTensor("compute ctc", targets, " for the targets");
  checkOptions("compute ctc", options, ctcRules);
  sameDevice("compute ctc of", [logProbabilities, targets]);
  requireInteger("compute ctc", "targets", targets.dtype);
  const [, count, classes] = logProbabilities.shape;
  if (logProbabilities.ndim !== 3 || targets.ndim !== 2 || targets.shape[0] !== count) {
    throw shapeError("ctc")`
      Cannot compute ctc of shape ${logProbabilities.shape} with targets of ${targets.shape}: pass
      [T, N, C] and [N, S]`;
  }
  const { blank = 0 } = options;
  if (blank >= classes!) {
    throw new RangeError(
      `Cannot compute ctc with the blank ${blank}: valid are 0 to ${classes! - 1}`,
    );
  }
  const lengths = [inputLengths, targetLengths].map((given, k) =>
    lengthsOf(k === 0 ? "inputLengths" : "targetLengths", given, logProbabilities, count!)
  );
  const given = [atLeastSingle(logProbabilities), targets, ...lengths, options];
  const loss = observedCall("compute", ctcOf, undefined, given) as Tensor;
  return loss.cast(logProbabilities.dtype);
}

function lengthsOf(name: string, given: Lengths, like: Tensor, count: number): Tensor {
  const isList = Array.isArray(given) && given.every(takes.whole.accepts);
  if (!isList && !(isTensor(given))) {
    throw new TypeError(
      `Cannot compute ctc with ${name} ${shown(given)}: pass integers, one for each sample`,
    );
  }
  const lengths = isTensor(given)
    ? given
    : Tensor.fromHost(Int32Array.from(given as readonly number[]), { device: like.device });
  requireInteger("compute ctc", name, lengths.dtype);
  if (lengths.ndim === 1 && lengths.size === count) return lengths.cast("int32");
  throw shapeError("ctc")`
    Cannot compute ctc with ${name} of shape ${lengths.shape}: pass one number for each of
    ${count} samples`;
}

function ctcOf(
  scores: Tensor,
  targets: Tensor,
  inputLengths: Tensor,
  targetLengths: Tensor,
  options: CTCOptions,
): Tensor {
  const { blank = 0, reduction = "mean", zeroInfinity = false } = options;
  const states = statesOf(targets.cast("int32"), targetLengths, blank);
  const last = alphas(scores, states, inputLengths, blank);
  const place = scores.indexLike([states.shape[1]!]), end = targetLengths.mul(2).unsqueeze(1);
  const isEnd = place.eq(end).logicalOr(place.eq(end.sub(1)));
  const paths = isEnd.where(last, NEVER).logSumExp(1).neg();
  const losses = paths.gt(-NEVER / 2).where(zeroInfinity ? 0 : Infinity, paths);
  if (reduction === "none") return losses;
  if (reduction === "sum") return losses.sum();
  return losses.div(targetLengths.maximum(1).cast(losses.dtype)).mean();
}

/** The labels with blanks before, between and behind them: (N, 2 S + 1). */
function statesOf(targets: Tensor, lengths: Tensor, blank: number): Tensor {
  const [count, longest] = targets.shape as [number, number];
  const isLabel = targets.indexLike([longest]).lt(lengths.unsqueeze(1));
  const labels = isLabel.where(targets, blank);
  const pairs = Tensor.stack([labels.fullLike(blank), labels], 2);
  return pairs.reshape([count, 2 * longest]).pad([[0, 0], [0, 1]], blank);
}

/** The logarithms of the probabilities of all paths to each state after a sample's last step. */
function alphas(scores: Tensor, states: Tensor, inputLengths: Tensor, blank: number): Tensor {
  const [steps, count] = scores.shape as [number, number, number];
  const n = states.shape[1]!;
  const emitted = gather(scores, 2, states.unsqueeze(0).expand([steps, count, n]), "ctc")
    .contiguous();
  const before = (x: Tensor, by: number, value: number): Tensor =>
    x.pad([[0, 0], [by, -by]], value);
  const place = scores.indexLike([n]);
  // A blank may be left out between labels that differ.
  const skips = states.ne(blank).logicalAnd(states.ne(before(states, 2, blank)))
    .logicalAnd(place.ge(2));
  let alpha = place.eq(0).logicalAnd(inputLengths.gt(0).logicalNot().unsqueeze(1))
    .where(0, emitted.fullLike(NEVER, [count, n]));
  for (let t = 0; t < steps; t++) {
    const step = emitted.slice(t);
    const arrived = t === 0 ? place.lt(2).where(step, NEVER) : logSum([
      alpha,
      before(alpha, 1, NEVER),
      skips.where(before(alpha, 2, NEVER), NEVER),
    ]).add(step).maximum(NEVER);
    // Stored, so that no step computes those before it again.
    alpha = inputLengths.gt(t).unsqueeze(1).where(arrived, alpha).contiguous();
  }
  return alpha;
}

/** The logarithm of a sum of exponentials; the largest is subtracted, which changes no gradient. */
function logSum(terms: readonly Tensor[]): Tensor {
  const largest = terms.map((x) => x.detach()).reduce((a, b) => a.maximum(b));
  return terms.map((x) => x.sub(largest).exp()).reduce((a, b) => a.add(b)).log().add(largest);
}
