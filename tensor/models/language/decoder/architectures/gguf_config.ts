import type { GgufFile } from "../../../../io/gguf/gguf.ts";
import type { RawConfig } from "./config.ts";

/** The header's names, behind that of the architecture, and those of config.json for them. */
const names: Readonly<Record<string, string>> = {
  "context_length": "max_position_embeddings",
  "embedding_length": "hidden_size",
  "block_count": "num_hidden_layers",
  "feed_forward_length": "intermediate_size",
  "attention.head_count": "num_attention_heads",
  "attention.head_count_kv": "num_key_value_heads",
  "attention.key_length": "head_dim",
  "attention.layer_norm_rms_epsilon": "rms_norm_eps",
  "attention.layer_norm_epsilon": "layer_norm_epsilon",
  "attention.sliding_window": "sliding_window",
  "attn_logit_softcapping": "attn_logit_softcapping",
  "final_logit_softcapping": "final_logit_softcapping",
  "attention.scale": "attention_multiplier",
  "embedding_scale": "embedding_multiplier",
  "residual_scale": "residual_multiplier",
  "logit_scale": "logit_scale",
  "use_parallel_residual": "use_parallel_residual",
  "expert_count": "num_local_experts",
  "expert_used_count": "num_experts_per_tok",
  "expert_feed_forward_length": "moe_intermediate_size",
  "rope.freq_base": "rope_theta",
  "rope.freq_base_swa": "local_rope_theta",
  "rope.dimension_count": "rotary_dim",
  "hidden_act": "hidden_act",
  "attention.causal": "is_causal",
  "pooling_type": "pooling_type",
};

/** The configuration of a GGUF file under the names of config.json. */
export async function ggufConfig(file: GgufFile): Promise<RawConfig> {
  const { metadata, tensors } = file, type = String(metadata["general.architecture"]);
  const config: Record<string, unknown> = { model_type: type };
  for (const [theirs, ours] of Object.entries(names)) {
    const value = metadata[`${type}.${theirs}`];
    if (value !== undefined) config[ours] = value;
  }
  const near = metadata[`${type}.attention.sliding_window_pattern`];
  if (Array.isArray(near)) {
    config.layer_types = near.map((isNear) => isNear ? "sliding_attention" : "full_attention");
  } else if (near !== undefined) config.sliding_window_pattern = near;
  const vectors = tensors.get("token_embd.weight");
  config.vocab_size = vectors?.shape[0];
  config.tie_word_embeddings = !tensors.has("output.weight");
  const ids = ["eos", "eot", "eom"].map((name) => metadata[`tokenizer.ggml.${name}_token_id`]);
  config.eos_token_id = ids.filter((id) => id !== undefined);
  config.rope_parameters = await positionsOf(file, type);
  return config;
}

/** Scaling of positions. */
async function positionsOf(file: GgufFile, type: string): Promise<RawConfig> {
  const { metadata, tensors } = file;
  const key = (name: string) => metadata[`${type}.rope.scaling.${name}`];
  const numbers = async (name: string) => [...(await file.decode(name)).data as Float32Array];
  if (tensors.has("rope_factors_long.weight")) {
    return {
      rope_type: "longrope",
      long_factor: await numbers("rope_factors_long.weight"),
      short_factor: await numbers("rope_factors_short.weight"),
      original_max_position_embeddings: key("original_context_length"),
      attention_factor: key("attn_factor"),
    };
  }
  if (tensors.has("rope_freqs.weight")) {
    return { rope_type: "factors", factors: await numbers("rope_freqs.weight") };
  }
  const kind = key("type") ?? "none";
  return kind === "none" ? {} : {
    rope_type: kind,
    factor: key("factor"),
    original_max_position_embeddings: key("original_context_length"),
    beta_fast: key("yarn_beta_fast"),
    beta_slow: key("yarn_beta_slow"),
  };
}
