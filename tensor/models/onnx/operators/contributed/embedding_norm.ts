/** The first layer of an encoder: embeddings of words, places and segments, added up and normalized. */
import { Tensor } from "../../../../class/tensor.ts";
import { type Call, typed } from "../../core/call.ts";
import type { Value } from "../../core/value.ts";

/** Gives the norm, the length of each sequence by its mask, and the sum before the norm. */
export function embeddingNorm(call: Call): (Tensor | Value)[] {
  const ids = call.tensor(0), [n, l] = ids.shape as [number, number];
  const places = call.optional(8) ?? Tensor.arange(0, l, 1, { dtype: "int64" });
  const words = call.tensor(2).embedding(ids).add(call.tensor(3).embedding(places));
  const segments = call.optional(1), table = call.optional(4);
  const sum = segments && table ? words.add(table.embedding(segments)) : words;
  const centered = sum.sub(sum.mean(-1, { keepDims: true }));
  const variance = centered.square().mean(-1, { keepDims: true });
  const inverse = variance.add(call.float("epsilon", 1e-12)).rsqrt();
  const out = centered.mul(inverse).mul(call.tensor(5)).add(call.tensor(6)),
    mask = call.optional(7);
  const lengths = mask ? mask.sum(1).cast("int32") : Tensor.zeros([n], { dtype: "int32" });
  return [out, typed(lengths, "int32"), sum].slice(0, call.outputs);
}
