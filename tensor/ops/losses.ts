/** The cross-entropy loss, as one fused kernel forward and one backward. */
import { formatShape } from "../../backend/engine.ts";
import { atLeastSingle, widened } from "../amp/autocast.ts";
import { result, sameDevice } from "../apply.ts";
import { holds } from "../creation.ts";
import { DTypeError, ShapeError } from "../errors.ts";
import { isGradEnabled, noGrad } from "../grad_mode.ts";
import { requireInteger } from "../promotion.ts";
import type { Tensor } from "../tensor.ts";
import { gather } from "./indexing.ts";
import { permute, reshape } from "./shaping.ts";
import { checkOptions, type Rules, takes } from "../options.ts";

/** Options of the cross-entropy. */
export interface CrossEntropyOptions {
  /** How much of the target is spread evenly over all classes, 0 to 1. */
  labelSmoothing?: number;
  /**
   * Samples with this label count for nothing, whatever their logits are. Without it each label must
   * be a class: PyTorch's default, -100, would cost every step a kernel that counts the samples.
   */
  ignoreIndex?: number;
  /** Mean over samples (default), their sum, or one loss per sample. */
  reduction?: "mean" | "sum" | "none";
}

/** What {@linkcode CrossEntropyOptions} may hold. */
export const crossEntropyRules: Rules<CrossEntropyOptions> = {
  labelSmoothing: takes.share,
  ignoreIndex: takes.finite,
  reduction: takes.oneOf("mean", "sum", "none"),
};

/**
 * The mean of `-log(softmax(logits)[label])` over samples: logits (N, C) with labels (N), or
 * (N, C, d1, ...) with labels (N, d1, ...). The mean of no samples is NaN.
 */
export function crossEntropy(
  logits: Tensor,
  labels: Tensor,
  options: CrossEntropyOptions = {},
): Tensor {
  checkOptions("crossEntropy", options, crossEntropyRules);
  const input = widened(logits);
  const losses = entropyOf(atLeastSingle(input), labels, options);
  return losses.cast(input.dtype);
}

function entropyOf(logits: Tensor, labels: Tensor, options: CrossEntropyOptions): Tensor {
  const { labelSmoothing = 0, ignoreIndex, reduction = "mean" } = options;
  const { scores, targets, shape } = inRows(logits, labels);
  const [rows, classes] = scores.shape as [number, number];
  if (classes === 0) throw new ShapeError("Cannot crossEntropy logits of no classes");
  // A type that cannot hold the label has no sample to leave out.
  const counts = ignoreIndex !== undefined && holds(targets.dtype, ignoreIndex)
    ? targets.ne(ignoreIndex)
    : null;
  const losses = perSample(scores, targets, counts, labelSmoothing);
  if (reduction === "none") return reshape(losses, shape);
  const total = losses.sum();
  if (reduction === "sum") return total;
  return counts ? total.div(counts.cast(scores.dtype).sum()) : total.mul(1 / rows);
}

function inRows(
  logits: Tensor,
  labels: Tensor,
): { scores: Tensor; targets: Tensor; shape: readonly number[] } {
  sameDevice("crossEntropy", [logits, labels]);
  requireInteger("crossEntropy", "labels", labels.dtype);
  if (logits.dtype.startsWith("float") === false && logits.dtype !== "bfloat16") {
    throw new DTypeError(
      `Cannot crossEntropy logits of ${logits.dtype}: cast them with .cast("float32")`,
    );
  }
  const expected = logits.shape.filter((_, k) => k !== 1);
  const single = logits.ndim === 1 && labels.ndim === 0;
  if (!single && (logits.ndim < 2 || formatShape(expected) !== formatShape(labels.shape))) {
    throw new ShapeError(
      `Cannot crossEntropy logits of shape ${formatShape(logits.shape)} with labels of shape ${
        formatShape(labels.shape)
      }: pass [N, C] and [N]`,
    );
  }
  if (single) {
    return { scores: logits.reshape([1, logits.size]), targets: labels.reshape([1]), shape: [] };
  }
  const order = [0, ...expected.slice(1).map((_, k) => k + 2), 1];
  const classes = logits.shape[1]!;
  const rows = labels.size;
  return {
    scores: reshape(permute(logits, order), [rows, classes]),
    targets: reshape(labels, [rows]),
    shape: labels.shape,
  };
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
  const { losses, exponentials, sums } = noGrad(() => {
    const x = scores.detach();
    const shifted = x.sub(x.max(1, { keepDims: true }));
    const exponentials = shifted.exp(), sums = exponentials.sum(1, { keepDims: true });
    const logSum = sums.squeeze(1).log();
    const picked = gather(shifted, 1, labels, "crossEntropy").squeeze(1);
    const hard = logSum.sub(picked);
    const soft = (): Tensor => logSum.sub(shifted.mean(1)).mul(smoothing);
    const all = smoothing === 0 ? hard : hard.mul(1 - smoothing).add(soft());
    return { losses: counts ? counts.where(all, 0) : all, exponentials, sums };
  });
  return result("crossEntropy", [scores], losses, (g) => {
    const counted = counts?.unsqueeze(1);
    const hit = labels.eq(scores.indexLike([classes])).cast(scores.dtype);
    const target = smoothing === 0 ? hit : hit.mul(1 - smoothing).add(smoothing / classes);
    // A gradient that is differentiated again needs to know how it depends on the scores.
    const softmax = isGradEnabled()
      ? (counted ? counted.where(scores, 0) : scores).softmax(1)
      : exponentials.div(sums);
    const gradient = softmax.sub(target).mul(g.unsqueeze(1));
    return [counted ? counted.where(gradient, 0) : gradient];
  });
}
