import { Tensor } from "../../class/tensor.ts";

/** Reduction of a text's token vectors to one. */
export type Pooling = "mean" | "first" | "last" | "max" | "root" | "weighted";

/** The length of each text, float32 of (N, 1), of marks of tokens, bool of (N, L). */
function lengthsOf(isText: Tensor): Tensor {
  return isText.cast("float32").sum(1, { keepDims: true });
}

/** The sum of a text's vectors, each times its weight, (N, L). */
function weighed(vectors: Tensor, weights: Tensor): Tensor {
  return vectors.mul(weights.unsqueeze(-1)).sum(1);
}

/** One vector of those of a text's tokens, (N, L, width). */
const pooledBy: Readonly<Record<Pooling, (vectors: Tensor, isText: Tensor) => Tensor>> = {
  first: (vectors) => vectors.slice(null, 0),
  last: (vectors, isText) => {
    const place = isText.indexLike([isText.shape[1]!]).eq(lengthsOf(isText).sub(1));
    return place.unsqueeze(-1).where(vectors, 0).sum(1);
  },
  mean: (vectors, isText) => {
    const marks = isText.cast("float32");
    return weighed(vectors, marks).div(lengthsOf(isText));
  },
  root: (vectors, isText) => {
    const marks = isText.cast("float32");
    return weighed(vectors, marks).div(lengthsOf(isText).sqrt());
  },
  // Later tokens, which have read more, count for more.
  weighted: (vectors, isText) => {
    const places = isText.indexLike([isText.shape[1]!]).add(1);
    const weights = isText.where(places, 0).cast("float32");
    return weighed(vectors, weights).div(weights.sum(1, { keepDims: true }));
  },
  max: (vectors, isText) => vectors.maskedFill(isText.logicalNot().unsqueeze(-1), -Infinity).max(1),
};

/** The names of poolings. */
export const poolings = Object.keys(pooledBy) as Pooling[];

/**
 * One vector of a text, of several poolings side by side.
 *
 * @param vectors (N, L, width).
 * @param isText bool of (N, L): false for padding.
 */
export function pooled(vectors: Tensor, isText: Tensor, by: readonly Pooling[]): Tensor {
  const parts = by.map((pooling) => pooledBy[pooling](vectors, isText));
  return parts.length === 1 ? parts[0]! : Tensor.concat(parts, -1);
}
