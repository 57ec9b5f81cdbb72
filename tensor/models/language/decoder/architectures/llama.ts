/** Llama's kin: norms by root mean squares in front of attention and gated feed-forward layers, or behind them. */
import type { ConfigReader, DecoderConfig } from "./config.ts";
import {
  apartExperts,
  type Architecture,
  type ExpertNames,
  llamaLayer,
  llamaOuter,
  normedHeads,
} from "./architecture.ts";
import {
  allButEach,
  nearLayers,
  nearRotate,
  twoRotations,
  upperWindows,
  windowed,
  withWindows,
} from "./layers.ts";

/** Norms stand behind attention and feed-forward layers alone. */
const { attentionNorm: _, mlpNorm: __, ...bareLayer } = llamaLayer;
const endedLayer = {
  ...bareLayer,
  ...normedHeads,
  attentionEnd: "post_attention_layernorm",
  mlpEnd: "post_feedforward_layernorm",
} as const;

const { gate: ___, up: ____, ...ungatedLayer } = llamaLayer;
/** One matrix for the gate and what it lets through. */
const glmLayer = { ...ungatedLayer, gateUp: "mlp.gate_up_proj" } as const;

const glmDefaults = {
  partial_rotary_factor: 0.5,
  num_key_value_heads: 2,
  head_dim: 128,
  attention_bias: true,
} as const;

/** Layers of SmolLM3: each fourth, or those of a list, do not rotate positions. */
function smollm3(reader: ConfigReader, plain: DecoderConfig): Partial<DecoderConfig> {
  const { raw } = reader, turning = raw.no_rope_layers;
  const turns = allButEach(reader.optional("no_rope_layer_interval") ?? 4);
  const isTurning = (k: number) => Array.isArray(turning) ? turning[k] === 1 : turns(k);
  const window = raw.use_sliding_window === true ? reader.optional("sliding_window") : null;
  const near = nearLayers(reader, plain, () => false);
  const { layers = plain.layers } = withWindows(plain, window, near);
  return { layers: layers.map((own, k) => isTurning(k) ? own : { ...own, rotary: null }) };
}

/** Olmo 3 has windows, in layers that rotate positions without a stretch. */
function olmo(reader: ConfigReader, plain: DecoderConfig): Partial<DecoderConfig> {
  const { raw } = reader, headNorms = "all";
  const window = reader.either("sliding_window", raw.model_type === "olmo3" ? 4096 : null);
  if (window === null) return { headNorms };
  const near = nearLayers(reader, plain, allButEach(4));
  const { sliding_attention: isApart } = (raw.rope_parameters ?? {}) as Record<string, unknown>;
  const nearRaw = isApart ? raw : { rope_theta: raw.rope_theta };
  return { headNorms, ...twoRotations(reader, plain, window, near, nearRaw) };
}

const mixtralExperts: ExpertNames = {
  parts: {
    router: "block_sparse_moe.gate",
    gate: "block_sparse_moe.experts.*.w1",
    up: "block_sparse_moe.experts.*.w3",
    down: "block_sparse_moe.experts.*.w2",
  },
};

const granite: Architecture = {
  types: ["granite"],
  layer: llamaLayer,
  outer: llamaOuter,
  hasPairs: true,
  config: (reader, { attentionScale }) => ({
    embeddingScale: reader.optional("embedding_multiplier") ?? 1,
    attentionScale: reader.optional("attention_multiplier") ?? attentionScale,
    residualScale: reader.optional("residual_multiplier") ?? 1,
    logitScale: 1 / (reader.optional("logits_scaling", "logit_scale") ?? 1),
  }),
};

