import type { Tensor } from "../../../core/mod.ts";
import { type CachedRows, filledAttention } from "../../../nn/attention/filled_attention.ts";
import { scaledDotProductAttention } from "../../../nn/attention/scaled_dot_product_attention.ts";
import type { DecoderConfig } from "./architectures/config.ts";

/**
 * Visible positions: causal; by a mask that broadcasts to (N, 1, L, S); or those of a cache up to the query's
 * own, in a window, where so many are filled: int32 of (N).
 */
export type Visibility =
  | { readonly isCausal: true }
  | { readonly mask: Tensor }
  | { readonly filled: Tensor; readonly window: number | null };

/**
 * Attention of many heads of queries to fewer heads of keys.
 *
 * @param query (N, heads, L, E).
 * @param key (N, key heads, S, E); each serves as many heads of queries, which stand side by side. Bytes are those
 *   of a cache.
 * @param value Of the same shape.
 * @returns (N, heads, L, E).
 */
export function groupedAttention(
  query: Tensor,
  key: CachedRows,
  value: CachedRows,
  visible: Visibility,
  config: DecoderConfig,
): Tensor {
  const [n, heads, l, e] = query.shape as [number, number, number, number];
  const keyHeads = key.rows.shape[1]!, group = heads / keyHeads;
  // One query a head: those of a group are the rows of one product.
  if (l === 1) {
    const rows = query.reshape([n, keyHeads, group, e]);
    return attend(rows, key, value, visible, config, l).reshape([n, heads, 1, e]);
  }
  if (group === 1) return attend(query, key, value, visible, config, l);
  const apart = query.reshape([n, keyHeads, group, l, e]);
  const wide = "mask" in visible ? { mask: visible.mask.unsqueeze(1) } : visible;
  // Each head of keys is read where it is, for all its heads of queries.
  const shared = ({ rows, scales }: CachedRows): CachedRows => ({
    rows: rows.unsqueeze(2),
    scales: scales && scales.unsqueeze(2),
  });
  return attend(apart, shared(key), shared(value), wide, config, l).reshape([n, heads, l, e]);
}

function attend(
  query: Tensor,
  keys: CachedRows,
  values: CachedRows,
  visible: Visibility,
  { attentionCap, attentionScale }: DecoderConfig,
  length: number,
): Tensor {
  const [scale, cap] = [attentionScale, attentionCap];
  if ("filled" in visible) {
    const { filled, window } = visible, isCausal = length > 1;
    const lengths = filled.reshape([-1, ...Array(query.ndim - 1).fill(1)]);
    return filledAttention(query, keys, values, lengths, { scale, isCausal, window, cap });
  }
  const key = keys.rows, value = values.rows;
  if (attentionCap === null) {
    const seen = "mask" in visible ? { mask: visible.mask } : { isCausal: length > 1 };
    return scaledDotProductAttention(query, key, value, { ...seen, scale: attentionScale });
  }
  const scores = query.matmul(key.transpose()).cast("float32").mul(attentionScale);
  const mask = "mask" in visible ? visible.mask : causalMask(scores);
  const weights = mask.where(softCapped(scores, attentionCap), -Infinity).softmax(-1);
  return weights.cast(value.dtype).matmul(value);
}

/** Bounds numbers smoothly. */
export function softCapped(x: Tensor, cap: number): Tensor {
  return x.div(cap).tanh().mul(cap);
}

/** True where a key is not later than a query, (L, S), and within the window behind it. */
export function causalMask(like: Tensor, window: number | null = null): Tensor {
  const [l, s] = like.shape.slice(-2) as [number, number];
  const distance = like.indexLike([l]).unsqueeze(1).sub(like.indexLike([s]));
  return distance.ge(0).logicalAnd(distance.lt(window ?? s));
}

/**
 * True for keys that are text, and within the window on either side, in a model that looks ahead.
 *
 * @param isText bool of (N, L).
 * @returns It broadcasts to (N, 1, L, L).
 */
export function aroundMask(isText: Tensor, window: number | null): Tensor {
  const length = isText.shape[1]!, isSeen = isText.unsqueeze(1).unsqueeze(1);
  if (window === null || window >= length) return isSeen;
  const places = isText.indexLike([length]);
  return isSeen.logicalAnd(places.unsqueeze(1).sub(places).abs().lt(window));
}
