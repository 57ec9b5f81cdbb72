/** Gemma's kin: norms behind attention and feed-forward layers, too, and vectors scaled by the width's root. */
import type { ConfigReader, DecoderConfig, RawConfig } from "./config.ts";
import { type Architecture, llamaLayer, llamaOuter, normedHeads } from "./architecture.ts";
import { allButEach, nearLayers, twoRotations, withWindows } from "./layers.ts";

const gemmaLayer = {
  ...llamaLayer,
  attentionEnd: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpEnd: "post_feedforward_layernorm",
} as const;

/** Common part of Gemma 2 and 3. `wideFrom`: from so many layers on, the scale is the width's. */
function gemma(
  reader: ConfigReader,
  plain: DecoderConfig,
  wideFrom: number,
): Partial<DecoderConfig> {
  const perHead = plain.layers.length >= wideFrom ? plain.width / plain.heads : plain.headFeatures;
  return {
    embeddingScale: Math.sqrt(plain.width),
    attentionScale: (reader.optional("query_pre_attn_scalar") ?? perHead) ** -0.5,
    logitCap: reader.optional("final_logit_softcapping"),
  };
}

const gemmaDefaults = {
  head_dim: 256,
  num_key_value_heads: 4,
  query_pre_attn_scalar: 256,
  tie_word_embeddings: true,
} as const;

/** Gemma and its successors. */
export const gemmas: Readonly<Record<string, Architecture>> = {
  gemma: {
    types: ["gemma"],
    layer: llamaLayer,
    outer: llamaOuter,
    normOffset: 1,
    activation: "gelu_pytorch_tanh",
    defaults: { head_dim: 256, tie_word_embeddings: true },
    config: (_, { width }) => ({ embeddingScale: Math.sqrt(width) }),
  },
  gemma2: {
    types: ["gemma2"],
    layer: gemmaLayer,
    outer: llamaOuter,
    normOffset: 1,
    activation: "gelu_pytorch_tanh",
    defaults: { ...gemmaDefaults, attn_logit_softcapping: 50, final_logit_softcapping: 30 },
    config: (reader, plain) => {
      const window = reader.either("sliding_window", 4096);
      return {
        ...gemma(reader, plain, 46),
        attentionCap: reader.optional("attn_logit_softcapping"),
        ...withWindows(plain, window, nearLayers(reader, plain, (k) => k % 2 === 0)),
      };
    },
  },
  gemma3: {
    types: ["gemma3", "gemma3_text", "gemma-embedding"],
    layer: { ...gemmaLayer, ...normedHeads },
    outer: llamaOuter,
    normOffset: 1,
    activation: "gelu_pytorch_tanh",
    // Larger ones leave out what is as here.
    defaults: {
      ...gemmaDefaults,
      sliding_window: 4096,
      rope_theta: 1e6,
      vocab_size: 262_208,
      num_attention_heads: 8,
      max_position_embeddings: 131_072,
    },
    config: (reader, plain) => {
      const { raw } = reader, looksAhead = plain.looksAhead || raw.model_type === "gemma-embedding";
      const width = reader.optional("sliding_window");
      // Half of it on either side, and the position itself.
      const window = looksAhead && width !== null ? Math.floor(width / 2) + 1 : width;
      const period = reader.optional("sliding_window_pattern", "_sliding_window_pattern") ?? 6;
      const near = nearLayers(reader, plain, allButEach(period));
      const parameters = raw.rope_parameters as RawConfig | undefined;
      const nearRaw = parameters?.sliding_attention ? raw : {
        rope_theta: reader.optional("rope_local_base_freq", "local_rope_theta") ?? 10_000,
      };
      return {
        looksAhead,
        ...gemma(reader, plain, 62),
        ...twoRotations(reader, plain, window, near, nearRaw),
      };
    },
  },
};
