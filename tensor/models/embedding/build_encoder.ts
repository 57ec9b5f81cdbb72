/** Puts an encoder together from the weights of a file. */
import { FileFormatError } from "../../io/core/file_format_error.ts";
import { LayerNorm } from "../../nn/normalization/layer_norm.ts";
import type { AnyModule } from "../../nn/module/module.ts";
import { activationOf } from "../language/decoder/architectures/activations.ts";
import {
  ConfigReader,
  type RawConfig,
  requireRead,
} from "../language/decoder/architectures/config.ts";
import { Projection, TokenEmbedding } from "../weights/projection.ts";
import type { WeightReader } from "../weights/weight_reader.ts";
import { Encoder, type EncoderConfig, EncoderLayer } from "./encoder.ts";
import {
  contextNames,
  type EncoderArchitecture,
  type EncoderPart,
  encoders,
  ggufEncoders,
} from "./encoder_rows.ts";

/** Last layers that make no vectors of tokens. */
const isIgnored =
  /(^|\.)(pooler|cls|lm_head|vocab_\w+|classifier|head|decoder|predictions|discriminator_\w+|generator_\w+)\.|position_ids$/;

/** Activations that files of single architectures call otherwise. */
const gated: Readonly<Record<string, string>> = { swiglu: "silu", geglu: "gelu" };

/** The sizes and choices of an encoder. */
function encoderConfig(row: EncoderArchitecture, config: RawConfig): EncoderConfig {
  requireRead(config);
  const reader = new ConfigReader(config);
  const heads = reader.size("num_attention_heads", "n_heads", "n_head");
  const width = reader.size("hidden_size", "dim", "n_embd");
  const firstPosition = row.isOffset ? (reader.optional("pad_token_id") ?? 1) + 1 : 0;
  const named = String(
    config.hidden_activation ?? config.hidden_act ?? config.activation_function ??
      config.activation ?? row.activation ?? "gelu",
  );
  const layers = Array.from(
    { length: reader.layers() },
    (_, k) => row.view?.(reader, k, width / heads) ?? {},
  );
  if (width % heads !== 0) {
    throw new TypeError(
      `Cannot load the model: ${width} features are not those of ${heads} heads`,
    );
  }
  return {
    heads,
    activation: activationOf(gated[named] ?? named),
    contextLength: reader.size(...contextNames) - firstPosition,
    firstPosition,
    views: layers,
  };
}

/** Settings that change what an encoder computes, and are not read: they must have these values. */
const unread: Readonly<Record<string, unknown>> = {
  position_embedding_type: "absolute",
  prenorm: false,
  num_hidden_groups: 1,
  inner_group_num: 1,
  qkv_proj_bias: false,
  use_rms_norm: false,
  rotary_emb_interleaved: false,
  num_experts: 0,
};

function requireKnown(config: RawConfig): void {
  for (const [name, plain] of Object.entries(unread)) {
    const value = config[name] ?? plain;
    if (value === plain) continue;
    throw new TypeError(
      `Cannot load the encoder: its configuration has ${name} = ${JSON.stringify(value)}, which ` +
        `netcl does not read`,
    );
  }
}

/** Reads the parts of an encoder. */
class Builder {
  readonly #row: EncoderArchitecture;
  readonly #reader: WeightReader;
  readonly #prefix: string;
  readonly #eps: number;

  constructor(row: EncoderArchitecture, config: RawConfig, reader: WeightReader) {
    this.#row = row;
    this.#reader = reader;
    this.#prefix = reader.has(`${row.prefix}${row.words}.weight`) ? row.prefix : "";
    const sizes = new ConfigReader(config);
    this.#eps = sizes.optional("layer_norm_eps", "norm_eps", "layer_norm_epsilon") ?? 1e-12;
  }

