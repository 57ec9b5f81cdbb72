/** Attention as onnxruntime's optimizer joins it, and as its exporters of language models write it. */
import { Tensor } from "../../../../class/tensor.ts";
import type { Call, Operators } from "../../core/call.ts";
import { byHeads, causal, rotated, withoutHeads } from "../attention.ts";

/** Queries, keys and values, (N, heads, L, features) each, and the settings that scores depend on. */
interface Scored {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly scale: number;
  /** Added to scores; null: nothing. */
  readonly bias: Tensor | null;
  /** True where a query may see a key; null: everywhere. */
  readonly visible: Tensor | null;
  /** Scores are bent so that they stay below it; 0: they are not. */
  readonly softcap?: number;
}

function attended({ q, k, v, scale, bias, visible, softcap = 0 }: Scored): Tensor {
  const groups = q.shape[1]! / k.shape[1]!;
  const [keys, values] = groups === 1
    ? [k, v]
    : [k, v].map((x) => x.repeatInterleave(groups, 1)) as [Tensor, Tensor];
  const raw = q.mul(scale).matmul(keys.transpose());
  const capped = softcap > 0 ? raw.div(softcap).tanh().mul(softcap) : raw;
  const biased = bias ? capped.add(bias) : capped;
  const scores = visible ? visible.where(biased, -Infinity).cast(raw.dtype) : biased;
  return withoutHeads(scores.softmax(-1).matmul(values));
}

function scaleOf(call: Call, q: Tensor): number {
  return call.float("scale", 0) || 1 / Math.sqrt(q.shape[3]!);
}

function added(a: Tensor | null, b: Tensor | null): Tensor | null {
  return a && b ? a.add(b) : a ?? b;
}

/** Keys and values behind those of the past. */
function grown(past: Tensor | null, now: Tensor): Tensor {
  return past ? Tensor.concat([past, now], 2) : now;
}

/**
 * The mask as what is added to scores: of ones and zeros for each key, for each query and key, or the lengths
 * of the sequences, behind which their begins may stand.
 */
function maskBias(call: Call, mask: Tensor | null, n: number, keys: number): Tensor | null {
  if (!mask) return null;
  const hidden = call.float("mask_filter_value", -10_000);
  const asBias = (seen: Tensor) => seen.cast("float32").sub(1).mul(-hidden);
  if (mask.ndim === 2) return asBias(mask.reshape([n, 1, 1, keys]));
  if (mask.ndim > 2) return asBias(mask.ndim === 3 ? mask.unsqueeze(1) : mask);
  const places = Tensor.arange(0, keys, 1, { dtype: "int32" });
  const each = (from: number) => mask.slice([from, from + n]).cast("int32").reshape([-1, 1, 1, 1]);
  const before = places.lt(each(0));
  return asBias(mask.shape[0]! >= 2 * n ? before.logicalAnd(places.ge(each(n))) : before);
}

function causalOf(call: Call, queries: number, keys: number): Tensor | null {
  return call.int("unidirectional", 0) === 1 ? causal(queries, keys, keys - queries) : null;
}

/** Attention of a sequence to itself; one product makes queries, keys and values of `x`. */
function selfAttention(call: Call, { x, weight, maskAt, pastAt, biasAt }: {
  x: Tensor;
  weight: Tensor;
  maskAt: number;
  pastAt: number;
  biasAt: number;
}): Tensor[] {
  const heads = call.int("num_heads", 1), [n, l] = x.shape as [number, number];
  const third = weight.shape[1]! / 3,
    sizes = call.ints("qkv_hidden_sizes") ?? [third, third, third];
  const product = x.matmul(weight),
    bias = call.optional(2),
    all = bias ? product.add(bias) : product;
  const [q, k, v] = all.split(sizes, 2).map((part) => byHeads(part, heads)) as Tensor[];
  const past = call.optional(pastAt);
  const key = grown(past && past.slice(0), k!), value = grown(past && past.slice(1), v!);
  const keys = key.shape[2]!;
  const out = attended({
    q: q!,
    k: key,
    v: value,
    scale: scaleOf(call, q!),
    bias: added(maskBias(call, call.optional(maskAt), n, keys), call.optional(biasAt)),
    visible: causalOf(call, l, keys),
  });
  return call.outputs > 1 ? [out, Tensor.stack([key, value])] : [out];
}

