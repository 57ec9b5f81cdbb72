/** Parts of a decoder, however its file says it. */
import type { Tensor } from "../../../../core/mod.ts";

/** Rotation of positions: see `positions.ts`. */
export interface RotaryConfig {
  /** The base of the wave lengths. */
  readonly base: number;
  /** Number of rotated features of a head, the first ones. */
  readonly features: number;
  /** Divisor of each frequency, by its wave length in positions. */
  readonly slowdown: (wave: number, index: number) => number;
  /** Factor of sines and cosines. */
  readonly magnitude: number;
  /** The rotation of all positions of texts that have more than so many; absent where there is none. */
  readonly beyond?: { readonly positions: number; readonly rotary: RotaryConfig };
}

/** One layer's way to look at others. */
export interface LayerConfig {
  /** Number of positions it sees, its own included; null for all before it. */
  readonly window: number | null;
  /** Null where positions are learned vectors, added to the tokens'. */
  readonly rotary: RotaryConfig | null;
  /** Factor of its products of queries and keys, where layers differ. */
  readonly attentionScale?: number;
}

/** The sizes and choices of mixtures of experts. */
export interface ExpertsConfig {
  /** Number of experts. */
  readonly count: number;
  /** Number of experts that a token takes. */
  readonly chosen: number;
  /** Features between the matrices of one; null where nothing is said. */
  readonly innerWidth: number | null;
  /** True where the shares of the chosen ones add up to 1. */
  readonly isNormalized: boolean;
}

/** The sizes and choices of a decoder. */
export interface DecoderConfig {
  readonly vocabulary: number;
  /** Features of a token. */
  readonly width: number;
  /** Heads of queries. */
  readonly heads: number;
  /** Heads of keys and values. */
  readonly keyHeads: number;
  /** Features of a head. */
  readonly headFeatures: number;
  /** Features between the matrices of a feed-forward layer; null where nothing is said. */
  readonly innerWidth: number | null;
  /** Number of positions it was made for. */
  readonly contextLength: number;
  readonly norm: "rms" | "layer";
  readonly eps: number;
  readonly activation: (x: Tensor) => Tensor;
  /** Parts of layers that have a bias, or the file is damaged. */
  readonly biases: ReadonlySet<string>;
  /**
   * Norms of queries and keys: one for each head, or one over the features of all.
   */
  readonly headNorms: "each" | "all";
  /** True where queries and keys are rotated before they are normalized. */
  readonly normsTurned: boolean;
  /** True where attention and the feed-forward layer read the same features, side by side. */
  readonly isParallel: boolean;
  /** True where features are rotated with their neighbours, not with those of the other half. */
  readonly isInterleaved: boolean;
  /** The row of the first position, where positions are learned vectors. */
  readonly firstPosition: number;
  /** Factor of the tokens' vectors. */
  readonly embeddingScale: number;
  /** Factor of what each part of a layer adds. */
  readonly residualScale: number;
  /** Factor of the last layer's scores. */
  readonly logitScale: number;
  /** Factor of products of queries and keys. */
  readonly attentionScale: number;
  /** Scores s become `cap * tanh(s / cap)`; null for none. */
  readonly attentionCap: number | null;
  /** The same of the last layer's. */
  readonly logitCap: number | null;
  readonly layers: readonly LayerConfig[];
  /** Of the layers that have experts; null where none has. */
  readonly experts: ExpertsConfig | null;
  /** True where positions look at those behind them, too: such a model makes vectors, and no text. */
  readonly looksAhead: boolean;
  /** True where several ranks have the same heads of keys, each with a part of their gradients. */
  readonly sharesKeys?: boolean;
}

/** A configuration as files hold it: config.json, or the header of a GGUF file under the same names. */
export type RawConfig = Readonly<Record<string, unknown>>;

/** The largest length that is taken: more than any model has of words, features or positions. */
const MAX_SIZE = 2 ** 26;
/** The same of layers, each of which is made before its weights are asked for. */
const MAX_LAYERS = 1000;

/** Reads numbers out of a configuration; a wrong one is an error that names it. */
export class ConfigReader {
  readonly raw: RawConfig;

  constructor(raw: RawConfig) {
    this.raw = raw;
  }

  /** The first of these names that is there, null if none is. */
  optional(...names: readonly string[]): number | null {
    for (const name of names) {
      const value = this.raw[name];
      if (value === undefined || value === null) continue;
      if (typeof value === "number" && Number.isFinite(value)) return value;
      throw new TypeError(
        `Cannot read the model: its configuration has ${name} = ${
          JSON.stringify(value)
        }, which is ` +
          `no number`,
      );
    }
    return null;
  }

  /** The same, `other` where nothing is said; null where null is. */
  either(name: string, other: number | null): number | null {
    return this.raw[name] === undefined ? other : this.optional(name);
  }

  /** A length, or null. */
  optionalSize(...names: readonly string[]): number | null {
    return this.optional(...names) === null ? null : this.size(...names);
  }

  /** A number that must be there. */
  number(...names: readonly string[]): number {
    const value = this.optional(...names);
    if (value !== null) return value;
    throw new TypeError(`Cannot read the model: its configuration has no ${names[0]}`);
  }

  /** A length: a whole number of at least 1, and not one that only a damaged file has. */
  size(...names: readonly string[]): number {
    return this.#upTo(MAX_SIZE, names);
  }

  /** The number of layers, likewise. */
  layers(): number {
    return this.#upTo(MAX_LAYERS, ["num_hidden_layers", "n_layers", "n_layer", "num_layers"]);
  }

  #upTo(most: number, names: readonly string[]): number {
    const value = this.number(...names);
    if (Number.isInteger(value) && value >= 1 && value <= most) return value;
    throw new TypeError(
      `Cannot read the model: its configuration has ${names[0]} = ${value}, which is no whole ` +
        `number from 1 to ${most}`,
    );
  }
}

/** Settings that change what a model computes, and are not read: they must have these values. */
const unread: Readonly<Record<string, unknown>> = {
  add_cross_attention: false,
  alibi: false,
  clip_qkv: null,
  do_layer_norm_before: true,
  is_decoder: false,
  quantization_config: null,
  text_config: null,
  use_bidirectional_attention: false,
};

/** @throws {TypeError} When a configuration has a setting that is not read. */
export function requireRead(raw: RawConfig): void {
  for (const [name, plain] of Object.entries(unread)) {
    const value = raw[name] ?? plain;
    if (value === plain) continue;
    throw new TypeError(
      `Cannot load the model: its configuration has ${name} = ${JSON.stringify(value)}, which ` +
        `netcl does not read`,
    );
  }
}
