/** Puts a decoder together from the weights of a file: nothing is drawn first, and each is read once. */
import { FileFormatError } from "../../../io/core/file_format_error.ts";
import { LayerNorm } from "../../../nn/normalization/layer_norm.ts";
import { RMSNorm } from "../../../nn/normalization/rms_norm.ts";
import type { SplitWork } from "../../../distributed/tensor_parallel/split_work.ts";
import type { Tensor } from "../../../core/mod.ts";
import { Projection, TokenEmbedding, type Weight } from "../../weights/projection.ts";
import type { WeightChange, WeightReader } from "../../weights/weight_reader.ts";
import type { DeviceHandle } from "../../../../backend/internal.ts";
import {
  type Architecture,
  ggufExperts,
  ggufLayer,
  ggufOuter,
  type LayerPart,
  type OuterPart,
} from "./architectures/architecture.ts";
import type { DecoderConfig } from "./architectures/config.ts";
import { readExperts, requireShape } from "./build_experts.ts";
import { Decoder } from "./decoder.ts";
import { DecoderLayer, type Norm } from "./decoder_layer.ts";
import type { Experts } from "./experts.ts";
import { RankParts } from "./rank_parts.ts";

/** Tensors of files that are no weights: masks and tables that every model can compute. */
const isIgnored =
  /(^|\.)(rotary_emb\.inv_freq|attn\.(masked_)?bias)$|^rope_(freqs|factors_\w+)\.weight$/;

/** Parts of a feed-forward layer without experts. */
const isFeedForward = /^(gate|up|gateUp|down)$/;

/** Names of parts, without "weight" or "bias". */
interface Names {
  readonly outer: Readonly<Partial<Record<OuterPart | "layers", string>>>;
  /** Those of a layer, behind its number. */
  readonly layer: Readonly<Partial<Record<LayerPart, string>>>;
}

/**
 * Names of the parts in a file: of several which a part may have, and of parts that not every model has, the first
 * layer's.
 */
function namesIn(row: Architecture, reader: WeightReader, isGguf: boolean): Names {
  if (isGguf) {
    const parts = Object.keys(row.layer) as LayerPart[];
    const names = parts.map((part) => [part, row.gguf?.[part] ?? ggufLayer[part]]);
    return present(row, reader, { ...ggufOuter, layers: "blk" }, Object.fromEntries(names));
  }
  // Files of the model without its last layer leave the first word out.
  const { embedding, head } = row.outer, cut = (name: string) => name.slice(name.indexOf(".") + 1);
  const isCut = !reader.has(`${embedding}.weight`) && reader.has(`${cut(embedding!)}.weight`);
  const own = Object.entries(row.outer).map(([part, name]) => [part, isCut ? cut(name) : name]);
  return present(row, reader, { ...Object.fromEntries(own), head }, row.layer);
}

/** The parts of a layer that a file has, each under one name. */
function present(
  { optional = [] }: Architecture,
  reader: WeightReader,
  outer: Names["outer"],
  layer: Architecture["layer"],
): Names {
  const found = Object.entries(layer).flatMap(([part, names]) => {
    const all = [names].flat();
    const there = all.find((name) => reader.has(`${outer.layers}.0.${name}.weight`));
    if (!there && optional.includes(part as LayerPart)) return [];
    return [[part, there ?? all[0]]];
  });
  return { outer, layer: Object.fromEntries(found) };
}

/** A decoder under construction: a rank's part of it. */
class Builder {
  readonly #row: Architecture;
  readonly #config: DecoderConfig;
  readonly #reader: WeightReader;
  readonly #isGguf: boolean;
  readonly #names: Names;
  readonly #parts: RankParts;
  readonly #work: SplitWork;
  /** True where rows for queries, keys and values lie head by head of keys. */
  readonly #isGrouped: boolean;

  constructor(
    row: Architecture,
    config: DecoderConfig,
    reader: WeightReader,
    { isGguf, work }: { readonly isGguf: boolean; readonly work: SplitWork },
  ) {
    this.#row = row;
    this.#config = config;
    this.#reader = reader;
    this.#isGguf = isGguf;
    this.#names = namesIn(row, reader, isGguf);
    this.#work = work;
    this.#isGrouped = Boolean(row.isGrouped) && !isGguf;
    this.#parts = new RankParts(config, this.#innerWidth(), work, this.#isGrouped);
  }