/** Whole numbers with their scales and zero points, as floats before they are multiplied. */
function quantizedAttention(call: Call): Tensor[] {
  const float = (at: number, scale: number, zero: number): Tensor => {
    const x = call.tensor(at).cast("float32"), z = call.optional(zero);
    const flat = (t: Tensor) => t.size === 1 ? t.reshape([]) : t;
    return (z ? x.sub(flat(z).cast("float32")) : x).mul(flat(call.tensor(scale)));
  };
  const own = { x: float(0, 3, 6), weight: float(1, 4, 7), maskAt: 5, pastAt: 8, biasAt: 9 };
  return selfAttention(call, own);
}

/** Queries, keys and values of their own, or packed: (N, L, heads, 3, features), (N, L, heads, 2, features). */
function parts(call: Call, heads: number): readonly [q: Tensor, k: Tensor, v: Tensor] {
  const given = call.tensor(0), key = call.optional(1), value = call.optional(2);
  const part = (x: Tensor, at: number) => x.slice(null, null, null, at).transpose(1, 2);
  if (given.ndim === 5) return [part(given, 0), part(given, 1), part(given, 2)];
  // One bias for all three.
  const bias = call.optional(3), width = given.shape[2]!;
  const from = (x: Tensor, at: number) => {
    if (x.ndim === 4) return x;
    const size = x.shape[2]!;
    return byHeads(bias ? x.add(bias.slice([at, at + size])) : x, heads);
  };
  const q = from(given, 0);
  if (key?.ndim === 5) return [q, part(key, 0), part(key, 1)];
  if (!key || !value) throw new TypeError("it has queries alone, which is not run");
  return [q, from(key, width), from(value, width + (key.ndim === 3 ? key.shape[2]! : 0))];
}

function multiHeadAttention(call: Call): Tensor[] {
  const [q, k, v] = parts(call, call.int("num_heads", 1)), [n, , l] = q.shape as number[];
  const key = grown(call.optional(6), k), value = grown(call.optional(7), v), keys = key.shape[2]!;
  const out = attended({
    q,
    k: key,
    v: value,
    scale: scaleOf(call, q),
    bias: added(maskBias(call, call.optional(4), n!, keys), call.optional(5)),
    visible: causalOf(call, l!, keys),
  });
  return [out, key, value].slice(0, call.outputs);
}

/** The same as ONNX's own, whose tables come before the places; one place is that of the first row. */
function rotaryEmbedding(call: Call): Tensor {
  const [x, places, cos, sin] = [0, 1, 2, 3].map((k) => call.value(k));
  const { tensor } = x!, l = tensor.shape[tensor.ndim === 4 ? 2 : 1]!, n = tensor.shape[0]!;
  const given = places!.tensor.cast("int64");
  const each = given.size === 1 && l * n > 1
    ? Tensor.arange(0, l, 1, { dtype: "int64" }).add(given.reshape([1])).expand([n, l])
    : given.reshape([n, l]);
  const half = cos!.shape[1]!, features = tensor.ndim === 4 ? tensor.shape[3]! : 0;
  const heads = call.int("num_heads", 0) ||
    (features ? 1 : tensor.shape[2]! / (call.int("rotary_embedding_dim", 0) || 2 * half));
  const own = byHeads(tensor, heads);
  const at = ({ tensor: table }: { tensor: Tensor }) => table.embedding(each).unsqueeze(1);
  const isInterleaved = call.int("interleaved", 0) === 1;
  const out = rotated(own, { cos: at(cos!), sin: at(sin!), isInterleaved });
  return features ? out : withoutHeads(out);
}

