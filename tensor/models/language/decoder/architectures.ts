/**
 * The architectures that are read, one row each: what their files call things, and in what they differ
 * from Llama. To add one, see CONTRIBUTING.md.
 */
import { type ActivationName, activationOf } from "./activations.ts";
import {
  ConfigReader,
  type DecoderConfig,
  type LayerConfig,
  type RawConfig,
  requireRead,
} from "./config.ts";
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
  /** The activation that files leave out; default "silu". */
  readonly activation?: ActivationName;
  /** Settings that config.json may leave out, where transformers has others than Llama's for them. */
  readonly defaults?: RawConfig;
  /** Parts that have a bias in every file; `attention_bias` and `mlp_bias` of a configuration add others. */
  readonly biases?: readonly LayerPart[];
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

/** The window of each layer: as `layer_types` says, else of those that `isNear` picks; null for none. */
function windows(
  { raw }: ConfigReader,
  { layers }: DecoderConfig,
  window: number | null,
  isNear: (layer: number) => boolean,
): (number | null)[] {
  const kinds = raw.layer_types;
  return layers.map((_, k) =>
    (Array.isArray(kinds) ? kinds[k] === "sliding_attention" : isNear(k)) ? window : null
  );
}

/** The same layers with other windows. */
const withWindows = (
  { layers }: DecoderConfig,
  windows: readonly (number | null)[],
): Partial<DecoderConfig> => ({
  layers: layers.map((layer, k) => ({ ...layer, window: windows[k]! })),
});

/** Every layer sees the window, if there is one. */
const windowed: Architecture["config"] = (reader, plain) =>
  withWindows(plain, plain.layers.map(() => reader.optional("sliding_window")));

/** Qwen's upper layers see a window where the configuration says so. */
const upperWindows: Architecture["config"] = (reader, plain) => {
  const isUsed = reader.raw.use_sliding_window === true;
  const first = reader.optional("max_window_layers") ?? 28;
  const window = isUsed ? reader.optional("sliding_window") : null;
  return withWindows(plain, windows(reader, plain, window, (k) => k >= first));
};

/** Common part of both Gemmas. `wideFrom`: from so many layers on, the scale is the width's. */
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

/** The table. */
export const architectures: Readonly<Record<string, Architecture>> = {
  llama: {
    types: ["llama"],
    layer: llamaLayer,
    outer: llamaOuter,
    hasPairs: true,
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
    types: ["qwen2"],
    layer: llamaLayer,
    outer: llamaOuter,
    biases: ["query", "key", "value"],
    config: upperWindows,
  },
  qwen3: {
    types: ["qwen3"],
    layer: { ...llamaLayer, ...normedHeads },
    outer: llamaOuter,
    defaults: { head_dim: 128 },
    config: upperWindows,
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
        ...withWindows(plain, windows(reader, plain, window, (k) => k % 2 === 0)),
      };
    },
  },
  gemma3: {
    types: ["gemma3", "gemma3_text"],
    layer: { ...gemmaLayer, ...normedHeads },
    outer: llamaOuter,
    normOffset: 1,
    activation: "gelu_pytorch_tanh",
    defaults: { ...gemmaDefaults, sliding_window: 4096, rope_theta: 1e6 },
    config: (reader, plain) => {
      const { raw } = reader, window = reader.optional("sliding_window");
      const period = reader.optional("sliding_window_pattern", "_sliding_window_pattern") ?? 6;
      const seen = windows(reader, plain, window, (k) => (k + 1) % period !== 0);
      const parameters = raw.rope_parameters as RawConfig | undefined;
      const near = parameters?.sliding_attention ? raw : {
        rope_theta: reader.optional("rope_local_base_freq") ?? 10_000,
      };
      const rotary = (source: RawConfig, kind: string) =>
        rotaryOf(source, plain.headFeatures, plain.contextLength, kind);
      const far: LayerConfig = { window: null, rotary: rotary(raw, "full_attention") };
      const local: LayerConfig = { window, rotary: rotary(near, "sliding_attention") };
      return { ...gemma(reader, plain, 62), layers: seen.map((own) => own === null ? far : local) };
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
    defaults: { rms_norm_eps: 1e-5 },
    config: windowed,
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
    activation: "gelu_new",
    biases: ["queryKeyValue", "output", "up", "down"],
    defaults: { layer_norm_epsilon: 1e-5, tie_word_embeddings: true },
    config: ({ raw }, { layers, attentionScale }) => {
      const scale = raw.scale_attn_weights === false ? 1 : attentionScale;
      const share = (k: number) => raw.scale_attn_by_inverse_layer_idx === true ? 1 / (k + 1) : 1;
      const plain = { window: null, rotary: null };
      return {
        norm: "layer",
        layers: layers.map((_, k) => ({ ...plain, attentionScale: scale * share(k) })),
      };
    },
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

/** Parts of layers that must have a bias. */
function biasesOf(row: Architecture, raw: RawConfig): ReadonlySet<LayerPart> {
  const attention = ["query", "key", "value", "queryKeyValue", "output"] as const;
  const mlp = ["gate", "up", "gateUp", "down"] as const;
  const said = [
    ...raw.attention_bias === true ? attention : [],
    ...raw.mlp_bias === true ? mlp : [],
  ];
  return new Set([...row.biases ?? [], ...said]);
}

/** A configuration with what config.json leaves out. */
export function completeConfig(row: Architecture, raw: RawConfig): RawConfig {
  const given = Object.entries(raw).filter(([, value]) => value !== undefined);
  return { tie_word_embeddings: false, ...row.defaults, ...Object.fromEntries(given) };
}

/**
 * The sizes and choices of a model, from its configuration.
 *
 * @throws {TypeError} When a setting is missing, wrong, or one that is not read.
 */
export function decoderConfig(row: Architecture, raw: RawConfig): DecoderConfig {
  requireRead(raw);
  const reader = new ConfigReader(raw);
  const width = reader.size("hidden_size", "n_embd"),
    heads = reader.size("num_attention_heads", "n_head");
  const headFeatures = reader.optionalSize("head_dim") ?? width / heads;
  const contextLength = reader.size("max_position_embeddings", "n_positions");
  const keyHeads = reader.optionalSize("num_key_value_heads") ?? heads;
  if (!Number.isInteger(headFeatures) || heads % keyHeads !== 0) {
    throw new TypeError(
      `Cannot load the model: ${width} features are not those of ${heads} heads, or these not ` +
        `those of ${keyHeads} heads of keys`,
    );
  }
  const activation = activationOf(
    raw.hidden_activation ?? raw.hidden_act ?? raw.activation_function ?? row.activation ?? "silu",
  );
  const layer = { window: null, rotary: null };
  const plain: DecoderConfig = {
    vocabulary: reader.size("vocab_size"),
    width,
    heads,
    keyHeads,
    headFeatures,
    innerWidth: reader.optionalSize("intermediate_size", "n_inner"),
    contextLength,
    norm: "rms",
    eps: reader.optional("rms_norm_eps", "layer_norm_epsilon") ?? 1e-6,
    activation,
    biases: biasesOf(row, raw),
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
