/**
 * The architectures that are read, one row each: what their files call things, and in what they differ
 * from Llama. To add one, see CONTRIBUTING.md.
 */
import { ConfigReader, type DecoderConfig, type LayerConfig, type RawConfig } from "./config.ts";
import { rotaryOf } from "./rotary_config.ts";

/** A part of a layer. */
export type LayerPart =
  | "attentionNorm"
  | "query"
  | "key"
  | "value"
  | "queryKeyValue"
  | "queryNorm"
  | "keyNorm"
  | "output"
  | "attentionEnd"
  | "mlpNorm"
  | "gate"
  | "up"
  | "gateUp"
  | "down"
  | "mlpEnd";

/** A part outside of the layers. */
export type OuterPart = "embedding" | "positions" | "norm" | "head";

/** One row of the table. */
export interface Architecture {
  /** The names of `model_type` in config.json, and of `general.architecture` in GGUF files. */
  readonly types: readonly string[];
  /** The parts of a layer, by what their tensors are called there, without "weight". */
  readonly layer: Readonly<Partial<Record<LayerPart, string>>>;
  /** The other parts. */
  readonly outer: Readonly<Partial<Record<OuterPart | "layers", string>>>;
  /** Names of parts in GGUF files that differ from {@linkcode ggufLayer}. */
  readonly gguf?: Readonly<Partial<Record<LayerPart, string>>>;
  /** True where matrices lie transposed in safetensors files. */
  readonly isTransposed?: boolean;
  /** Number added to the weights of norms in safetensors files; GGUF files have it added. */
  readonly normOffset?: number;
  /** True where GGUF files have the features of queries and keys that are rotated together side by side. */
  readonly hasPairs?: boolean;
  /** Differences from Llama's configuration. */
  readonly config?: (reader: ConfigReader, plain: DecoderConfig) => Partial<DecoderConfig>;
}

const llamaLayer = {
  attentionNorm: "input_layernorm",
  query: "self_attn.q_proj",
  key: "self_attn.k_proj",
  value: "self_attn.v_proj",
  output: "self_attn.o_proj",
  mlpNorm: "post_attention_layernorm",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
} as const;

const normedHeads = { queryNorm: "self_attn.q_norm", keyNorm: "self_attn.k_norm" } as const;

const gemmaLayer = {
  ...llamaLayer,
  attentionEnd: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpEnd: "post_feedforward_layernorm",
} as const;

const llamaOuter = {
  embedding: "model.embed_tokens",
  layers: "model.layers",
  norm: "model.norm",
  head: "lm_head",
} as const;

/** The parts of a layer in GGUF files, behind "blk.N.". */
export const ggufLayer: Readonly<Record<LayerPart, string>> = {
  attentionNorm: "attn_norm",
  query: "attn_q",
  key: "attn_k",
  value: "attn_v",
  queryKeyValue: "attn_qkv",
  queryNorm: "attn_q_norm",
  keyNorm: "attn_k_norm",
  output: "attn_output",
  attentionEnd: "post_attention_norm",
  mlpNorm: "ffn_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  gateUp: "ffn_up",
  down: "ffn_down",
  mlpEnd: "post_ffw_norm",
};

/** The other parts in GGUF files. */
export const ggufOuter: Readonly<Record<OuterPart, string>> = {
  embedding: "token_embd",
  positions: "position_embd",
  norm: "output_norm",
  head: "output",
};

/** Layers that see a window of positions, and others that see all, in turn: every `period`-th sees all. */
function windows(
  { raw }: ConfigReader,
  { layers }: DecoderConfig,
  window: number | null,
  period: number,
): boolean[] {
  const kinds = raw.layer_types;
  return layers.map((_, k) =>
    window !== null &&
    (Array.isArray(kinds) ? kinds[k] === "sliding_attention" : (k + 1) % period !== 0)
  );
}

/** Common part of both Gemmas. `wideFrom`: from so many layers on, the scale is the width's. */
function gemma(
  reader: ConfigReader,
  plain: DecoderConfig,
  wideFrom: number,
): Partial<DecoderConfig> {
  const perHead = plain.layers.length >= wideFrom ? plain.width / plain.heads : plain.headFeatures;
  return {
    activation: "geluTanh",
    embeddingScale: Math.sqrt(plain.width),
    attentionScale: (reader.optional("query_pre_attn_scalar") ?? perHead) ** -0.5,
  };
}

