import { Node } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { nodeOf } from "../../core/internals.ts";
import { compute } from "../../core/operations.ts";
import { expand } from "../../ops/shaping/views.ts";
import type { Tensor } from "../../core/mod.ts";

/** Keys or values of a cache. */
export interface CachedRows {
  /** Numbers, (..., S, features), or bytes that stand for numbers. */
  readonly rows: Tensor;
  /** Of rows of bytes, float32 of (..., S, 1): a byte b is (b - 128) times the scale of its row. */
  readonly scales: Tensor | null;
}

/** Settings of {@linkcode filledAttention}. */
export interface FilledAttentionOptions {
  /** Factor of the scores. */
  readonly scale: number;
  /** True where the queries stand at the last filled places, one each; else all stand at the last. */
  readonly isCausal: boolean;
  /** Number of keys that a query sees, its own place included; null for all before it. */
  readonly window: number | null;
  /** Scores s become `cap * tanh(s / cap)`; null for none. */
  readonly cap: number | null;
}

/**
 * Attention to keys and values of which the first are filled, without a gradient: time goes with what is
 * filled, not with what there is room for, and another length is another number in memory, no other kernel.
 *
 * @param query (..., L, E).
 * @param key (..., S, E); its leading axes broadcast to the query's, and none is copied. Bytes are read as such.
 * @param value (..., S, V).
 * @param lengths How many keys are filled, at least one: int32 of (..., 1, 1), which broadcasts, too.
 * @param options Who may look where.
 * @returns (..., L, V).
 */
export function filledAttention(
  query: Tensor,
  key: CachedRows,
  value: CachedRows,
  lengths: Tensor,
  options: FilledAttentionOptions,
): Tensor {
  const scales = key.scales && value.scales && [key.scales, value.scales] as const;
  return compute(attend, query, key.rows, value.rows, { lengths, scales, ...options });
}

function attend(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { lengths, scales, scale, isCausal, window, cap }: FilledAttentionOptions & {
    readonly lengths: Tensor;
    readonly scales: readonly [key: Tensor, value: Tensor] | null;
  },
): Tensor {
  const lead = query.shape.slice(0, -2),
    shape = [...lead, query.shape.at(-2)!, value.shape.at(-1)!];
  const heads = (x: Tensor): Tensor => expand(x, [...lead, ...x.shape.slice(-2)]);
  const inputs = [query, heads(key), heads(value), lengths, ...scales?.map(heads) ?? []];
  const { dtype } = query;
  const call = {
    pass: "forward",
    scale,
    isCausal,
    mask: "none",
    isInterleaved: false,
    dropout: null,
    filled: { window, cap },
    outputs: [{ shape, dtype }],
  } as const;
  const node = new Node({ kind: "attention", call, output: 0 }, inputs.map(nodeOf), shape, dtype);
  return result("attention", inputs, node, null);
}
