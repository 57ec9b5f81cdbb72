/**
 * Attention by products of whole matrices whose scores do not outlive a pass: `backward` computes them
 * again, as tiles do, from two numbers of each row. For devices that multiply a type fast, but
 * have no tiles of attention for it.
 */
import type { Tensor } from "../../core/tensor.ts";
import type { AttentionParts } from "./fused_attention.ts";

/** Who looks where, and which weights count. */
export interface WeightOptions {
  /** Broadcasts to (..., L, S): bool, true where a query may look; or numbers to add to the scores. */
  readonly mask: Tensor | null;
  /** True when query i looks at the keys 0 to i only. */
  readonly isCausal: boolean;
  /** What scores are multiplied by. */
  readonly scale: number;
  /** Drops weights, the same ones whenever it is called; scales up the others. */
  readonly drop: (weights: Tensor) => Tensor;
}

/** Where keys come after queries, of which the first has the position `start`: (L, S) like `scores`. */
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

/** What attention gives, and what its weights are computed again from: exponentials of scores less `most`. */
export interface ProductAttention {
  /** (..., L, V). */
  readonly output: Tensor;
  /** The maximum of each row of scores, (..., L, 1); 0 where a query may look nowhere. */
  readonly most: Tensor;
  /** The sum of each row of exponentials, (..., L, 1); 1 where a query may look nowhere. */
  readonly sum: Tensor;
}

/** Attention. */
export function productAttention(parts: AttentionParts, options: WeightOptions): ProductAttention {
  const scores = scoresOf(parts, options), isOpen = options.mask === null;
  const highest = scores.max(-1, { keepDims: true });
  const most = isOpen ? highest : highest.maskedFill(highest.eq(-Infinity), 0);
  const weights = scores.sub(most).exp(), total = weights.sum(-1, { keepDims: true });
  const sum = isOpen ? total : total.maskedFill(total.eq(0), 1);
  return { output: options.drop(weights.div(sum)).matmul(parts.value), most, sum };
}

/**
 * The gradients of query, key and value.
 *
 * @param rows What {@linkcode productAttention} gave.
 * @param gradient The output's, (..., L, V).
 * @param products The sum of output times gradient of each row, (..., L).
 */
export function productGradients(
  parts: AttentionParts,
  options: WeightOptions,
  { most, sum }: ProductAttention,
  gradient: Tensor,
  products: Tensor,
): [query: Tensor, key: Tensor, value: Tensor] {
  const { query, key, value } = parts, { drop, scale } = options;
  // Nothing dear follows the product, so that it is one kernel: see `maxEpilogue`.
  const weights = scoresOf(parts, options).sub(most).exp().div(sum);
  const ofWeights = drop(gradient.matmul(value.transpose())).sub(products.unsqueeze(-1));
  const ofScores = weights.mul(ofWeights).mul(scale);
  return [
    ofScores.matmul(key),
    ofScores.transpose().matmul(query),
    drop(weights).transpose().matmul(gradient),
  ];
}
