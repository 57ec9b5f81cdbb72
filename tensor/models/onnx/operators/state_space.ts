/** Layers that carry a state from one place of a sequence to the next: linear attention, short convolutions. */
import { Tensor } from "../../../class/tensor.ts";
import type { Call, Operators } from "../core/call.ts";
import { byHeads, withoutHeads } from "./attention.ts";

/** A convolution of each channel with what came before; the last places are its state. */
function causalConvolution(call: Call): Tensor[] {
  const x = call.tensor(0), w = call.tensor(1), [n, c, l] = x.shape as [number, number, number];
  const before = w.shape[2]! - 1, past = call.optional(3) ?? x.zerosLike([n, c, before]);
  const all = Tensor.concat([past, x], 2), bias = call.optional(2);
  // Few taps: sums of shifted products, which one kernel computes.
  const terms = Array.from(
    { length: before + 1 },
    (_, k) => all.slice(null, null, [k, k + l]).mul(w.slice(null, 0, [k, k + 1])),
  );
  const sum = terms.reduce((a, b) => a.add(b)), biased = bias ? sum.add(bias.unsqueeze(1)) : sum;
  const name = call.text("activation", "none");
  const out = name === "silu" || name === "swish" ? biased.silu() : biased;
  return [out, all.slice(null, null, [l, l + before])].slice(0, call.outputs);
}

/**
 * Attention whose memory is one matrix a head: S = exp(g) S + k (b (v - S k)), by the rule without some of
 * these parts (S. Yang et al., Gated Delta Networks, 2024).
 */
function linearAttention(call: Call): Tensor[] {
  // The state adds up over the whole sequence: half types are computed as floats.
  const float = (k: number) => call.tensor(k).cast("float32"), { dtype } = call.tensor(0);
  const heads = call.int("q_num_heads", 1), groups = call.int("kv_num_heads", 1);
  const rule = call.text("update_rule", "gated_delta"), isDelta = rule.endsWith("delta");
  const given = byHeads(float(0), heads), k = byHeads(float(1), groups);
  const v = byHeads(float(2), groups), [n, , l, features] = given.shape as number[];
  const q = given.mul(call.float("scale", 0) || 1 / Math.sqrt(features!));
  const decay = rule.startsWith("gated") ? byHeads(float(4), groups).exp() : null;
  const rate = isDelta ? float(5) : null, shared = heads / groups;
  let state = call.has(3) ? float(3) : k.zerosLike([n!, groups, k.shape[3]!, v.shape[3]!]);
  const outputs = Array.from({ length: l! }, (_, t) => {
    const at = (x: Tensor) => x.slice(null, null, t), key = at(k);
    if (decay) state = state.mul(at(decay).unsqueeze(3));
    const known = isDelta ? key.unsqueeze(2).matmul(state).squeeze(2) : null;
    const news = known ? at(v).sub(known).mul(rate!.slice(null, t).unsqueeze(2)) : at(v);
    state = state.add(key.unsqueeze(3).mul(news.unsqueeze(2)));
    const own = shared === 1 ? state : state.repeatInterleave(shared, 1);
    return at(q).unsqueeze(2).matmul(own);
  });
  const out = withoutHeads(Tensor.concat(outputs, 2));
  return [out, state].map((x) => x.cast(dtype)).slice(0, call.outputs);
}

/** Layers with a state, by their kinds. */
export const stateSpace: Operators = {
  CausalConvWithState: causalConvolution,
  LinearAttention: linearAttention,
};
