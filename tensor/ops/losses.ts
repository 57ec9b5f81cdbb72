/** The cross-entropy loss, as one fused kernel forward and one backward. */
import { formatShape, isFloat, sameShape, sizeOf } from "../../backend/internal.ts";
import { atLeastSingle, widened } from "../core/autocast.ts";
import { aTensor, requireTensor, result, sameDevice } from "../core/apply.ts";
import { holds } from "./elementwise/elements.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { isGradEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { requireInteger } from "../core/rules/promotion.ts";
import type { Tensor } from "../core/mod.ts";
import { checkedIndices, gather, indexSelect } from "./indexing/indexing.ts";
import { permute, reshape } from "./shaping/views.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import type { CrossEntropyOptions } from "../core/arguments.ts";

/** Rules for {@linkcode CrossEntropyOptions}. */
export const crossEntropyRules: Rules<CrossEntropyOptions> = {
  weight: aTensor(),
  labelSmoothing: takes.share,
  ignoreIndex: takes.finite,
  reduction: takes.oneOf("mean", "sum", "none"),
};

/**
 * The mean of `-log(softmax(logits)[label])` over samples: logits (N, C) with labels (N), or
 * (N, C, d1, ...) with labels (N, d1, ...); or with probabilities of the logits' shape, the mean of
 * `-sum(probability * log(softmax(logits)))`. The mean of no samples is NaN.
 */
export function crossEntropy(
  logits: Tensor,
  labels: Tensor,
  options: CrossEntropyOptions = {},
): Tensor {
  checkOptions("crossEntropy", options, crossEntropyRules);
  sameDevice("crossEntropy", [logits, labels, ...(options.weight ? [options.weight] : [])]);
  if (!isFloat(logits.dtype)) {
    throw dtypeError("crossEntropy")`
      Cannot crossEntropy logits of ${logits.dtype}: cast them with .cast("float32")`;
  }
  const input = widened(logits);
  const entropy = isFloat(labels.dtype) ? entropyOfMixture : entropyOfLabels;
  return entropy(atLeastSingle(input), labels, options).cast(input.dtype);
}

function entropyOfLabels(logits: Tensor, labels: Tensor, options: CrossEntropyOptions): Tensor {
  const { labelSmoothing = 0, ignoreIndex, reduction = "mean" } = options;
  const { scores, targets, shape } = inRows("crossEntropy", logits, labels);
  const [rows, classes] = scores.shape as [number, number];
  if (classes === 0) throw shapeError("crossEntropy")`Cannot crossEntropy logits of no classes`;
  // A type that cannot hold the label has no sample to leave out.
  const counts = ignoreIndex !== undefined && holds(targets.dtype, ignoreIndex)
    ? targets.ne(ignoreIndex)
    : null;
  const weights = weightsOf("crossEntropy", scores, options.weight);
  const { losses, shares } = weights
    ? weighted(scores, targets, counts, weights, labelSmoothing)
    : { losses: perSample(scores, targets, counts, labelSmoothing), shares: counts };
  if (reduction === "none") return reshape(losses, shape);
  const total = losses.sum();
  if (reduction === "sum") return total;
  return shares ? total.div(shares.cast(scores.dtype).sum()) : total.mul(1 / rows);
}

/** The weights of the classes in the type of the scores (rows, classes); null for none. */
export function weightsOf(op: string, scores: Tensor, weight: Tensor | undefined): Tensor | null {
  if (!weight) return null;
  const classes = scores.shape[1]!;
  if (weight.ndim === 1 && weight.size === classes) return weight.detach().cast(scores.dtype);
  throw shapeError(op)`
    Cannot ${op} with a weight of shape ${weight.shape}: pass one number for each of the
    ${classes} classes`;
}

/** The losses of rows, and how much each row counts in their mean: as much as its class. */
function weighted(
  scores: Tensor,
  targets: Tensor,
  counts: Tensor | null,
  weights: Tensor,
  smoothing: number,
): { losses: Tensor; shares: Tensor } {
  const labels = counts ? counts.where(targets, 0) : targets;
  const ofLabels = indexSelect(weights, 0, labels, "crossEntropy");
  const shares = counts ? counts.where(ofLabels, 0) : ofLabels;
  const hard = perSample(scores, targets, counts, 0).mul(shares);
  if (smoothing === 0) return { losses: hard, shares };
  // Rows that do not count may be NaN.
  const counted = counts ? counts.unsqueeze(1).where(scores, 0) : scores;
  const all = counted.logSoftmax(1).mul(weights).sum(1).mul(-smoothing / scores.shape[1]!);
  const soft = counts ? counts.where(all, 0) : all;
  return { losses: hard.mul(1 - smoothing).add(soft), shares };
}

