/** GPT's kin: norms of layers, mostly with biases; some compute attention and feed-forward layers side by side. */
import type { ConfigReader, DecoderConfig } from "./config.ts";
import { type Architecture, type Difference, llamaLayer, llamaOuter } from "./architecture.ts";
import { nearRotate, windowed } from "./layers.ts";

const gptOuter = {
  embedding: "transformer.wte",
  positions: "transformer.wpe",
  layers: "transformer.h",
  norm: "transformer.ln_f",
  head: "lm_head",
} as const;

const { positions: _, ...turningOuter } = gptOuter;

const gpt2Layer = {
  attentionNorm: "ln_1",
  queryKeyValue: "attn.c_attn",
  output: "attn.c_proj",
  mlpNorm: "ln_2",
  up: "mlp.c_fc",
  down: "mlp.c_proj",
} as const;

const { mlpNorm: __, ...sharedNormLayer } = llamaLayer;
/** Layers without a gate. */
const { gate: ___, ...ungatedLayer } = llamaLayer;

const allBiases = ["queryKeyValue", "query", "key", "value", "output", "up", "down"] as const;

/** The layer's share of scores, and none of their usual scale where a configuration says so. */
const gpt2Scales: Difference = ({ raw }, { layers, attentionScale }) => {
  const scale = raw.scale_attn_weights === false ? 1 : attentionScale;
  const share = (k: number) => raw.scale_attn_by_inverse_layer_idx === true ? 1 / (k + 1) : 1;
  return {
    norm: "layer",
    layers: layers.map((layer, k) => ({ ...layer, attentionScale: scale * share(k) })),
  };
};

/** Heads of keys: one for all queries, unless a configuration says otherwise. */
function keyHeads({ raw }: ConfigReader, { heads, keyHeads }: DecoderConfig): number {
  if (raw.num_key_value_heads !== undefined) return keyHeads;
  return raw.multi_query === false ? heads : 1;
}

const cohereDifference: Difference = (reader) => ({
  norm: "layer",
  isParallel: true,
  isInterleaved: true,
  logitScale: reader.optional("logit_scale") ?? 1,
});

const cohere: Architecture = {
  types: ["cohere", "command-r"],
  layer: sharedNormLayer,
  outer: llamaOuter,
  hasPlainNorms: true,
  defaults: { logit_scale: 0.0625, tie_word_embeddings: true },
  config: cohereDifference,
};

