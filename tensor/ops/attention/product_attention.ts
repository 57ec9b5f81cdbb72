/**
 * Attention by products of whole matrices whose scores do not outlive a pass: `backward` computes them
 * again, as tiles do. For devices that multiply a type fast, but
 * have no tiles of attention for it.
 */
import type { Tensor } from "../../core/mod.ts";
import type { AttentionParts } from "./fused_attention.ts";

/** Visible positions, and weights that count. */
export interface WeightOptions {
  /** Broadcasts to (..., L, S): bool, true where a query may look; or numbers to add to the scores. */
  readonly mask: Tensor | null;
  /** True when query i looks at the keys 0 to i only. */
  readonly isCausal: boolean;
  /** Factor of the scores. */
  readonly scale: number;
  /** Drops weights, the same ones whenever it is called; scales up the others. */
  readonly drop: (weights: Tensor) => Tensor;
}

/** True for keys after queries, the first at position `start`: (L, S) like `scores`. */
export function laterKeys(scores: Tensor, start = 0): Tensor {
  const [l, s] = scores.shape.slice(-2) as [number, number];
  return scores.indexLike([s]).gt(scores.indexLike([l]).add(start).unsqueeze(1));
}

/** The scores, (..., L, S); those of keys that a query may not look at are -Infinity. */
function scoresOf(
  { query, key }: AttentionParts,
  { mask, isCausal, scale }: WeightOptions,
): Tensor {
  const product = query.matmul(key.transpose()).mul(scale);
  const scores = isCausal ? product.maskedFill(laterKeys(product), -Infinity) : product;
  if (mask === null) return scores;
  return mask.dtype === "bool"
    ? scores.maskedFill(mask.logicalNot(), -Infinity)
    : scores.add(mask.detach().cast(scores.dtype));
}

/** The weights, (..., L, S): rows sum to 1, or are 0 where a query may look nowhere. */
function weightsOf(parts: AttentionParts, options: WeightOptions): Tensor {
  const scores = scoresOf(parts, options);
  if (options.mask === null) return scores.softmax(-1);
  const dead = scores.eq(-Infinity).all(-1, { keepDims: true });
  return scores.maskedFill(dead, 0).softmax(-1).maskedFill(dead, 0);
}

/** Attention: (..., L, V). */
export function productAttention(parts: AttentionParts, options: WeightOptions): Tensor {
  return options.drop(weightsOf(parts, options)).matmul(parts.value);
}

/** The gradients of query, key and value, from the output's, (..., L, V). */
export function productGradients(
  parts: AttentionParts,
  options: WeightOptions,
  gradient: Tensor,
): [query: Tensor, key: Tensor, value: Tensor] {
  const { query, key, value } = parts, { drop, scale } = options;
  const weights = weightsOf(parts, options);
  const ofWeights = drop(gradient.matmul(value.transpose()));
  // The sum is that of output times gradient as well; of these, a row is one kernel with its weights.
  const sums = weights.mul(ofWeights).sum(-1, { keepDims: true });
  const ofScores = weights.mul(ofWeights.sub(sums)).mul(scale);
  return [
    ofScores.matmul(key),
    ofScores.transpose().matmul(query),
    drop(weights).transpose().matmul(gradient),
  ];
}