/** Queries, keys and values of heads in groups, which may come in one tensor. */
function groupedParts(call: Call): [q: Tensor, k: Tensor, v: Tensor] {
  const heads = call.int("num_heads", 1), groups = call.int("kv_num_heads", 1);
  const given = call.tensor(0);
  if (call.has(1)) {
    return [
      byHeads(given, heads),
      byHeads(call.tensor(1), groups),
      byHeads(call.tensor(2), groups),
    ];
  }
  const features = given.shape[2]! / (heads + 2 * groups);
  const [q, k, v] = given.split([heads, groups, groups].map((count) => count * features), 2);
  return [byHeads(q!, heads), byHeads(k!, groups), byHeads(v!, groups)];
}

/** Keys, or values, at their places: those of the past up to its length, then those that are new. */
function placed(past: Tensor | null, now: Tensor, begins: Tensor, total: number): Tensor {
  if (!past && total === now.shape[2]!) return now;
  const [n, heads, l, features] = now.shape as [number, number, number, number];
  const place = Tensor.arange(0, total, 1, { dtype: "int64" }).sub(begins.reshape([-1, 1]));
  const at = place.clamp(0, l - 1).reshape([n, 1, total, 1]).expand([n, heads, total, features]);
  const fresh = now.gather(2, at);
  if (!past) return fresh;
  const missing = total - past.shape[2]!;
  const old = missing > 0 ? past.pad([[0, 0], [0, 0], [0, missing], [0, 0]], 0) : past;
  const isNew = place.ge(0).logicalAnd(place.lt(l)).reshape([n, 1, total, 1]);
  return isNew.where(fresh, old);
}

/**
 * Attention of decoders whose heads of queries share those of keys: turned by their places, behind a past
 * whose length may be another in each sequence.
 */
function groupedAttention(call: Call): Tensor[] {
  if (call.has(11)) throw new TypeError("it has sinks of heads, which are not run");
  const [given, k, v] = groupedParts(call), [n, , l] = given.shape as [number, number, number];
  const past = call.optional(3), length = past?.shape[2] ?? 0;
  // A first run begins at place 0, with sequences that may end before the longest.
  const wanted = call.value(6).isOnHost ? call.number(6, 0) : length + l;
  const total = Math.max(length, wanted), isFirst = wanted === l;
  const lengths = call.tensor(5).cast("int64").reshape([n]).add(1);
  const begins = isFirst ? lengths.zerosLike() : lengths.sub(l);
  const own = Tensor.arange(0, l, 1, { dtype: "int64" }).add(begins.reshape([n, 1]));
  const turn = turning(call, own);
  const q = turn(given), key = placed(past, turn(k), begins, total);
  const value = placed(call.optional(4), v, begins, total);
  const at = Tensor.arange(0, total, 1, { dtype: "int64" }), place = own.reshape([n, 1, l, 1]);
  const window = call.int("local_window_size", -1), before = at.le(place);
  const visible = window > 0 ? before.logicalAnd(at.gt(place.sub(window))) : before;
  const bias = call.optional(10), softcap = call.float("softcap", 0);
  const scale = scaleOf(call, q);
  const out = attended({ q, k: key, v: value, scale, bias, visible, softcap });
  return [out, key, value].slice(0, call.outputs);
}

/** The rotation of queries and keys by their places; none where the node asks for none. */
function turning(call: Call, places: Tensor): (x: Tensor) => Tensor {
  if (call.int("do_rotary", 0) === 0) return (x) => x;
  const own = call.optional(9)?.cast("int64").reshape(places.shape) ?? places.maximum(0);
  const [cos, sin] = [7, 8].map((k) => call.tensor(k).embedding(own).unsqueeze(1));
  const isInterleaved = call.int("rotary_interleaved", 0) === 1;
  return (x) => rotated(x, { cos: cos!, sin: sin!, isInterleaved });
}

/** Attention, by its kinds. */
export const contributedAttention: Operators = {
  Attention: (call) =>
    selfAttention(call, {
      x: call.tensor(0),
      weight: call.tensor(1),
      maskAt: 3,
      pastAt: 4,
      biasAt: 5,
    }),
  QAttention: quantizedAttention,
  MultiHeadAttention: multiHeadAttention,
  GroupQueryAttention: groupedAttention,
  RotaryEmbedding: rotaryEmbedding,
};
