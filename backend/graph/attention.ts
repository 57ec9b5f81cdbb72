/**
 * Attention as one operation of the graph: `softmax(query keyᵀ * scale + mask) value`, and its gradients.
 * Kernels compute it in tiles, so that scores are never in memory as a whole.
 */
import type { DType } from "./dtype.ts";
import type { RandomStream } from "./scalar.ts";
import type { Shape } from "./shape.ts";

/** Weights are dropped where a Philox number is below `probability`; the others are scaled up. */
export interface AttentionDropout {
  /** Probability to drop a weight. */
  readonly probability: number;
  /** The key of the generator. */
  readonly seed: number;
  /** The place in the sequence of random tensors; a weight's index in (..., L, S) is the counter. */
  readonly stream: RandomStream;
}

/** Meaning of a mask: true where a query may look, or numbers to add to the scores. */
export type AttentionMask = "none" | "bool" | "added";

/**
 * Keys of which the first are there, as in a cache that is filled step by step. The last query stands at the
 * last of them, the others before it.
 */
export interface FilledKeys {
  /** Keys that a query sees, those at its own place and before; null for all. */
  readonly window: number | null;
  /** Scores s become `cap * tanh(s / cap)`; null for none. */
  readonly cap: number | null;
}

/** The byte that stands for 0 in keys and values of bytes. */
export const ZERO_BYTE = 128;

/**
 * One call, which gives several nodes; they share this object. Leading axes are equal, but for the mask,
 * whose axes may be 1.
 *
 * - `forward`: inputs query (..., L, E), key (..., S, E), value (..., S, V) and the mask, if there is one,
 *   (..., L, S), or how many keys are filled, int32 of (..., 1, 1), and where keys and values are bytes, the
 *   scales of both, float32 of (..., S, 1): a byte b stands for (b - 128) times the scale of its row. Outputs
 *   (..., L, V) and the logarithm of the sum of each row's exponentials (..., L) in float32, which is infinite
 *   where a query may look nowhere.
 * - `backward`: inputs query, key, value, the output's gradient (..., L, V), that logarithm (..., L), the
 *   sum of output times gradient of each row (..., L) in float32, and the mask; outputs the gradients of
 *   query, key and value.
 */
export interface AttentionCall {
  /** Pass to compute. */
  readonly pass: "forward" | "backward";
  /** Factor of the scores. */
  readonly scale: number;
  /** True where query i looks at the keys 0 to i only. */
  readonly isCausal: boolean;
  /** Meaning of the mask. */
  readonly mask: AttentionMask;
  /**
   * Layout of the output, and of gradients of query, key and value: false where (..., H, L, V)
   * as they are meant, true where they are (..., L, H, V), as the projections around attention have them.
   */
  readonly isInterleaved: boolean;
  /** Dropout of weights; null: none. */
  readonly dropout: AttentionDropout | null;
  /** Null where all keys are there. With it there is no mask, no dropout and no backward pass. */
  readonly filled: FilledKeys | null;
  /**
   * Shapes and types of results: gradients of query, key and value, or the output, logarithms of sums, and, where
   * both are needed, the output in a half type.
   */
  readonly outputs: readonly { readonly shape: Shape; readonly dtype: DType }[];
}
