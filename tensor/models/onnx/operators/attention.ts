/** Attention, and the turning of pairs that gives it places. */
import { Tensor } from "../../../class/tensor.ts";
import type { Call, Operators } from "../core/call.ts";

/** (N, L, heads * features) as (N, heads, L, features); four axes stay. */
export function byHeads(x: Tensor, heads: number): Tensor {
  if (x.ndim === 4) return x;
  const [n, l] = x.shape as [number, number];
  return x.reshape([n, l, heads, -1]).transpose(1, 2);
}

/** (N, heads, L, features) as (N, L, heads * features). */
export function withoutHeads(x: Tensor): Tensor {
  const [n, , l] = x.shape as [number, number, number];
  return x.transpose(1, 2).reshape([n, l, -1]);
}

/** The keys that queries may see: those up to their own place, counted from the start of the past. */
export function causal(queries: number, keys: number, past: number): Tensor {
  const data = Uint8Array.from(
    { length: queries * keys },
    (_, k) => Number(k % keys <= Math.floor(k / keys) + past),
  );
  return Tensor.fromHost(data, { shape: [queries, keys], dtype: "bool" });
}

function attention(call: Call): (Tensor | null)[] {
  const given = call.tensor(0), isFlat = given.ndim === 3;
  const q = byHeads(given, call.int("q_num_heads", 1)), kvHeads = call.int("kv_num_heads", 1);
  const grown = (past: number, x: Tensor) =>
    call.has(past) ? Tensor.concat([call.tensor(past), x], 2) : x;
  const key = grown(4, byHeads(call.tensor(1), kvHeads)),
    value = grown(5, byHeads(call.tensor(2), kvHeads));
  // Several heads of queries share one of keys.
  const groups = q.shape[1]! / key.shape[1]!;
  const [k, v] = groups === 1
    ? [key, value]
    : [key, value].map((x) => x.repeatInterleave(groups, 1));
  const factor = Math.sqrt(call.float("scale", 1 / Math.sqrt(q.shape[3]!)));
  const scores = q.mul(factor).matmul(k!.mul(factor).transpose());
  const cap = call.float("softcap", 0);
  const capped = cap > 0 ? scores.div(cap).tanh().mul(cap) : scores;
  const masked = withMask(call, capped, key.shape[2]!);
  const shares = masked.softmax(-1), out = shares.matmul(v!);
  const y = isFlat ? withoutHeads(out) : out;
  const seen = [scores, capped, masked, shares][call.int("qk_matmul_output_mode", 0)]!;
  return [y, key, value, seen].slice(0, Math.max(1, call.outputs));
}

/** Adds the mask, and hides what is behind a query or beyond its sequence. */
function withMask(call: Call, scores: Tensor, keys: number): Tensor {
  let out = scores;
  const hide = (visible: Tensor) => {
    out = visible.where(out, -Infinity).cast(scores.dtype);
  };
  const mask = call.optional(3);
  if (mask) {
    const missing = keys - mask.shape.at(-1)!, front = mask.shape.slice(0, -1);
    const none = front.map((): [number, number] => [0, 0]);
    if (mask.dtype === "bool") {
      const whole = missing > 0
        ? mask.cast("uint8").pad([...none, [0, missing]], 0).cast("bool")
        : mask;
      hide(whole);
    } else out = out.add(missing > 0 ? mask.pad([...none, [0, missing]], -Infinity) : mask);
  }
  const past = call.has(4) ? call.value(4).shape[2]! : 0;
  if (call.int("is_causal", 0) === 1) hide(causal(scores.shape[2]!, keys, past));
  const lengths = call.optional(6);
  if (lengths) hide(lengths.indexLike([keys]).lt(lengths.cast("int32").reshape([-1, 1, 1, 1])));
  return out;
}

/** Cosines and sines of the angles of each place, (N, 1, L, pairs). */
interface Angles {
  readonly cos: Tensor;
  readonly sin: Tensor;
  /** A pair's features are neighbours, and not half of all features apart. */
  readonly isInterleaved: boolean;
}

/**
 * Turns pairs of features by an angle that grows with the place (J. Su et al., RoFormer, 2021). Features
 * behind the pairs stay.
 *
 * @param x (N, heads, L, features).
 */
export function rotated(x: Tensor, { cos, sin, isInterleaved }: Angles): Tensor {
  const features = x.shape[3]!, half = cos.shape[3]!, width = 2 * half;
  const turning = x.slice(null, null, null, [0, width]),
    rest = x.slice(null, null, null, [width, features]);
  const pairs = isInterleaved ? turning.reshape([...x.shape.slice(0, 3), half, 2]) : turning;
  const [a, b] = isInterleaved
    ? [pairs.slice(null, null, null, null, 0), pairs.slice(null, null, null, null, 1)]
    : [pairs.slice(null, null, null, [0, half]), pairs.slice(null, null, null, [half, width])];
  const real = a.mul(cos).sub(b.mul(sin)), imaginary = a.mul(sin).add(b.mul(cos));
  const out = isInterleaved
    ? Tensor.concat([real.unsqueeze(4), imaginary.unsqueeze(4)], 4).reshape(turning.shape)
    : Tensor.concat([real, imaginary], 3);
  return width < features ? Tensor.concat([out, rest], 3) : out;
}

function rotaryEmbedding(call: Call): Tensor {
  const given = call.tensor(0), x = byHeads(given, call.int("num_heads", 1));
  const [n, , l, features] = x.shape as [number, number, number, number];
  const half = (call.int("rotary_embedding_dim", 0) || features) / 2;
  const at = (table: Tensor): Tensor =>
    (call.has(3) ? table.embedding(call.tensor(3)) : table).reshape([n, 1, l, half]);
  const [cos, sin] = [at(call.tensor(1)), at(call.tensor(2))];
  const out = rotated(x, { cos, sin, isInterleaved: call.int("interleaved", 0) === 1 });
  return given.ndim === 4 ? out : withoutHeads(out);
}

/** Attention, by its kinds. */
export const attentionOperators: Operators = {
  Attention: attention,
  RotaryEmbedding: rotaryEmbedding,
};