/** The table. */
export const architectures: Readonly<Record<string, Architecture>> = {
  llama: {
    types: ["llama", "mistral"],
    layer: llamaLayer,
    outer: llamaOuter,
    hasPairs: true,
    config: (reader, { layers }) => ({
      layers: layers.map((layer) => ({ ...layer, window: reader.optional("sliding_window") })),
    }),
  },
  qwen2: { types: ["qwen2"], layer: llamaLayer, outer: llamaOuter },
  qwen3: { types: ["qwen3"], layer: { ...llamaLayer, ...normedHeads }, outer: llamaOuter },
  gemma2: {
    types: ["gemma2"],
    layer: gemmaLayer,
    outer: llamaOuter,
    normOffset: 1,
    config: (reader, plain) => {
      const window = reader.optional("sliding_window") ?? 4096;
      const isWindow = windows(reader, plain, window, 2);
      return {
        ...gemma(reader, plain, 46),
        attentionCap: reader.optional("attn_logit_softcapping") ?? 50,
        logitCap: reader.optional("final_logit_softcapping") ?? 30,
        layers: plain.layers.map((layer, k) => ({ ...layer, window: isWindow[k] ? window : null })),
      };
    },
  },
  gemma3: {
    types: ["gemma3", "gemma3_text"],
    layer: { ...gemmaLayer, ...normedHeads },
    outer: llamaOuter,
    normOffset: 1,
    config: (reader, plain) => {
      const { raw } = reader, window = reader.optional("sliding_window");
      const period = reader.optional("sliding_window_pattern", "_sliding_window_pattern") ?? 6;
      const isWindow = windows(reader, plain, window, period);
      const parameters = raw.rope_parameters as RawConfig | undefined;
      const near = parameters?.sliding_attention ? raw : {
        rope_theta: reader.optional("rope_local_base_freq") ?? 10_000,
      };
      const rotary = (source: RawConfig, kind: string) =>
        rotaryOf(source, plain.headFeatures, plain.contextLength, kind);
      const far: LayerConfig = { window: null, rotary: rotary(raw, "full_attention") };
      const local: LayerConfig = { window, rotary: rotary(near, "sliding_attention") };
      return { ...gemma(reader, plain, 62), layers: isWindow.map((is) => is ? local : far) };
    },
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
    config: (reader, { layers }) => ({
      layers: layers.map((layer) => ({ ...layer, window: reader.optional("sliding_window") })),
    }),
  },
  gpt2: {
    types: ["gpt2"],
    layer: {
      attentionNorm: "ln_1",
      queryKeyValue: "attn.c_attn",
      output: "attn.c_proj",
      mlpNorm: "ln_2",
      up: "mlp.c_fc",
      down: "mlp.c_proj",
    },
    outer: {
      embedding: "transformer.wte",
      positions: "transformer.wpe",
      layers: "transformer.h",
      norm: "transformer.ln_f",
      head: "lm_head",
    },
    isTransposed: true,
    config: (_, { layers }) => ({
      norm: "layer",
      activation: "geluTanh",
      layers: layers.map(() => ({ window: null, rotary: null })),
    }),
  },
};

/**
 * The row of a model.
 *
 * @throws {TypeError} When there is none.
 */
export function architectureOf(type: unknown): Architecture {
  const found = Object.values(architectures).find(({ types }) => types.includes(String(type)));
  if (found) return found;
  const known = Object.values(architectures).flatMap(({ types }) => types).join(", ");
  throw new TypeError(
    `Cannot load a model of architecture ${JSON.stringify(type)}: netcl reads ${known}`,
  );
}

const activations: Readonly<Record<string, DecoderConfig["activation"]>> = {
  silu: "silu",
  gelu: "gelu",
  gelu_new: "geluTanh",
  gelu_pytorch_tanh: "geluTanh",
};

/** The sizes and choices of a model, from its configuration. */
export function decoderConfig(row: Architecture, raw: RawConfig): DecoderConfig {
  const reader = new ConfigReader(raw);
  const width = reader.size("hidden_size", "n_embd"),
    heads = reader.size("num_attention_heads", "n_head");
  const headFeatures = reader.optional("head_dim") ?? width / heads;
  const contextLength = reader.size("max_position_embeddings", "n_positions");
  const named = raw.hidden_activation ?? raw.hidden_act ?? raw.activation_function ?? "silu";
  const activation = activations[String(named)];
  if (!activation) throw new TypeError(`Cannot load a model with the activation "${named}"`);
  const layer = { window: null, rotary: null };
  const plain: DecoderConfig = {
    vocabulary: reader.size("vocab_size"),
    width,
    heads,
    keyHeads: reader.optional("num_key_value_heads") ?? heads,
    headFeatures,
    contextLength,
    norm: "rms",
    eps: reader.optional("rms_norm_eps", "layer_norm_epsilon") ?? 1e-6,
    activation,
    embeddingScale: 1,
    attentionScale: headFeatures ** -0.5,
    attentionCap: null,
    logitCap: null,
    layers: Array(reader.size("num_hidden_layers", "n_layer")).fill(layer),
  };
  if (row.outer.positions) return { ...plain, ...row.config?.(reader, plain) };
  const rotary = rotaryOf(raw, headFeatures, contextLength);
  const rotating = { ...plain, layers: plain.layers.map(() => ({ window: null, rotary })) };
  return { ...rotating, ...row.config?.(reader, rotating) };
}
