/** Losses of vectors that should be near each other, or far. */
import { formatShape } from "../../../backend/internal.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { aTensor, requireTensor } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { type LossOptions, lossRules, reduced } from "./losses.ts";
import { requireVectors } from "./probability_losses.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode cosineSimilarity}. */
export interface CosineSimilarityOptions {
  /** The axis of the vectors; default 1. */
  axis?: number;
  /** The least length of a vector; default 1e-8. */
  eps?: number;
}

/** Options of {@linkcode cosineEmbedding}. */
export interface CosineEmbeddingOptions extends LossOptions {
  /** The cosine that unlike vectors may have, -1 to 1; default 0. */
  margin?: number;
}

/** Options of {@linkcode triplet}. */
export interface TripletOptions extends LossOptions {
  /** By how much the negative should be farther than the positive; default 1. */
  margin?: number;
  /** The norm of the distances; default 2. */
  p?: number;
  /** Added to each difference; default 1e-6. */
  eps?: number;
  /** True when the nearer of anchor and positive counts for the negative; false by default. */
  swap?: boolean;
}

/** Options of {@linkcode infoNCE}. */
export interface InfoNCEOptions extends LossOptions {
  /** Divisor of the cosines; default 0.1. */
  temperature?: number;
  /** Vectors (M, D) that are like no query; by default the keys of the other queries are. */
  negatives?: Tensor;
}

const cosineRules: Rules<CosineSimilarityOptions> = {
  axis: takes.integer,
  eps: takes.nonNegative,
};
/** Rules of {@linkcode CosineEmbeddingOptions}. */
export const embeddingRules: Rules<CosineEmbeddingOptions> = { ...lossRules, margin: takes.finite };
/** Rules of {@linkcode TripletOptions}. */
export const tripletRules: Rules<TripletOptions> = {
  ...lossRules,
  margin: takes.nonNegative,
  p: takes.positive,
  eps: takes.nonNegative,
  swap: takes.bool,
};
const infoRules: Rules<InfoNCEOptions> = {
  ...lossRules,
  temperature: takes.positive,
  negatives: aTensor(),
};

/**
 * The cosine of the angle between vectors, -1 to 1; vectors broadcast.
 *
 * @throws {ShapeError} When the shapes do not broadcast, or there is no such axis.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const cosine = nn.cosineSimilarity(Tensor.fromHost([[1, 0]]), Tensor.fromHost([[1, 1]]));
 * assertAlmostEquals(await cosine.item(), Math.SQRT1_2, 1e-6);
 * ```
 */
export function cosineSimilarity(
  a: Tensor,
  b: Tensor,
  options: CosineSimilarityOptions = {},
): Tensor {
  requireTensor("compute cosineSimilarity", a);
  requireTensor("compute cosineSimilarity", b);
  checkOptions("compute cosineSimilarity", options, cosineRules);
  const { axis = 1, eps = 1e-8 } = options;
  const unit = (x: Tensor): Tensor => {
    const wide = atLeastSingle(x);
    return wide.mul(wide.square().sum(axis, { keepDims: true }).clamp(eps * eps).rsqrt());
  };
  return unit(a).mul(unit(b)).sum(axis).cast(a.dtype);
}

/**
 * `1 - cos(a, b)` for pairs whose target is 1, `max(0, cos(a, b) - margin)` for those whose is -1.
 *
 * @param a Vectors (N, D), or (D).
 * @param b Vectors of the same shape.
 * @param target 1 or -1 for each pair.
 * @throws {ShapeError} When the shapes do not fit.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([[3, 4]]), alike = Tensor.ones([1]);
 * assertAlmostEquals(await nn.cosineEmbedding(x, x, alike).item(), 0, 1e-6);
 * ```
 */
export function cosineEmbedding(
  a: Tensor,
  b: Tensor,
  target: Tensor,
  options: CosineEmbeddingOptions = {},
): Tensor {
  requireVectors("cosineEmbedding", [a, b]);
  requireTensor("compute cosineEmbedding", target, " for the target");
  checkOptions("compute cosineEmbedding", options, embeddingRules);
  if (a.ndim < 1 || a.ndim > 2 || formatShape(target.shape) !== formatShape(a.shape.slice(0, -1))) {
    throw shapeError("cosineEmbedding")`
      Cannot compute cosineEmbedding of shape ${a.shape} with a target of ${target.shape}: pass
      [N, D] and [N], or [D] and []`;
  }
  return compute(embeddingOf, a, b, target, options);
}

