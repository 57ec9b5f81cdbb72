/**
 * Models that turn texts into vectors. This folder (`embedding/`) has encoders and what makes one vector of
 * theirs; it imports `weights/`, `text/`, decoders and readers of configurations of `language/`, and layers of `nn/`.
 */
import type { DeviceHandle } from "../../../backend/internal.ts";
import { Tensor } from "../../class/tensor.ts";
import { scaledDotProductAttention } from "../../nn/attention/scaled_dot_product_attention.ts";
import type { LayerNorm } from "../../nn/normalization/layer_norm.ts";
import { type AnyModule, Module } from "../../nn/module/module.ts";
import type { RotaryConfig } from "../language/decoder/architectures/config.ts";
import { aroundMask } from "../language/decoder/attention.ts";
import { type Angles, RotaryTable, rotated } from "../language/decoder/positions.ts";
import type { Projection, TokenEmbedding } from "../weights/projection.ts";
import { distanceBuckets } from "./distances.ts";
import type { EncoderArchitecture, EncoderPart, EncoderView } from "./encoder_rows.ts";

/** Parts of a layer by their names in files. */
export type LayerParts = ReadonlyMap<string, Projection | LayerNorm>;

/** The sizes and choices of an encoder. */
export interface EncoderConfig {
  readonly heads: number;
  readonly activation: (x: Tensor) => Tensor;
  /** The number of positions it was made for. */
  readonly contextLength: number;
  /** The row of the first position. */
  readonly firstPosition: number;
  /** Of each layer; one that is repeated stands here as often. */
  readonly views: readonly EncoderView[];
}

/** The view of a layer in one pass. */
interface EncoderPass {
  /** True for what is looked at, or numbers added to scores; it broadcasts to (N, heads, L, L). */
  readonly mask: Tensor;
  readonly angles: Angles | null;
}

/** Attention to all around, then a feed-forward layer, with norms behind both, or in front. */
export class EncoderLayer extends Module<[x: Tensor, pass: EncoderPass]> {
  readonly parts: LayerParts;
  readonly #row: EncoderArchitecture;
  readonly #config: EncoderConfig;