/** Rows of the table. */
export const llamas: Readonly<Record<string, Architecture>> = {
  llama: {
    types: ["llama"],
    layer: llamaLayer,
    outer: llamaOuter,
    hasPairs: true,
    // GGUF files of Mixtral say that they are llama's.
    experts: mixtralExperts,
    config: windowed,
  },
  mixtral: {
    types: ["mixtral"],
    layer: llamaLayer,
    outer: llamaOuter,
    experts: mixtralExperts,
    defaults: { num_key_value_heads: 8, rms_norm_eps: 1e-5, rope_theta: 1e6 },
    config: windowed,
  },
  mistral: {
    types: ["mistral"],
    layer: llamaLayer,
    outer: llamaOuter,
    defaults: { num_key_value_heads: 8, sliding_window: 4096 },
    config: windowed,
  },
  qwen2: {
    types: ["qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2vl"],
    layer: llamaLayer,
    outer: llamaOuter,
    biases: ["query", "key", "value"],
    config: upperWindows,
  },
  qwen3: {
    types: ["qwen3", "qwen3_vl_text", "qwen3vl"],
    layer: { ...llamaLayer, ...normedHeads },
    outer: llamaOuter,
    defaults: { head_dim: 128 },
    config: upperWindows,
  },
  qwen2_moe: {
    types: ["qwen2_moe", "qwen2moe"],
    layer: llamaLayer,
    outer: llamaOuter,
    experts: {
      parts: {
        ...apartExperts,
        sharedRouter: "mlp.shared_expert_gate",
        sharedGate: "mlp.shared_expert.gate_proj",
        sharedUp: "mlp.shared_expert.up_proj",
        sharedDown: "mlp.shared_expert.down_proj",
      },
      isNormalized: false,
    },
    defaults: { num_key_value_heads: 16, moe_intermediate_size: 1408, num_experts_per_tok: 4 },
    config: upperWindows,
  },
  qwen3_moe: {
    types: ["qwen3_moe", "qwen3moe"],
    layer: { ...llamaLayer, ...normedHeads },
    outer: llamaOuter,
    experts: { parts: apartExperts },
    defaults: { norm_topk_prob: false, moe_intermediate_size: 768, num_experts_per_tok: 8 },
    config: upperWindows,
  },
  olmoe: {
    types: ["olmoe"],
    layer: { ...llamaLayer, ...normedHeads },
    outer: llamaOuter,
    experts: { parts: apartExperts, isNormalized: false },
    defaults: { rms_norm_eps: 1e-5, num_experts_per_tok: 8 },
    config: () => ({ headNorms: "all" }),
  },
  phi3: {
    types: ["phi3"],
    layer: {
      attentionNorm: "input_layernorm",
      queryKeyValue: "self_attn.qkv_proj",
      output: "self_attn.o_proj",
      mlpNorm: "post_attention_layernorm",
      gateUp: "mlp.gate_up_proj",
      down: "mlp.down_proj",
    },
    outer: llamaOuter,
    defaults: { rms_norm_eps: 1e-5 },
    config: windowed,
  },
  smollm3: {
    types: ["smollm3"],
    layer: llamaLayer,
    outer: llamaOuter,
    hasPairs: true,
    defaults: { num_key_value_heads: 4, tie_word_embeddings: true, rope_theta: 2e6 },
    config: smollm3,
  },
  granite,
  granitemoe: {
    ...granite,
    types: ["granitemoe", "granitemoeshared"],
    experts: {
      parts: {
        router: "block_sparse_moe.router.layer",
        gateUp: "block_sparse_moe.input_linear",
        down: "block_sparse_moe.output_linear",
        sharedGateUp: "shared_mlp.input_linear",
        sharedDown: "shared_mlp.output_linear",
      },
    },
    defaults: { attention_multiplier: 1 },
  },
  // GGUF files call both olmo2.
  olmo2: {
    types: ["olmo2", "olmo3"],
    layer: endedLayer,
    outer: llamaOuter,
    defaults: { rms_norm_eps: 1e-5 },
    config: olmo,
  },
  exaone4: {
    types: ["exaone4"],
    layer: endedLayer,
    outer: llamaOuter,
    defaults: { rms_norm_eps: 1e-5, sliding_window: 4096 },
    config: nearRotate,
  },
  seed_oss: {
    types: ["seed_oss"],
    layer: llamaLayer,
    outer: llamaOuter,
    gguf: { mlpNorm: "post_attention_norm" },
    defaults: { head_dim: 128, attention_bias: true, num_key_value_heads: 8 },
    hasOutputBias: false,
  },
  hunyuan: {
    types: ["hunyuan_v1_dense", "hunyuan-dense"],
    layer: {
      ...llamaLayer,
      queryNorm: "self_attn.query_layernorm",
      keyNorm: "self_attn.key_layernorm",
    },
    outer: llamaOuter,
    defaults: { rms_norm_eps: 1e-5 },
    config: () => ({ normsTurned: true }),
  },
  ernie4_5: {
    types: ["ernie4_5"],
    layer: llamaLayer,
    outer: llamaOuter,
    defaults: { head_dim: 128, rms_norm_eps: 1e-5, rope_theta: 500_000 },
    config: () => ({ isInterleaved: true }),
  },
  helium: {
    types: ["helium"],
    layer: llamaLayer,
    outer: llamaOuter,
    defaults: { head_dim: 128, rms_norm_eps: 1e-8, rope_theta: 100_000 },
    config: () => ({ isInterleaved: true }),
  },
  glm: {
    types: ["glm"],
    layer: glmLayer,
    outer: llamaOuter,
    defaults: { ...glmDefaults, rms_norm_eps: 1.5625e-7 },
    hasOutputBias: false,
    config: () => ({ isInterleaved: true }),
  },
  glm4: {
    types: ["glm4"],
    layer: {
      ...glmLayer,
      attentionEnd: "post_self_attn_layernorm",
      mlpEnd: "post_mlp_layernorm",
    },
    outer: llamaOuter,
    defaults: { ...glmDefaults, attention_bias: false, rms_norm_eps: 1.5625e-7 },
    hasOutputBias: false,
    config: () => ({ isInterleaved: true }),
  },
};
