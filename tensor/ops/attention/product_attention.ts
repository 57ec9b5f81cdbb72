/**
 * Attention by products of whole matrices whose scores do not outlive a pass: `backward` computes them
 * again, as tiles do. For devices that multiply a type fast, but
 * have no tiles of attention for it.
 */
import { dtypes } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { concat } from "../shaping/joining.ts";
import type { AttentionParts } from "./fused_attention.ts";

/** Visible positions, and weights that count. */
export interface WeightOptions {
  /** Broadcasts to (..., L, S): bool, true where a query may look; or numbers to add to the scores. */
  readonly mask: Tensor | null;
  /** True when query i looks at the keys 0 to i only. */
  readonly isCausal: boolean;
  /** Factor of the scores. */
  readonly scale: number;
  /** Drops weights, the same ones whenever it is called; scales up the others. Null where none are dropped. */
  readonly drop: ((weights: Tensor) => Tensor) | null;
  /** Bytes of scores that are there at a time, where leading axes can be cut so. */
  readonly turnBytes: number;
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

/** Work of one turn. */
type Turn<T> = (parts: AttentionParts, options: WeightOptions, part: (x: Tensor) => Tensor) => T;

/**
 * Computes for some indices of the first axis at a time, where the scores of all have too many bytes; the parts of
 * each result are joined along the axis.
 */
function inTurns(parts: AttentionParts, options: WeightOptions, turn: Turn<Tensor[]>): Tensor[] {
  const { query, key, value } = parts, rank = query.ndim, size = rank > 2 ? query.shape[0]! : 1;
  const bytes = query.size / query.shape.at(-1)! * key.shape.at(-2)! * dtypes[query.dtype].bytes;
  const own = Math.max(1, Math.floor(size * options.turnBytes / bytes));
  // Turns would drop the weights of the same places.
  if (own >= size || options.drop !== null) return turn(parts, options, (x) => x);
  const turns: Tensor[][] = [];
  for (let from = 0; from < size; from += own) {
    // A mask may have fewer axes, or be the same for all.
    const part = (x: Tensor): Tensor =>
      x.ndim === rank && x.shape[0] === size ? x.slice([from, Math.min(from + own, size)]) : x;
    const { mask } = options;
    turns.push(turn(
      { query: part(query), key: part(key), value: part(value) },
      { ...options, mask: mask && part(mask) },
      part,
    ));
  }
  return turns[0]!.map((_, k) => concat(turns.map((results) => results[k]!)));
}

const dropped = (weights: Tensor, { drop }: WeightOptions): Tensor => drop?.(weights) ?? weights;

/** Attention: (..., L, V). */
export function productAttention(parts: AttentionParts, options: WeightOptions): Tensor {
  const [output] = inTurns(parts, options, (parts, options) => [
    dropped(weightsOf(parts, options), options).matmul(parts.value),
  ]);
  return output!;
}

/** The gradients of query, key and value, from the output's, (..., L, V). */
export function productGradients(
  parts: AttentionParts,
  options: WeightOptions,
  gradient: Tensor,
): [query: Tensor, key: Tensor, value: Tensor] {
  return inTurns(parts, options, (parts, options, part) => {
    const { query, key, value } = parts, { scale } = options, g = part(gradient);
    const weights = weightsOf(parts, options);
    const ofWeights = dropped(g.matmul(value.transpose()), options);
    // The sum is that of output times gradient as well; of these, a row is one kernel with its weights.
    const sums = weights.mul(ofWeights).sum(-1, { keepDims: true });
    const ofScores = weights.mul(ofWeights.sub(sums)).mul(scale);
    return [
      ofScores.matmul(key),
      ofScores.transpose().matmul(query),
      dropped(weights, options).transpose().matmul(g),
    ];
  }) as [Tensor, Tensor, Tensor];
}
