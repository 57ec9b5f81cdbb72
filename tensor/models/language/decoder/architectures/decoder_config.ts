import type { Architecture, ExpertNames, LayerPart } from "./architecture.ts";
import { activationOf } from "./activations.ts";
import {
  ConfigReader,
  type DecoderConfig,
  type ExpertsConfig,
  type RawConfig,
  requireRead,
} from "./config.ts";
import { rotaryOf } from "./rotary_config.ts";

/** Parts of layers that must have a bias. */
function biasesOf(row: Architecture, raw: RawConfig): ReadonlySet<LayerPart> {
  const inputs = ["query", "key", "value", "queryKeyValue"] as const;
  const attention = row.hasOutputBias === false ? inputs : [...inputs, "output"] as const;
  const mlp = ["gate", "up", "gateUp", "down"] as const;
  const said = [
    ...raw.attention_bias === true ? attention : [],
    ...raw.mlp_bias === true ? mlp : [],
  ];
  return new Set([...row.biases ?? [], ...said]);
}

/** Names of the number that norms add to what they divide by. */
const epsilons = [
  "rms_norm_eps",
  "layer_norm_epsilon",
  "layer_norm_eps",
  "norm_epsilon",
  "norm_eps",
];

/** Mixtures of experts of a configuration that says how many there are. */
function expertsOf(names: ExpertNames, reader: ConfigReader): ExpertsConfig | null {
  const count = reader.optionalSize("num_local_experts", "num_experts") ?? 0;
  if (count === 0) return null;
  const chosen = reader.size("num_experts_per_tok");
  const isSaid = typeof reader.raw.norm_topk_prob === "boolean";
  const isNormalized = isSaid ? reader.raw.norm_topk_prob === true : names.isNormalized !== false;
  const innerWidth = reader.optionalSize("moe_intermediate_size", "intermediate_size");
  if (chosen <= count) return { count, chosen, innerWidth, isNormalized };
  throw new TypeError(`Cannot load the model: a token takes ${chosen} experts of ${count}`);
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
  const { use_bidirectional_attention: isBoth, is_causal: isCausal } = raw;
  const looksAhead = isBoth === true || isCausal === false;
  requireRead(isBoth === true ? { ...raw, use_bidirectional_attention: false } : raw);
  const reader = new ConfigReader(raw);
  const width = reader.size("hidden_size", "n_embd");
  const heads = reader.size("num_attention_heads", "n_head", "num_heads");
  const headFeatures = reader.optionalSize("head_dim") ?? width / heads;
  const contextLength = reader.size("max_position_embeddings", "n_positions");
  const keyHeads = reader.optionalSize("num_key_value_heads") ?? heads;
  const activation = activationOf(
    raw.hidden_activation ?? raw.hidden_act ?? raw.activation_function ?? raw.activation ??
      row.activation ?? "silu",
  );
  const layer = { window: null, rotary: null };
  const plain: DecoderConfig = {
    vocabulary: reader.size("vocab_size"),
    width,
    heads,
    keyHeads,
    headFeatures,
    innerWidth: reader.optionalSize("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    contextLength,
    norm: "rms",
    eps: reader.optional(...epsilons) ?? 1e-6,
    activation,
    biases: biasesOf(row, raw),
    headNorms: "each",
    normsTurned: false,
    isParallel: false,
    looksAhead,
    isInterleaved: false,
    firstPosition: 0,
    embeddingScale: 1,
    residualScale: 1,
    logitScale: 1,
    attentionScale: headFeatures ** -0.5,
    attentionCap: null,
    logitCap: null,
    experts: row.experts ? expertsOf(row.experts, reader) : null,
    layers: Array(reader.layers()).fill(layer),
  };
  const rotary = row.outer.positions ? null : rotaryOf(raw, headFeatures, contextLength);
  const rotating = { ...plain, layers: plain.layers.map(() => ({ window: null, rotary })) };
  const whole = { ...rotating, ...row.config?.(reader, rotating) };
  if (Number.isInteger(headFeatures) && heads % whole.keyHeads === 0) return whole;
  throw new TypeError(
    `Cannot load the model: ${width} features are not those of ${heads} heads, or these not ` +
      `those of ${whole.keyHeads} heads of keys`,
  );
}