  #name(part: OuterPart | LayerPart, layer?: number): string {
    const { outer, layer: parts } = this.#names;
    if (layer === undefined) return outer[part as OuterPart]!;
    return `${outer.layers}.${layer}.${parts[part as LayerPart]}`;
  }

  /** As the configuration says it, or else the first layer. */
  #innerWidth(): number {
    const { innerWidth } = this.#config, part = this.#names.layer.gateUp ? "gateUp" : "up";
    if (innerWidth !== null || this.#work.size === 1) return innerWidth ?? 0;
    const isTransposed = this.#isTransposed(part);
    const [rows] = this.#reader.shape(`${this.#name(part, 0)}.weight`, { isTransposed });
    return part === "gateUp" ? rows! / 2 : rows!;
  }

  async build(device: DeviceHandle, isTied: boolean): Promise<Decoder> {
    const { outer } = this.#row, layers: DecoderLayer[] = [];
    const embedding = new TokenEmbedding(await this.#matrix("embedding"));
    const positions = outer.positions ? new TokenEmbedding(await this.#matrix("positions")) : null;
    for (let k = 0; k < this.#config.layers.length; k++) layers.push(await this.#layer(k));
    const norm = await this.#norm("norm"), name = `${this.#name("head")}.weight`;
    const head = isTied ? null : await this.#projection("head");
    const parts = { embedding, positions, layers, norm, head };
    this.#requireAll(isTied ? name : null);
    return new Decoder(this.#parts.config, outer, parts, device, this.#work);
  }

  /** Throws for tensors that no part of the model takes: else left out in silence. */
  #requireAll(tied: string | null): void {
    const rest = this.#reader.unread().filter((name) => name !== tied && !isIgnored.test(name));
    if (rest.length === 0) return;
    const some = rest.slice(0, 8).join(", "),
      more = rest.length > 8 ? `, ... (${rest.length})` : "";
    throw new FileFormatError(
      `The file has tensors that a model of type ${
        this.#row.types[0]
      } does not have: ${some}${more}`,
    );
  }

  async #layer(k: number): Promise<DecoderLayer> {
    const norms = new Map<LayerPart, Norm>(), projections = new Map<LayerPart, Projection>();
    const experts = await this.#experts(k);
    for (const part of Object.keys(this.#names.layer) as LayerPart[]) {
      if (experts && isFeedForward.test(part)) continue;
      if (/Norm$|End$/.test(part)) norms.set(part, await this.#norm(part, k));
      else projections.set(part, await this.#projection(part, k));
    }
    const { attentionScale = this.#config.attentionScale } = this.#config.layers[k]!;
    const config = { ...this.#parts.config, attentionScale };
    const parts = { norms, projections, experts, isGrouped: this.#isGrouped };
    return new DecoderLayer(config, this.#stateNames, parts, this.#work);
  }

  /** The mixture of experts of a layer; null where it has none. */
  async #experts(k: number): Promise<Experts | null> {
    const own = this.#row.experts?.parts, prefix = `${this.#names.outer.layers}.${k}.`;
    const names = this.#isGguf ? ggufExperts : own;
    if (!own || !this.#config.experts || !this.#reader.has(`${prefix}${names!.router}.weight`)) {
      return null;
    }
    return await readExperts({ reader: this.#reader, names: names!, prefix }, this.#config);
  }

  /** Names of the parts of a layer in `stateDict`: those of safetensors files. */
  get #stateNames(): Names["layer"] {
    if (!this.#isGguf) return this.#names.layer;
    const names = Object.entries(this.#row.layer).map(([part, all]) => [part, [all].flat()[0]]);
    return Object.fromEntries(names);
  }

  #isTransposed(part: OuterPart | LayerPart): boolean {
    const isPlaced = part === "embedding" || part === "positions" || part === "head";
    return !this.#isGguf && Boolean(this.#row.isTransposed) && !isPlaced;
  }

  #change(part: OuterPart | LayerPart): WeightChange {
    const { heads, keyHeads } = this.#parts.config, { hasPairs } = this.#row;
    const own = { part: this.#parts.of(part), isTransposed: this.#isTransposed(part) };
    if (!this.#isGguf || !hasPairs || part !== "query" && part !== "key") return own;
    return { ...own, pairedHeads: part === "query" ? heads : keyHeads };
  }

  /** The shape of a part's matrix, or of a norm; null for a length that nothing says. */
  #shape(part: OuterPart | LayerPart): (number | null)[] {
    const { width, heads, keyHeads, headFeatures, innerWidth, vocabulary, contextLength } =
      this.#config;
    const [all, keys] = [heads, keyHeads].map((count) => count * headFeatures) as [number, number];
    const isEach = this.#config.headNorms === "each";
    const shapes: Partial<Record<OuterPart | LayerPart, (number | null)[]>> = {
      embedding: [vocabulary, width],
      head: [vocabulary, width],
      positions: [contextLength + this.#config.firstPosition, width],
      query: [all, width],
      key: [keys, width],
      value: [keys, width],
      queryKeyValue: [all + 2 * keys, width],
      output: [width, all],
      gate: [innerWidth, width],
      up: [innerWidth, width],
      gateUp: [innerWidth && 2 * innerWidth, width],
      down: [width, innerWidth],
      queryNorm: [isEach ? headFeatures : all],
      keyNorm: [isEach ? headFeatures : keys],
    };
    return shapes[part] ?? [width];
  }

  async #matrix(part: OuterPart | LayerPart, layer?: number): Promise<Weight> {
    const name = `${this.#name(part, layer)}.weight`;
    const change = this.#change(part);
    requireShape(name, this.#reader.shape(name, change), this.#shape(part));
    return await this.#reader.matrix(name, change);
  }

  #numbers(name: string, due: readonly (number | null)[], change?: WeightChange): Promise<Tensor> {
    requireShape(name, this.#reader.shape(name, change), due);
    return this.#reader.numbers(name, change);
  }

  async #projection(part: OuterPart | LayerPart, layer?: number): Promise<Projection> {
    const name = this.#name(part, layer), bias = `${name}.bias`, change = this.#change(part);
    const isThere = this.#config.biases.has(part) || this.#reader.has(bias);
    const weight = await this.#matrix(part, layer);
    const isPart = change.part !== undefined;
    if (!isThere) return new Projection(weight, null, isPart);
    const due = this.#reader.shape(`${name}.weight`, change).slice(0, 1);
    const rows = change.part?.rows;
    const own = await this.#numbers(bias, due, {
      ...change,
      part: rows ? { rows, columns: null } : undefined,
    });
    // What ranks sum has its bias once.
    const isSummed = Boolean(change.part?.columns) && this.#work.rank > 0;
    if (isSummed) own.dispose();
    return new Projection(weight, isSummed ? null : own, isPart);
  }

  async #norm(part: OuterPart | LayerPart, layer?: number): Promise<Norm> {
    const name = this.#name(part, layer), { norm: kind, eps } = this.#config;
    const offset = this.#isGguf ? 0 : this.#row.normOffset ?? 0, due = this.#shape(part);
    const weight = await this.#numbers(`${name}.weight`, due, { offset });
    const norm = kind === "rms"
      ? new RMSNorm(weight.shape, { eps, affine: false })
      : new LayerNorm(weight.shape, { eps, affine: false });
    norm.weight = weight;
    if (norm instanceof LayerNorm && !this.#row.hasPlainNorms) {
      norm.bias = await this.#numbers(`${name}.bias`, due);
    }
    return norm;
  }
}

/**
 * Reads the weights of a decoder.
 *
 * @param row Its architecture.
 * @param config Its sizes.
 * @param reader Its file.
 * @param options Where it goes; whether the file is GGUF; whether the last layer is the vectors of tokens; the
 *   ranks that share the work, of which each reads its part.
 * @throws {FileFormatError} When the file lacks a tensor, or has others.
 */
export function buildDecoder(
  row: Architecture,
  config: DecoderConfig,
  reader: WeightReader,
  options: { device: DeviceHandle; isGguf: boolean; isTied: boolean; work: SplitWork },
): Promise<Decoder> {
  return new Builder(row, config, reader, options).build(options.device, options.isTied);
}
