/**
 * The architectures that are read, one row each: what their files call things, and in what they differ from
 * Llama. To add one, see CONTRIBUTING.md. This folder (`architectures/`) has configurations; it imports readers of files.
 */
import type { ActivationName } from "./activations.ts";
import type { ConfigReader, DecoderConfig, RawConfig } from "./config.ts";

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

/** Differences of a configuration from what all have, which is read already. */
export type Difference = (reader: ConfigReader, plain: DecoderConfig) => Partial<DecoderConfig>;

/** A part of a mixture of experts, or of the expert beside them that all tokens take. */
export type ExpertPart =
  | "router"
  | "gate"
  | "up"
  | "gateUp"
  | "down"
  | "sharedRouter"
  | "sharedGate"
  | "sharedUp"
  | "sharedGateUp"
  | "sharedDown";

/** Mixtures of experts of an architecture: the layers that have a router. */
export interface ExpertNames {
  /**
   * Names of the parts, with "*" for the number of an expert; without one, a tensor of three axes has those
   * of all.
   */
  readonly parts: Readonly<Partial<Record<ExpertPart, string>>>;
  /** False where the shares of the chosen experts add up to 1 only if `norm_topk_prob` says so. */
  readonly isNormalized?: boolean;
}

/** One row of the table. */
export interface Architecture {
  /** The names of `model_type` in config.json, and of `general.architecture` in GGUF files. */
  readonly types: readonly string[];
  /**
   * The parts of a layer, by what their tensors are called there, without "weight": of several names that which
   * the file has.
   */
  readonly layer: Readonly<Partial<Record<LayerPart, string | readonly string[]>>>;
  /** Parts of layers that not every model has. */
  readonly optional?: readonly LayerPart[];
  /** The other parts. */
  readonly outer: Readonly<Partial<Record<OuterPart | "layers", string>>>;
  /** Names of parts in GGUF files that differ from {@linkcode ggufLayer}. */
  readonly gguf?: Architecture["layer"];
  /** True where matrices lie transposed in safetensors files. */
  readonly isTransposed?: boolean;
  /** Number added to the weights of norms in safetensors files; GGUF files have it added. */
  readonly normOffset?: number;
  /** True where rows for queries, keys and values lie head by head of keys; GGUF files have them apart. */
  readonly isGrouped?: boolean;
  /** True where norms, of layers, have no bias. */
  readonly hasPlainNorms?: boolean;
  /** True where GGUF files have the features of queries and keys that are rotated together side by side. */
  readonly hasPairs?: boolean;
  /** The parts of layers that are a mixture of experts: those that have a router. */
  readonly experts?: ExpertNames;
  /** The activation that files leave out; default "silu". */
  readonly activation?: ActivationName;
  /** Settings that config.json may leave out, where transformers has others than Llama's for them. */
  readonly defaults?: RawConfig;
  /** Parts that have a bias in every file; `attention_bias` and `mlp_bias` of a configuration add others. */
  readonly biases?: readonly LayerPart[];
  /** False where `attention_bias` is of queries, keys and values alone. */
  readonly hasOutputBias?: boolean;
  /** Differences from Llama's configuration. */
  readonly config?: Difference;
}

export const llamaLayer = {
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

export const normedHeads = { queryNorm: "self_attn.q_norm", keyNorm: "self_attn.k_norm" } as const;

/** The other parts, as most files have them. */
export const llamaOuter = {
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

/** The parts of mixtures of experts in GGUF files. */
export const ggufExperts: ExpertNames["parts"] = {
  router: "ffn_gate_inp",
  gate: "ffn_gate_exps",
  up: "ffn_up_exps",
  down: "ffn_down_exps",
  sharedRouter: "ffn_gate_inp_shexp",
  sharedGate: "ffn_gate_shexp",
  sharedUp: "ffn_up_shexp",
  sharedDown: "ffn_down_shexp",
};

/** The same in files that have them in `mlp`, one tensor for each matrix. */
export const apartExperts: ExpertNames["parts"] = {
  router: "mlp.gate",
  gate: "mlp.experts.*.gate_proj",
  up: "mlp.experts.*.up_proj",
  down: "mlp.experts.*.down_proj",
};