  async build(config: EncoderConfig): Promise<Encoder> {
    const { words, positions, kinds, projection, distances, norm, end, layers } = this.#row;
    const parts = new Map<string, AnyModule | readonly AnyModule[]>();
    for (const name of [words, positions, kinds, distances]) {
      const isLeftOut = name === kinds && this.#row.isPlain && !this.#has(name!);
      if (name !== undefined && !isLeftOut) parts.set(name, await this.#vectors(name));
    }
    parts.set(norm, await this.#norm(norm));
    if (projection && this.#has(projection)) {
      parts.set(projection, await this.#projection(projection));
    }
    parts.set(layers, await this.#layers(config));
    if (end) parts.set(end, await this.#norm(end));
    this.#requireAll();
    return new Encoder(this.#row, parts, config);
  }

  async #layers(config: EncoderConfig): Promise<EncoderLayer[]> {
    const { layers, isRepeated, layer, optional = [] } = this.#row, made: EncoderLayer[] = [];
    const count = isRepeated ? 1 : config.views.length;
    for (let place = 0; place < count; place++) {
      const own = new Map<string, Projection | LayerNorm>();
      for (const [part, name] of Object.entries(layer) as [EncoderPart, string][]) {
        const full = `${layers}.${place}.${name}`;
        if (optional.includes(part) && place === 0 && !this.#has(full)) continue;
        own.set(name, await (part.endsWith("Norm") ? this.#norm(full) : this.#projection(full)));
      }
      made.push(new EncoderLayer(this.#row, own, config));
    }
    return made;
  }

  #has(name: string): boolean {
    return this.#reader.has(`${this.#prefix}${name}.weight`);
  }

  #numbers(name: string, kind: "weight" | "bias") {
    return this.#reader.numbers(`${this.#prefix}${name}.${kind}`);
  }

  /** A bias, where there is to be one. */
  async #bias(name: string) {
    const isThere = !this.#row.isPlain || this.#reader.has(`${this.#prefix}${name}.bias`);
    return isThere ? await this.#numbers(name, "bias") : null;
  }

  async #norm(name: string): Promise<LayerNorm> {
    const weight = await this.#numbers(name, "weight");
    const made = new LayerNorm(weight.shape, { eps: this.#eps, affine: false });
    made.weight = weight;
    made.bias = await this.#bias(name);
    return made;
  }

  async #projection(name: string): Promise<Projection> {
    const weight = await this.#reader.matrix(`${this.#prefix}${name}.weight`);
    return new Projection(weight, await this.#bias(name));
  }

  async #vectors(name: string): Promise<TokenEmbedding> {
    return new TokenEmbedding(await this.#reader.matrix(`${this.#prefix}${name}.weight`));
  }

  /** Throws for tensors that no part of the model takes: else left out in silence. */
  #requireAll(): void {
    const rest = this.#reader.unread().filter((name) => !isIgnored.test(name));
    if (rest.length === 0) return;
    throw new FileFormatError(
      `The file has tensors that an encoder of type ${this.#row.types[0]} does not have: ${
        rest.slice(0, 8).join(", ")
      }`,
    );
  }
}

/**
 * Reads the weights of an encoder.
 *
 * @param config config.json, or the same of a GGUF file's header.
 * @param reader The file.
 * @param isGguf True for the names of GGUF files.
 * @throws {TypeError} When the architecture, or a setting, is not known.
 * @throws {FileFormatError} When the file lacks a tensor, or has others.
 */
export async function buildEncoder(
  config: RawConfig,
  reader: WeightReader,
  isGguf: boolean,
): Promise<Encoder> {
  const rows = isGguf ? ggufEncoders : encoders;
  const row = rows.find(({ types }) => types.includes(String(config.model_type)));
  if (!row) {
    const known = rows.flatMap(({ types }) => types).join(", ");
    throw new TypeError(
      `Cannot load an encoder of architecture ${
        JSON.stringify(config.model_type)
      }: netcl reads ${known}, and the architectures of LanguageModel`,
    );
  }
  requireKnown(config);
  return await new Builder(row, config, reader).build(encoderConfig(row, config));
}
