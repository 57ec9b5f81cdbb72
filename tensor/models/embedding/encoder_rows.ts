/** The architectures of encoders that are read, one row each: what their files call things, and how they differ. */
import type { ConfigReader, RotaryConfig } from "../language/decoder/architectures/config.ts";
import { rotaryOf } from "../language/decoder/architectures/rotary_config.ts";

/** A part of an encoder's layer. */
export type EncoderPart =
  | "attentionNorm"
  | "query"
  | "key"
  | "value"
  | "queryKeyValue"
  | "output"
  | "mlpNorm"
  | "gate"
  | "up"
  | "gateUp"
  | "down";

/** One layer's way to look at others: all around it where nothing is said. */
export interface EncoderView {
  /** Positions that it sees on either side. */
  readonly reach?: number | undefined;
  readonly rotary?: RotaryConfig;
}

/** One row of the table. */
export interface EncoderArchitecture {
  /** The names of `model_type`. */
  readonly types: readonly string[];
  /** In front of all names in files of larger models. */
  readonly prefix: string;
  /** In front of the number of a layer. */
  readonly layers: string;
  /** True where all layers are the first one. */
  readonly isRepeated?: boolean;
  readonly layer: Readonly<Partial<Record<EncoderPart, string>>>;
  /** Parts of layers that the first one may lack. */
  readonly optional?: readonly EncoderPart[];
  /** The vectors of tokens, and their norm. */
  readonly words: string;
  readonly norm: string;
  /** The vectors of positions; absent where layers rotate them. */
  readonly positions?: string;
  /** The vectors of kinds of texts; absent where there are none. */
  readonly kinds?: string;
  /** The matrix between vectors of tokens and wider ones of layers, where the file has it. */
  readonly projection?: string;
  /** Numbers added to scores by how far positions are apart. */
  readonly distances?: string;
  /** The norm behind the last layer. */
  readonly end?: string;
  /** True where norms stand in front of the parts of a layer, not behind. */
  readonly isPreNorm?: boolean;
  /** True where matrices and norms have a bias only if the file has one, and tokens kinds of texts. */
  readonly isPlain?: boolean;
  /** True where positions are counted from behind the padding's id. */
  readonly isOffset?: boolean;
  /** The activation that files leave out, or call otherwise; default "gelu". */
  readonly activation?: string;
  /** Its name in GGUF files. */
  readonly gguf?: string;
  /** The view of a layer. */
  readonly view?: (reader: ConfigReader, layer: number, headFeatures: number) => EncoderView;
}

const bert: EncoderArchitecture = {
  types: ["bert"],
  prefix: "bert.",
  layers: "encoder.layer",
  layer: {
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    output: "attention.output.dense",
    attentionNorm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    mlpNorm: "output.LayerNorm",
  },
  words: "embeddings.word_embeddings",
  norm: "embeddings.LayerNorm",
  positions: "embeddings.position_embeddings",
  kinds: "embeddings.token_type_embeddings",
};

const { kinds: _, ...plainBert } = bert;

/** All positions that a file says, whatever it calls their number. */
export const contextNames = ["max_position_embeddings", "n_positions"] as const;

/** Waves of ModernBERT: layers that see their neighbours alone have others. */
function modernView(reader: ConfigReader, layer: number, headFeatures: number): EncoderView {
  const { raw } = reader, kinds = raw.layer_types;
  const period = reader.optional("global_attn_every_n_layers", "sliding_window_pattern") ?? 3;
  const isFar = Array.isArray(kinds) ? kinds[layer] === "full_attention" : layer % period === 0;
  const kind = isFar ? "full_attention" : "sliding_attention";
  const base = isFar
    ? reader.optional("global_rope_theta", "rope_theta") ?? 160_000
    : reader.optional("local_rope_theta") ?? 10_000;
  const isNamed = Object.keys(raw.rope_parameters ?? {}).length > 0;
  const own = isNamed ? raw : { rope_theta: base };
  const rotary = rotaryOf(own, headFeatures, reader.size(...contextNames), kind);
  const both = reader.optional("local_attention", "sliding_window") ?? 128;
  const reach = isFar ? undefined : Math.floor(both / 2);
  return { rotary, reach };
}