  /** Takes its parts. */
  constructor(row: EncoderArchitecture, parts: LayerParts, config: EncoderConfig) {
    super();
    this.#row = row;
    this.parts = parts;
    this.#config = config;
  }

  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  /** The output of a part; what has none gives its input. */
  #run(part: EncoderPart, x: Tensor): Tensor {
    const own = this.#row.layer[part];
    return (own === undefined ? undefined : this.parts.get(own))?.forward(x) ?? x;
  }

  /** Maps the features of positions, (N, L, width). */
  forward(x: Tensor, pass: EncoderPass): Tensor {
    if (this.#row.isPreNorm) {
      const between = x.add(this.#attention(this.#run("attentionNorm", x), pass));
      return between.add(this.#feedForward(this.#run("mlpNorm", between)));
    }
    const between = this.#run("attentionNorm", x.add(this.#attention(x, pass)));
    return this.#run("mlpNorm", between.add(this.#feedForward(between)));
  }

  #attention(x: Tensor, { mask, angles }: EncoderPass): Tensor {
    const [n, l, width] = x.shape as [number, number, number];
    const all = this.#row.layer.queryKeyValue
      ? this.#run("queryKeyValue", x).chunk(3, -1)
      : (["query", "key", "value"] as const).map((part) => this.#run(part, x));
    const [query, key, value] = all.map((part) =>
      part.reshape([n, l, this.#config.heads, -1]).permute([0, 2, 1, 3])
    ) as [Tensor, Tensor, Tensor];
    const turn = (heads: Tensor) => angles ? rotated(heads, angles) : heads;
    const seen = scaledDotProductAttention(turn(query), turn(key), value, { mask });
    return this.#run("output", seen.permute([0, 2, 1, 3]).reshape([n, l, width]));
  }

  #feedForward(x: Tensor): Tensor {
    const { layer } = this.#row, { activation } = this.#config;
    if (layer.gateUp) {
      const [gate, up] = this.#run("gateUp", x).chunk(2, -1) as [Tensor, Tensor];
      return this.#run("down", activation(gate).mul(up));
    }
    const up = this.#run("up", x);
    const hidden = layer.gate ? activation(this.#run("gate", x)).mul(up) : activation(up);
    return this.#run("down", hidden);
  }
}

/** An encoder: vectors of tokens in which those around them have their say. */
export class Encoder extends Module<[ids: Tensor, isText: Tensor]> {
  /** The parts by the names of the architecture. */
  readonly parts: ReadonlyMap<string, AnyModule | readonly AnyModule[]>;
  /** Number of positions it was made for. */
  readonly contextLength: number;
  readonly #row: EncoderArchitecture;
  readonly #config: EncoderConfig;
  readonly #tables = new Map<RotaryConfig, RotaryTable>();

  /** Puts an encoder together of its parts. */
  constructor(
    row: EncoderArchitecture,
    parts: ReadonlyMap<string, AnyModule | readonly AnyModule[]>,
    config: EncoderConfig,
  ) {
    super();
    this.parts = parts;
    this.contextLength = config.contextLength;
    this.#row = row;
    this.#config = config;
  }

  /** The names of the parts stand by themselves. */
  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  #run(name: string | undefined, x: Tensor): Tensor {
    const part = name === undefined ? undefined : this.parts.get(name);
    return (part as Projection | LayerNorm | TokenEmbedding | undefined)?.forward(x) ?? x;
  }

  /**
   * Vectors of tokens.
   *
   * @param ids (N, L).
   * @param isText bool of (N, L): false for padding, at which nobody looks.
   * @returns (N, L, width).
   */
  forward(ids: Tensor, isText: Tensor): Tensor {
    const { words, positions, kinds, norm, projection, layers, isRepeated, end } = this.#row;
    const places = ids.indexLike([ids.shape[1]!]).add(this.#config.firstPosition);
    let x = this.#run(words, ids);
    if (positions) x = x.add(this.#run(positions, places));
    if (kinds && this.parts.has(kinds)) x = x.add(this.#run(kinds, places.mul(0)));
    x = this.#run(projection, this.#run(norm, x));
    const own = this.parts.get(layers) as readonly EncoderLayer[], pass = this.#passes(isText);
    this.#config.views.forEach((view, k) => x = own[isRepeated ? 0 : k]!.forward(x, pass(view)));
    return this.#run(end, x);
  }

  /** Makes the common data of layers of one kind once. */
  #passes(isText: Tensor): (view: EncoderView) => EncoderPass {
    const length = isText.shape[1]!, isSeen = isText.unsqueeze(1).unsqueeze(1);
    const masks = new Map<number | undefined, Tensor>();
    const maskOf = (reach: number | undefined): Tensor => {
      if (this.#row.distances) return isSeen.where(this.#distances(isText), -Infinity);
      return aroundMask(isText, reach === undefined ? null : reach + 1);
    };
    return ({ reach, rotary }) => {
      if (!masks.has(reach)) masks.set(reach, maskOf(reach));
      const angles = rotary ? this.#angles(rotary, length, isText.device) : null;
      return { mask: masks.get(reach)!, angles };
    };
  }

  /** Numbers added to scores by how far a key is from a query, (1, heads, L, L). */
  #distances(isText: Tensor): Tensor {
    const length = isText.shape[1]!,
      { weight } = this.parts.get(
        this.#row.distances!,
      ) as TokenEmbedding;
    const [buckets] = weight.shape as [number, number];
    using given = Tensor.fromHost(distanceBuckets(length, buckets), { device: isText.device });
    const places = isText.indexLike([length]);
    const apart = places.sub(places.unsqueeze(1)).add(length - 1);
    const numbers = this.#run(this.#row.distances, given.indexSelect(0, apart.reshape([-1])));
    return numbers.reshape([length, length, -1]).permute([2, 0, 1]).unsqueeze(0);
  }

  #angles(rotary: RotaryConfig, length: number, device: DeviceHandle): Angles {
    const table = this.#tables.get(rotary) ?? new RotaryTable(rotary, device);
    this.#tables.set(rotary, table);
    const { cos, sin } = table.atLeast(length);
    return { cos: cos.slice([0, length]), sin: sin.slice([0, length]) };
  }

  /** Gives the memory of weights and tables back. */
  override dispose(): void {
    super.dispose();
    for (const table of this.#tables.values()) table[Symbol.dispose]();
  }
}