function embeddingOf(
  a: Tensor,
  b: Tensor,
  target: Tensor,
  options: CosineEmbeddingOptions,
): Tensor {
  const [x, y] = [atLeastSingle(a), atLeastSingle(b)];
  const squares = (v: Tensor): Tensor => v.square().sum(-1).add(1e-12);
  const cosine = x.mul(y).sum(-1).mul(squares(x).mul(squares(y)).rsqrt());
  const far = cosine.sub(options.margin ?? 0).relu();
  return reduced(target.gt(0).where(cosine.neg().add(1), far), options, a.dtype);
}

/**
 * `max(0, margin + |anchor - positive| - |anchor - negative|)` over the last axis (V. Balntas et al.,
 * Learning shallow convolutional feature descriptors with triplet losses, 2016).
 *
 * @param anchor Vectors (N, D), or (D).
 * @param positive Those that should be near.
 * @param negative Those that should be far.
 * @throws {ShapeError} When the shapes differ.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const near = Tensor.fromHost([[0, 1]]), far = Tensor.fromHost([[0, 1.5]]);
 * assertAlmostEquals(await nn.triplet(near, near, far).item(), 0.5, 1e-4);
 * ```
 */
export function triplet(
  anchor: Tensor,
  positive: Tensor,
  negative: Tensor,
  options: TripletOptions = {},
): Tensor {
  requireVectors("triplet", [anchor, positive, negative]);
  checkOptions("compute triplet", options, tripletRules);
  return compute(tripletOf, anchor, positive, negative, options);
}

function tripletOf(
  anchor: Tensor,
  positive: Tensor,
  negative: Tensor,
  options: TripletOptions,
): Tensor {
  const { margin = 1, p = 2, eps = 1e-6, swap = false } = options;
  const distance = (a: Tensor, b: Tensor): Tensor => {
    const d = atLeastSingle(a).sub(atLeastSingle(b)).add(eps);
    if (p === 2) return d.square().sum(-1).sqrt();
    return p === 1 ? d.abs().sum(-1) : d.abs().pow(p).sum(-1).pow(1 / p);
  };
  const near = distance(anchor, positive), other = distance(anchor, negative);
  const far = swap ? other.minimum(distance(positive, negative)) : other;
  return reduced(near.sub(far).add(margin).relu(), options, anchor.dtype);
}

/**
 * The cross-entropy of finding each query's key by their cosine (A. van den Oord et al., Representation
 * Learning with Contrastive Predictive Coding, 2018).
 *
 * @param queries Vectors (N, D).
 * @param keys The one that each query is like, (N, D).
 * @throws {ShapeError} When the shapes do not fit.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 *
 * const x = Tensor.eye(4);
 * console.assert(await nn.infoNCE(x, x).item() < 0.01);
 * ```
 */
export function infoNCE(queries: Tensor, keys: Tensor, options: InfoNCEOptions = {}): Tensor {
  requireVectors("infoNCE", [queries, keys]);
  checkOptions("compute infoNCE", options, infoRules);
  const { temperature = 0.1, negatives, reduction = "mean" } = options;
  const others = negatives?.shape ?? queries.shape;
  if (queries.ndim !== 2 || others.length !== 2 || others[1] !== queries.shape[1]) {
    throw shapeError("infoNCE")`
      Cannot compute infoNCE of shape ${queries.shape} with negatives of
      ${negatives?.shape ?? "none"}: pass [N, D] and [M, D], or no negatives`;
  }
  const unit = (x: Tensor): Tensor =>
    x.mul(atLeastSingle(x).square().sum(1, { keepDims: true }).clamp(1e-24).rsqrt().cast(x.dtype));
  const query = unit(queries), key = unit(keys);
  const count = queries.shape[0]!;
  if (!negatives) {
    const labels = queries.indexLike([count]);
    return query.matmul(key.transpose()).div(temperature).crossEntropy(labels, { reduction });
  }
  const own = query.mul(key).sum(1, { keepDims: true });
  const logits = Tensor.concat([own, query.matmul(unit(negatives).transpose())], 1);
  const first = queries.indexLike([count]).mul(0);
  return logits.div(temperature).crossEntropy(first, { reduction });
}