/** The table. */
export const encoders: readonly EncoderArchitecture[] = [
  // RoBERTa and its kin are of this kind there, with positions that begin with the first one.
  { ...bert, gguf: "bert" },
  {
    ...bert,
    types: ["roberta", "xlm-roberta", "camembert"],
    prefix: "roberta.",
    isOffset: true,
  },
  { ...bert, types: ["electra"], prefix: "electra.", projection: "embeddings_project" },
  {
    ...plainBert,
    types: ["distilbert"],
    prefix: "distilbert.",
    layers: "transformer.layer",
    layer: {
      query: "attention.q_lin",
      key: "attention.k_lin",
      value: "attention.v_lin",
      output: "attention.out_lin",
      attentionNorm: "sa_layer_norm",
      up: "ffn.lin1",
      down: "ffn.lin2",
      mlpNorm: "output_layer_norm",
    },
  },
  {
    ...plainBert,
    types: ["mpnet"],
    prefix: "mpnet.",
    isOffset: true,
    layer: {
      ...bert.layer,
      query: "attention.attn.q",
      key: "attention.attn.k",
      value: "attention.attn.v",
      output: "attention.attn.o",
      attentionNorm: "attention.LayerNorm",
    },
    distances: "encoder.relative_attention_bias",
  },
  {
    ...bert,
    types: ["albert"],
    prefix: "albert.",
    layers: "encoder.albert_layer_groups.0.albert_layers",
    isRepeated: true,
    layer: {
      query: "attention.query",
      key: "attention.key",
      value: "attention.value",
      output: "attention.dense",
      attentionNorm: "attention.LayerNorm",
      up: "ffn",
      down: "ffn_output",
      mlpNorm: "full_layer_layer_norm",
    },
    projection: "encoder.embedding_hidden_mapping_in",
    activation: "gelu_new",
  },
  {
    types: ["nomic_bert"],
    prefix: "nomic_bert.",
    layers: "encoder.layers",
    layer: {
      queryKeyValue: "attn.Wqkv",
      output: "attn.out_proj",
      attentionNorm: "norm1",
      up: "mlp.fc11",
      gate: "mlp.fc12",
      down: "mlp.fc2",
      mlpNorm: "norm2",
    },
    words: bert.words,
    norm: "emb_ln",
    kinds: bert.kinds!,
    isPlain: true,
    gguf: "nomic-bert",
    activation: "silu",
    view: (reader, _, headFeatures) => ({
      rotary: rotaryOf(
        { rope_theta: reader.optional("rotary_emb_base") ?? 1000, ...reader.raw },
        headFeatures,
        reader.size(...contextNames),
      ),
    }),
  },
  {
    types: ["modernbert"],
    prefix: "model.",
    layers: "layers",
    layer: {
      attentionNorm: "attn_norm",
      queryKeyValue: "attn.Wqkv",
      output: "attn.Wo",
      mlpNorm: "mlp_norm",
      gateUp: "mlp.Wi",
      down: "mlp.Wo",
    },
    optional: ["attentionNorm"],
    words: "embeddings.tok_embeddings",
    norm: "embeddings.norm",
    end: "final_norm",
    isPreNorm: true,
    isPlain: true,
    gguf: "modern-bert",
    view: modernView,
  },
];

/** Names of parts in GGUF files, but for norms. */
const ggufLayer: EncoderArchitecture["layer"] = {
  query: "attn_q",
  key: "attn_k",
  value: "attn_v",
  queryKeyValue: "attn_qkv",
  output: "attn_output",
  gate: "ffn_gate",
  up: "ffn_up",
  gateUp: "ffn_up",
  down: "ffn_down",
};

/** The same architecture under the names of GGUF files. */
function asGguf(row: EncoderArchitecture): EncoderArchitecture {
  const { isPreNorm, layer, positions, kinds, end } = row;
  const all: EncoderArchitecture["layer"] = {
    ...ggufLayer,
    attentionNorm: isPreNorm ? "attn_norm" : "attn_output_norm",
    mlpNorm: isPreNorm ? "ffn_norm" : "layer_output_norm",
  };
  return {
    ...row,
    types: [row.gguf!],
    prefix: "",
    layers: "blk",
    layer: Object.fromEntries(
      (Object.keys(layer) as EncoderPart[]).map((part) => [part, all[part]!]),
    ),
    words: "token_embd",
    norm: "token_embd_norm",
    ...positions && { positions: "position_embd" },
    ...kinds && { kinds: "token_types" },
    ...end && { end: "output_norm" },
    isPlain: true,
  };
}

/** The rows of GGUF files. */
export const ggufEncoders: readonly EncoderArchitecture[] = encoders
  .filter(({ gguf }) => gguf !== undefined)
  .map(asGguf);
