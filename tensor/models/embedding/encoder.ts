/**
 * Models that turn texts into vectors. This folder (`embedding/`) has encoders and what makes one vector of
 * theirs; it imports `weights/`, `text/`, readers of configurations of `language/decoder/`, and layers of `nn/`.
 */
import type { Tensor } from "../../core/mod.ts";
import { FileFormatError } from "../../io/core/file_format_error.ts";
import { scaledDotProductAttention } from "../../nn/attention/scaled_dot_product_attention.ts";
import { LayerNorm } from "../../nn/normalization/layer_norm.ts";
import { type AnyModule, Module } from "../../nn/module/module.ts";
import { activationOf } from "../language/decoder/architectures/activations.ts";
import {
  ConfigReader,
  type RawConfig,
  requireRead,
} from "../language/decoder/architectures/config.ts";
import { Projection, TokenEmbedding } from "../weights/projection.ts";
import type { WeightReader } from "../weights/weight_reader.ts";

/** A part of an encoder's layer. */
type Part = "query" | "key" | "value" | "output" | "attentionNorm" | "up" | "down" | "mlpNorm";

/** An architecture of encoders: what its files call things, and where positions begin. */
export interface EncoderArchitecture {
  /** The names of `model_type`. */
  readonly types: readonly string[];
  /** In front of all names in files of larger models. */
  readonly prefix: string;
  /** In front of the number of a layer. */
  readonly layers: string;
  readonly layer: Readonly<Record<Part, string>>;
  /** The vectors of kinds of texts; absent where there are none. */
  readonly kinds?: string;
  /** True where positions are counted from behind the padding's id. */
  readonly isOffset?: boolean;
}

const bertLayer: EncoderArchitecture["layer"] = {
  query: "attention.self.query",
  key: "attention.self.key",
  value: "attention.self.value",
  output: "attention.output.dense",
  attentionNorm: "attention.output.LayerNorm",
  up: "intermediate.dense",
  down: "output.dense",
  mlpNorm: "output.LayerNorm",
};

const bert: EncoderArchitecture = {
  types: ["bert"],
  prefix: "bert.",
  layers: "encoder.layer",
  layer: bertLayer,
  kinds: "embeddings.token_type_embeddings",
};

