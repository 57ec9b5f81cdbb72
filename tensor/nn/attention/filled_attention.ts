import { Node } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { nodeOf } from "../../core/internals.ts";
import { compute } from "../../core/operations.ts";
import { expand } from "../../ops/shaping/views.ts";
import type { Tensor } from "../../core/mod.ts";

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
 * @param key (..., S, E); its leading axes broadcast to the query's, and none is copied.
 * @param value (..., S, V).
 * @param lengths How many keys are filled, at least one: int32 of (..., 1, 1), which broadcasts, too.
 * @param options Who may look where.
 * @returns (..., L, V).
 */
export function filledAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  lengths: Tensor,
  options: FilledAttentionOptions,
): Tensor {
  return compute(attend, query, key, value, { lengths, ...options });
}

function attend(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { lengths, scale, isCausal, window, cap }: FilledAttentionOptions & { readonly lengths: Tensor },
): Tensor {
  const lead = query.shape.slice(0, -2),
    shape = [...lead, query.shape.at(-2)!, value.shape.at(-1)!];
  const heads = (x: Tensor): Tensor => expand(x, [...lead, ...x.shape.slice(-2)]);
  const inputs = [query, heads(key), heads(value), lengths];
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
