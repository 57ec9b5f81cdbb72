/**
 * Attention as one operation of the graph: `softmax(query keyᵀ * scale + mask) value`, and its gradients.
 * Kernels compute it in tiles, so that scores are never in memory as a whole.
 */
import type { DType } from "./dtype.ts";
import type { RandomStream } from "./random_stream.ts";
import type { Shape } from "./shape.ts";

/** Weights are dropped where a Philox number is below `probability`; the others are scaled up. */
export interface AttentionDropout {
  /** How likely a weight is dropped. */
  readonly probability: number;
  /** The key of the generator. */
  readonly seed: number;
  /** The place in the sequence of random tensors; a weight's index in (..., L, S) is the counter. */
  readonly stream: RandomStream;
}

/** How a mask is meant: true where a query may look, or numbers to add to the scores. */
export type AttentionMask = "none" | "bool" | "added";

/**
 * One call, which gives several nodes; they share this object. Leading axes are equal, but for the mask,
 * whose axes may be 1.
 *
 * - `forward`: inputs query (..., L, E), key (..., S, E), value (..., S, V) and the mask, if there is one,
 *   (..., L, S); outputs (..., L, V) and the logarithm of the sum of each row's exponentials (..., L) in
 *   float32, which is infinite where a query may look nowhere.
 * - `backward`: inputs query, key, value, the output's gradient (..., L, V), that logarithm (..., L), the
 *   sum of output times gradient of each row (..., L) in float32, and the mask; outputs the gradients of
 *   query, key and value.
 */
export interface AttentionCall {
  /** What is computed. */
  readonly pass: "forward" | "backward";
  /** What scores are multiplied by. */
  readonly scale: number;
  /** True where query i looks at the keys 0 to i only. */
  readonly isCausal: boolean;
  /** How the mask is meant. */
  readonly mask: AttentionMask;
  /**
   * How the output, and the gradients of query, key and value, lie in memory: false where they are (..., H, L, V)
   * as they are meant, true where they are (..., L, H, V), as the projections around attention have them.
   */
  readonly isInterleaved: boolean;
  /** Which weights are dropped; null: none. */
  readonly dropout: AttentionDropout | null;
  /** What it gives. */
  readonly outputs: readonly { readonly shape: Shape; readonly dtype: DType }[];
}