/** The cross-entropy with probabilities in place of labels. */
function entropyOfMixture(logits: Tensor, target: Tensor, options: CrossEntropyOptions): Tensor {
  const { labelSmoothing = 0, reduction = "mean" } = options;
  if (options.ignoreIndex !== undefined) {
    throw new TypeError(
      `Cannot compute crossEntropy of probabilities with ignoreIndex ${options.ignoreIndex}: it is a label; ` +
        `pass labels as integers, or rows of zeros for samples that do not count`,
    );
  }
  if (!sameShape(logits.shape, target.shape) || logits.ndim === 0) {
    throw shapeError("crossEntropy")`
      Cannot crossEntropy logits of shape ${logits.shape} with probabilities of shape
      ${target.shape}: the shapes must be equal; labels are integers, cast them with
      .cast("int32")`;
  }
  const scores = rowsOf(logits), [rows, classes] = scores.shape as [number, number];
  if (classes === 0) throw shapeError("crossEntropy")`Cannot crossEntropy logits of no classes`;
  const given = rowsOf(target).cast(scores.dtype);
  const mixture = labelSmoothing === 0
    ? given
    : given.mul(1 - labelSmoothing).add(labelSmoothing / classes);
  const weights = weightsOf("crossEntropy", scores, options.weight);
  const shares = weights ? mixture.mul(weights) : mixture;
  const losses = scores.logSoftmax(1).mul(shares).sum(1).neg();
  if (reduction === "none") {
    return reshape(
      losses,
      logits.shape.filter((_, k) => k !== 1 % logits.ndim),
    );
  }
  return reduction === "sum" ? losses.sum() : losses.sum().mul(1 / rows);
}

/** Classes last, everything else in rows: (C) or (N, C, d1, ...) to (rows, C). */
function rowsOf(x: Tensor): Tensor {
  if (x.ndim === 1) return reshape(x, [1, x.size]);
  const order = [0, ...x.shape.slice(2).map((_, k) => k + 2), 1];
  return reshape(permute(x, order), [sizeOf(x.shape.filter((_, k) => k !== 1)), x.shape[1]!]);
}

/** Scores (rows, classes), their labels (rows), and the shape of one loss a label. */
export function inRows(
  op: string,
  logits: Tensor,
  labels: Tensor,
): { scores: Tensor; targets: Tensor; shape: readonly number[] } {
  requireTensor(op, logits);
  requireTensor(op, labels);
  requireInteger(op, "labels", labels.dtype);
  const expected = logits.shape.filter((_, k) => k !== 1);
  const single = logits.ndim === 1 && labels.ndim === 0;
  if (!single && (logits.ndim < 2 || formatShape(expected) !== formatShape(labels.shape))) {
    throw shapeError(op)`
      Cannot ${op} logits of shape ${logits.shape} with labels of shape ${labels.shape}: pass
      [N, C] and [N]`;
  }
  if (single) {
    return { scores: logits.reshape([1, logits.size]), targets: labels.reshape([1]), shape: [] };
  }
  return { scores: rowsOf(logits), targets: reshape(labels, [labels.size]), shape: labels.shape };
}

/**
 * One loss a row; the gradient is `softmax - target`, of the exponentials that the loss is made of.
 * Rows that do not count are 0, selected and not multiplied: they may be NaN.
 */
function perSample(
  scores: Tensor,
  targets: Tensor,
  counts: Tensor | null,
  smoothing: number,
): Tensor {
  const classes = scores.shape[1]!;
  const labels = (counts ? counts.where(targets, 0) : targets).unsqueeze(1);
  const known = checkedIndices("crossEntropy", labels, classes);
  const { losses, exponentials, sums } = withoutGrad(() => {
    const x = scores.detach();
    const shifted = x.sub(x.max(1, { keepDims: true }));
    const exponentials = shifted.exp();
    // A gradient reads the sums: one that is read alone tells of a label that is no class, too. The
    // check is here, where it costs a row what it would cost each element there.
    const sums = known.ge(0).where(exponentials.sum(1, { keepDims: true }), 0);
    const logSum = sums.squeeze(1).log();
    const picked = gather(shifted, 1, labels, "crossEntropy").squeeze(1);
    const hard = logSum.sub(picked);
    const soft = (): Tensor => logSum.sub(shifted.mean(1)).mul(smoothing);
    const all = smoothing === 0 ? hard : hard.mul(1 - smoothing).add(soft());
    return { losses: counts ? counts.where(all, 0) : all, exponentials, sums };
  });
  return result("crossEntropy", [scores], losses, (g) => {
    const counted = counts?.unsqueeze(1);
    const hit = (isGradEnabled() ? known : labels).eq(scores.indexLike([classes])).cast(
      scores.dtype,
    );
    const target = smoothing === 0 ? hit : hit.mul(1 - smoothing).add(smoothing / classes);
    // A gradient that is differentiated again needs to know how it depends on the scores.
    const softmax = isGradEnabled()
      ? (counted ? counted.where(scores, 0) : scores).softmax(1)
      : exponentials.div(sums);
    const gradient = softmax.sub(target).mul(g.unsqueeze(1));
    return [counted ? counted.where(gradient, 0) : gradient];
  });
}