/** Rows of the table. */
export const gpts: Readonly<Record<string, Architecture>> = {
  gpt_bigcode: {
    types: ["gpt_bigcode", "starcoder"],
    layer: gpt2Layer,
    outer: gptOuter,
    isGrouped: true,
    activation: "gelu_pytorch_tanh",
    biases: allBiases,
    defaults: { layer_norm_epsilon: 1e-5, tie_word_embeddings: true },
    config: (reader, plain) => ({
      ...gpt2Scales(reader, plain),
      keyHeads: keyHeads(reader, plain),
    }),
  },
  gpt_neo: {
    types: ["gpt_neo"],
    layer: {
      attentionNorm: "ln_1",
      query: "attn.attention.q_proj",
      key: "attn.attention.k_proj",
      value: "attn.attention.v_proj",
      output: "attn.attention.out_proj",
      mlpNorm: "ln_2",
      up: "mlp.c_fc",
      down: "mlp.c_proj",
    },
    outer: gptOuter,
    activation: "gelu_new",
    biases: ["output", "up", "down"],
    defaults: { layer_norm_epsilon: 1e-5, tie_word_embeddings: true, window_size: 256 },
    config: (reader, { layers }) => {
      const kinds = localLayers(reader), window = reader.optional("window_size");
      return {
        norm: "layer",
        attentionScale: 1,
        layers: layers.map((layer, k) => kinds[k] === "local" ? { ...layer, window } : layer),
      };
    },
  },
  gptj: {
    types: ["gptj"],
    layer: {
      attentionNorm: "ln_1",
      query: "attn.q_proj",
      key: "attn.k_proj",
      value: "attn.v_proj",
      output: "attn.out_proj",
      up: "mlp.fc_in",
      down: "mlp.fc_out",
    },
    outer: turningOuter,
    activation: "gelu_new",
    biases: ["up", "down"],
    defaults: { layer_norm_epsilon: 1e-5, rotary_dim: 64 },
    config: () => ({ norm: "layer", isParallel: true, isInterleaved: true }),
  },
  gpt_neox: {
    types: ["gpt_neox", "gptneox"],
    layer: {
      attentionNorm: "input_layernorm",
      queryKeyValue: "attention.query_key_value",
      output: "attention.dense",
      mlpNorm: "post_attention_layernorm",
      up: "mlp.dense_h_to_4h",
      down: "mlp.dense_4h_to_h",
    },
    outer: {
      embedding: "gpt_neox.embed_in",
      layers: "gpt_neox.layers",
      norm: "gpt_neox.final_layer_norm",
      head: "embed_out",
    },
    isGrouped: true,
    activation: "gelu",
    biases: ["up", "down"],
    defaults: { layer_norm_eps: 1e-5, rotary_pct: 0.25, attention_bias: true },
    config: ({ raw }, { heads }) => ({
      norm: "layer",
      keyHeads: heads,
      isParallel: raw.use_parallel_residual !== false,
    }),
  },
  falcon: {
    types: ["falcon"],
    layer: {
      attentionNorm: ["input_layernorm", "ln_attn"],
      queryKeyValue: "self_attention.query_key_value",
      output: "self_attention.dense",
      mlpNorm: ["post_attention_layernorm", "ln_mlp"],
      up: "mlp.dense_h_to_4h",
      down: "mlp.dense_4h_to_h",
    },
    optional: ["mlpNorm"],
    // Those of one norm have it for both parts.
    gguf: { attentionNorm: ["attn_norm_2", "attn_norm"], mlpNorm: "attn_norm" },
    outer: { ...turningOuter, embedding: "transformer.word_embeddings" },
    isGrouped: true,
    activation: "gelu",
    defaults: {
      layer_norm_epsilon: 1e-5,
      max_position_embeddings: 2048,
      tie_word_embeddings: true,
    },
    config: (reader, plain) => {
      const { raw } = reader, isNew = raw.new_decoder_architecture === true;
      const kept = isNew ? reader.size("num_kv_heads") : keyHeads(reader, plain);
      const isParallel = isNew || raw.parallel_attn !== false;
      return { norm: "layer", keyHeads: kept, isParallel };
    },
  },
  opt: {
    types: ["opt"],
    layer: {
      attentionNorm: "self_attn_layer_norm",
      query: "self_attn.q_proj",
      key: "self_attn.k_proj",
      value: "self_attn.v_proj",
      output: "self_attn.out_proj",
      mlpNorm: "final_layer_norm",
      up: "fc1",
      down: "fc2",
    },
    outer: {
      embedding: "model.decoder.embed_tokens",
      positions: "model.decoder.embed_positions",
      layers: "model.decoder.layers",
      norm: "model.decoder.final_layer_norm",
      head: "lm_head",
    },
    activation: "relu",
    defaults: { layer_norm_eps: 1e-5, tie_word_embeddings: true },
    config: () => ({ norm: "layer", firstPosition: 2 }),
  },
  phi: {
    types: ["phi", "phi2"],
    layer: {
      attentionNorm: "input_layernorm",
      query: "self_attn.q_proj",
      key: "self_attn.k_proj",
      value: "self_attn.v_proj",
      output: "self_attn.dense",
      queryNorm: "self_attn.q_layernorm",
      keyNorm: "self_attn.k_layernorm",
      up: "mlp.fc1",
      down: "mlp.fc2",
    },
    optional: ["queryNorm", "keyNorm"],
    outer: { ...llamaOuter, norm: "model.final_layernorm" },
    activation: "gelu_new",
    biases: allBiases.slice(1),
    defaults: { layer_norm_eps: 1e-5, partial_rotary_factor: 0.5 },
    config: () => ({ norm: "layer", isParallel: true }),
  },
  stablelm: {
    types: ["stablelm"],
    layer: llamaLayer,
    optional: ["mlpNorm"],
    outer: llamaOuter,
    defaults: { layer_norm_eps: 1e-5, partial_rotary_factor: 0.25 },
    config: ({ raw }) => ({ norm: "layer", isParallel: raw.use_parallel_residual === true }),
  },
  starcoder2: {
    types: ["starcoder2"],
    layer: { ...ungatedLayer, up: "mlp.c_fc", down: "mlp.c_proj" },
    outer: llamaOuter,
    activation: "gelu_pytorch_tanh",
    defaults: { norm_epsilon: 1e-5, num_key_value_heads: 2, tie_word_embeddings: true },
    config: (reader, plain) => ({ norm: "layer", ...windowed(reader, plain) }),
  },
  nemotron: {
    types: ["nemotron"],
    layer: ungatedLayer,
    outer: llamaOuter,
    normOffset: 1,
    activation: "relu2",
    defaults: { norm_eps: 1e-5, partial_rotary_factor: 0.5 },
    config: () => ({ norm: "layer" }),
  },
  cohere,
  cohere2: {
    ...cohere,
    types: ["cohere2"],
    defaults: { ...cohere.defaults, sliding_window: 4096 },
    config: (reader, plain) => ({
      ...cohereDifference(reader, plain),
      ...nearRotate(reader, plain),
    }),
  },
  gpt2: {
    types: ["gpt2"],
    layer: gpt2Layer,
    outer: gptOuter,
    isTransposed: true,
    activation: "gelu_new",
    biases: allBiases,
    defaults: { layer_norm_epsilon: 1e-5, tie_word_embeddings: true },
    config: gpt2Scales,
  },
};

/** The kinds of GPT-Neo's layers: a list, or lists of kinds that repeat. */
function localLayers({ raw }: ConfigReader): unknown[] {
  if (Array.isArray(raw.attention_layers)) return raw.attention_layers;
  const kinds = raw.attention_types as readonly (readonly [readonly unknown[], number])[];
  return (kinds ?? []).flatMap(([own, times]) => Array.from({ length: times }, () => own).flat());
}