/** The table. */
export const encoders: readonly EncoderArchitecture[] = [
  bert,
  { ...bert, types: ["roberta", "xlm-roberta"], prefix: "roberta.", isOffset: true },
  {
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
];

/** Attention to all, then a feed-forward layer; a norm behind each. */
class EncoderLayer extends Module<[x: Tensor, mask: Tensor]> {
  readonly parts: ReadonlyMap<string, Projection | LayerNorm>;
  readonly #names: EncoderArchitecture["layer"];
  readonly #heads: number;
  readonly #activation: (x: Tensor) => Tensor;

  constructor(
    names: EncoderArchitecture["layer"],
    parts: ReadonlyMap<string, Projection | LayerNorm>,
    heads: number,
    activation: (x: Tensor) => Tensor,
  ) {
    super();
    this.#activation = activation;
    this.#names = names;
    this.parts = parts;
    this.#heads = heads;
  }

  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  #run(part: Part, x: Tensor): Tensor {
    return this.parts.get(this.#names[part])!.forward(x);
  }

  forward(x: Tensor, mask: Tensor): Tensor {
    const [n, l, width] = x.shape as [number, number, number];
    const heads = (part: Part) =>
      this.#run(part, x).reshape([n, l, this.#heads, -1]).permute([0, 2, 1, 3]);
    const seen = scaledDotProductAttention(heads("query"), heads("key"), heads("value"), { mask });
    const attended = this.#run("output", seen.permute([0, 2, 1, 3]).reshape([n, l, width]));
    const between = this.#run("attentionNorm", x.add(attended));
    return this.#run(
      "mlpNorm",
      between.add(this.#run("down", this.#activation(this.#run("up", between)))),
    );
  }
}

/** An encoder: vectors of tokens in which those around them have their say. */
export class Encoder extends Module<[ids: Tensor, isText: Tensor]> {
  /** The parts by the names of the architecture. */
  readonly parts: ReadonlyMap<string, AnyModule | readonly AnyModule[]>;
  /** Number of positions it was made for. */
  readonly contextLength: number;
  readonly #row: EncoderArchitecture;
  readonly #firstPosition: number;

  /** Puts an encoder together of its parts. */
  constructor(
    row: EncoderArchitecture,
    parts: ReadonlyMap<string, AnyModule | readonly AnyModule[]>,
    config: RawConfig,
  ) {
    super();
    const reader = new ConfigReader(config);
    this.parts = parts;
    this.#row = row;
    this.#firstPosition = row.isOffset ? (reader.optional("pad_token_id") ?? 1) + 1 : 0;
    this.contextLength = reader.size("max_position_embeddings") - this.#firstPosition;
  }

  /** The names of the parts stand by themselves. */
  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  #vectors(name: string, ids: Tensor): Tensor {
    return (this.parts.get(name) as TokenEmbedding).forward(ids);
  }

  /**
   * Vectors of tokens.
   *
   * @param ids (N, L).
   * @param isText bool of (N, L): false for padding, at which nobody looks.
   * @returns (N, L, width).
   */
  forward(ids: Tensor, isText: Tensor): Tensor {
    const positions = ids.indexLike([ids.shape[1]!]).add(this.#firstPosition);
    const { kinds, layers } = this.#row;
    let x = this.#vectors("embeddings.word_embeddings", ids);
    x = x.add(this.#vectors("embeddings.position_embeddings", positions));
    if (kinds) x = x.add(this.#vectors(kinds, positions.mul(0)));
    x = (this.parts.get("embeddings.LayerNorm") as LayerNorm).forward(x);
    const mask = isText.unsqueeze(1).unsqueeze(1);
    for (const layer of this.parts.get(layers) as readonly EncoderLayer[]) {
      x = layer.forward(x, mask);
    }
    return x;
  }
}

/** Last layers that make no vectors of tokens. */
const isIgnored = /(^|\.)(pooler|cls|lm_head|vocab_\w+|classifier)\.|position_ids$/;

/**
 * Reads the weights of an encoder.
 *
 * @param config config.json.
 * @param reader The file.
 * @throws {TypeError} When the architecture is not known.
 * @throws {FileFormatError} When the file lacks a tensor, or has others.
 */
export async function buildEncoder(config: RawConfig, reader: WeightReader): Promise<Encoder> {
  const row = encoders.find(({ types }) => types.includes(String(config.model_type)));
  if (!row) {
    const known = encoders.flatMap(({ types }) => types).join(", ");
    throw new TypeError(
      `Cannot load an encoder of architecture ${
        JSON.stringify(config.model_type)
      }: netcl reads ${known}`,
    );
  }
  requireRead(config);
  const sizes = new ConfigReader(config), first = "embeddings.word_embeddings.weight";
  const prefix = reader.has(row.prefix + first) ? row.prefix : "";
  const named = (name: string, kind: string) => `${prefix}${name}.${kind}`;
  const eps = sizes.optional("layer_norm_eps") ?? 1e-12;
  const norm = async (name: string) => {
    const weight = await reader.numbers(named(name, "weight"));
    const made = new LayerNorm(weight.shape, { eps, affine: false });
    made.weight = weight;
    made.bias = await reader.numbers(named(name, "bias"));
    return made;
  };
  const projection = async (name: string) =>
    new Projection(
      await reader.matrix(named(name, "weight")),
      await reader.numbers(named(name, "bias")),
    );
  const vectors = async (name: string) =>
    new TokenEmbedding(await reader.matrix(named(name, "weight")));
  const parts = new Map<string, AnyModule | readonly AnyModule[]>();
  for (const name of ["word_embeddings", "position_embeddings"]) {
    parts.set(`embeddings.${name}`, await vectors(`embeddings.${name}`));
  }
  if (row.kinds) parts.set(row.kinds, await vectors(row.kinds));
  parts.set("embeddings.LayerNorm", await norm("embeddings.LayerNorm"));
  const activation = activationOf(config.hidden_act ?? config.activation ?? "gelu");
  const heads = sizes.size("num_attention_heads", "n_heads"), layers: EncoderLayer[] = [];
  for (let k = 0; k < sizes.size("num_hidden_layers", "n_layers"); k++) {
    const own = new Map<string, Projection | LayerNorm>();
    for (const [part, name] of Object.entries(row.layer)) {
      const make = part.endsWith("Norm") ? norm : projection;
      own.set(name, await make(`${row.layers}.${k}.${name}`));
    }
    layers.push(new EncoderLayer(row.layer, own, heads, activation));
  }
  parts.set(row.layers, layers);
  const rest = reader.unread().filter((name) => !isIgnored.test(name));
  if (rest.length === 0) return new Encoder(row, parts, config);
  throw new FileFormatError(
    `The file has tensors that an encoder of type ${row.types[0]} does not have: ${
      rest.slice(0, 8).join(", ")
    }`,
  );
}
