/**
 * Decoders: their architectures, layers, and the cache of what they have read. This folder (`decoder/`) imports
 * `weights/` and layers of `nn/`.
 */
import type { DeviceHandle, DType } from "../../../../backend/internal.ts";
import { requireTensor } from "../../../core/apply.ts";
import { isGradEnabled } from "../../../core/modes/grad_mode.ts";
import { shapeError } from "../../../core/rules/errors.ts";
import type { Tensor } from "../../../core/mod.ts";
import { type AnyModule, Module } from "../../../nn/module/module.ts";
import { PackedMatrix } from "../../weights/packed_matrix.ts";
import type { Projection, TokenEmbedding } from "../../weights/projection.ts";
import type { SplitWork } from "../../../distributed/tensor_parallel/split_work.ts";
import type { Architecture } from "./architectures/architecture.ts";
import { aroundMask, causalMask, softCapped, type Visibility } from "./attention.ts";
import type { DecoderConfig, LayerConfig, RotaryConfig } from "./architectures/config.ts";
import { DecoderCache } from "./decoder_cache.ts";
import type { DecoderLayer, LayerPass, Norm } from "./decoder_layer.ts";
import { type Angles, RotaryTable } from "./positions.ts";

/** The parts of a decoder, with its weights in them. */
export interface DecoderParts {
  readonly embedding: TokenEmbedding;
  /** Learned vectors of positions. */
  readonly positions: TokenEmbedding | null;
  readonly layers: readonly DecoderLayer[];
  readonly norm: Norm;
  /** Null where the vectors of tokens are the last layer, too. */
  readonly head: Projection | null;
}

/** The common data of layers in one pass. */
interface Passes {
  readonly layer: (k: number) => LayerPass;
  /** Learned vectors of positions. */
  readonly positions: Tensor | null;
}

/**
 * A language model that reads from left to right: vectors of tokens, layers, and how likely each token is
 * next. Its parameters have the names that its makers gave them.
 */
export class Decoder extends Module<[ids: Tensor]> {
  /** Its sizes and choices. */
  readonly config: DecoderConfig;
  /** Its device. */
  readonly device: DeviceHandle;
  /** The parts by the names of the architecture. */
  readonly parts: ReadonlyMap<string, AnyModule | readonly AnyModule[]>;
  /** The ranks that share its work. */
  readonly work: SplitWork;
  /** True for caches of bytes. */
  hasByteCache = false;
  readonly #parts: DecoderParts;
  readonly #tables = new Map<RotaryConfig, RotaryTable>();

  /** Puts a decoder together of its parts, or of a rank's parts of them. */
  constructor(
    config: DecoderConfig,
    outer: Architecture["outer"],
    parts: DecoderParts,
    device: DeviceHandle,
    work: SplitWork,
  ) {
    super();
    this.work = work;
    this.config = config;
    this.device = device;
    this.#parts = parts;
    const { embedding, positions, layers, norm, head } = parts;
    const all = [
      [outer.embedding, embedding],
      [outer.positions, positions],
      [outer.layers, layers],
      [outer.norm, norm],
      [outer.head, head],
    ] as [string, AnyModule | readonly AnyModule[] | null][];
    this.parts = new Map(all.flatMap(([name, part]) => part === null ? [] : [[name, part]]));
  }

  /** The names of the parts stand by themselves. */
  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  /**
   * Logits of each token to come next.
   *
   * @param ids (N, L), whole numbers.
   * @returns (N, L, vocabulary).
   */
  forward(ids: Tensor): Tensor {
    return this.logits(this.hidden(ids));
  }

  /**
   * The number of positions beyond which a text rotates in another way: a cache with more room holds other keys
   * for the same text.
   */
  get turningPoint(): number {
    const points = this.config.layers.map(({ rotary }) => rotary?.beyond?.positions ?? Infinity);
    return Math.min(...points);
  }

  /** An empty cache for so many sequences and positions. */
  makeCache(batch: number, capacity: number): DecoderCache {
    const { layers, keyHeads: heads, headFeatures: features } = this.config;
    const sizes = { layers: layers.length, batch, heads, capacity, features };
    const where = { dtype: this.#numbers(), device: this.device };
    return new DecoderCache({ ...sizes, ...where });
  }

  #numbers(): DType | "int8" {
    const { weight } = this.#parts.embedding;
    if (this.hasByteCache) return "int8";
    return weight instanceof PackedMatrix ? "float32" : weight.dtype;
  }

  /**
   * The features of positions behind the last layer.
   *
   * @param ids (N, L).
   * @param cache What came before; the positions are added to it.
   * @param counts How many of the positions of each sequence are its own, int32 of (N); by default one a
   *   sequence that does not rest.
   * @returns (N, L, width).
   */
  hidden(ids: Tensor, cache: DecoderCache | null = null, counts?: Tensor): Tensor {
    requireTensor("run a Decoder", ids);
    if (ids.ndim !== 2 || ids.size === 0) {
      throw shapeError("Decoder")`
        Cannot run a Decoder on ids of shape ${ids.shape}: pass (N, L), one at least`;
    }
    if (this.config.sharesKeys) this.#requireFrozen();
    const passes = cache ? this.#passesBehind(cache, ids.shape[1]!) : this.#passes(ids, null);
    const x = this.#run(ids, passes);
    cache?.end(counts ?? cache.growth);
    return this.#parts.norm.forward(x);
  }

  /**
   * The same of whole texts, for a model that makes vectors.
   *
   * @param ids (N, L).
   * @param isText bool of (N, L): false for padding behind texts, at which nobody looks.
   * @returns (N, L, width).
   */
  encode(ids: Tensor, isText: Tensor): Tensor {
    return this.#parts.norm.forward(this.#run(ids, this.#passes(ids, isText)));
  }

  #run(ids: Tensor, { positions, layer }: Passes): Tensor {
    const { embeddingScale } = this.config;
    let x = this.#vectors(ids);
    if (embeddingScale !== 1) x = x.mul(embeddingScale);
    if (positions) x = x.add(positions);
    for (const [k, own] of this.#parts.layers.entries()) x = own.forward(x, layer(k));
    return x;
  }

  #requireFrozen(): void {
    if (!isGradEnabled() || !this.parameters().some(({ requiresGrad }) => requiresGrad)) return;
    throw new TypeError(
      `Cannot learn with ${this.work.size} ranks: several have the same heads of keys; take as many ` +
        "ranks as there are heads of keys at most, or noGrad()",
    );
  }

  /** Logits of features: (..., width) gives (..., vocabulary). */
  logits(x: Tensor): Tensor {
    const { head, embedding } = this.#parts,
      { weight } = embedding,
      { logitCap, logitScale } = this.config;
    const { work } = this, given = work.share(x);
    const own = head?.forward(given) ??
      (weight instanceof PackedMatrix ? weight.forward(given) : given.matmul(weight.transpose()));
    const counts = Array.from({ length: work.size }, (_, r) => {
      const [begin, end] = work.range(this.config.vocabulary, 1, r);
      return end - begin;
    });
    const all = work.join(own, counts);
    const scaled = logitScale === 1 ? all : all.mul(logitScale);
    return logitCap === null ? scaled : softCapped(scaled, logitCap);
  }

  /** The vectors of tokens: each rank has those of some, and zeros for the others. */
  #vectors(ids: Tensor): Tensor {
    const { work } = this, { embedding } = this.#parts;
    if (work.size === 1) return embedding.forward(ids);
    const [begin, end] = work.range(this.config.vocabulary);
    const isOwn = ids.ge(begin).logicalAnd(ids.lt(end));
    const vectors = embedding.forward(isOwn.where(ids.sub(begin), 0));
    return work.sum(isOwn.unsqueeze(-1).where(vectors, 0));
  }

  /** A pass of whole texts, which begin at the first position. */
  #passes(ids: Tensor, isText: Tensor | null): Passes {
    const length = ids.shape[1]!;
    const visible = (window: number | null) =>
      this.config.looksAhead
        ? { mask: aroundMask(isText ?? ids.ge(0), window) }
        : this.#visibleAlone(ids, length, window);
    const angles = (rotary: RotaryConfig) => {
      const { cos, sin } = this.#table(rotary, length).atLeast(length);
      return { cos: cos.slice([0, length]), sin: sin.slice([0, length]) };
    };
    const positions = this.#learnedPositions(ids.indexLike([length]));
    return this.#layerPasses(visible, angles, () => null, positions);
  }

  /** Visible positions where nothing came before. */
  #visibleAlone(like: Tensor, length: number, window: number | null): Visibility {
    if (window === null || window >= length) return { isCausal: true };
    const mask = causalMask(like.reshape([-1]).slice(0).expand([length, length]), window);
    return { mask: mask.reshape([1, 1, length, length]) };
  }

  /** A pass of what comes behind that which a cache holds. */
  #passesBehind(cache: DecoderCache, count: number): Passes {
    const isFirst = cache.length === 0 && count > 1, { capacity } = cache;
    const step = cache.begin(count), { slots, filled } = step;
    const visible = (window: number | null): Visibility =>
      isFirst ? this.#visibleAlone(slots, count, window) : { filled, window };
    const angles = (rotary: RotaryConfig) => {
      const { cos, sin } = this.#table(rotary, capacity).atLeast(capacity),
        flat = slots.reshape([-1]);
      const pick = (table: Tensor) =>
        table.indexSelect(0, flat).reshape([cache.batch, 1, count, -1]);
      return { cos: pick(cos), sin: pick(sin) };
    };
    const positions = this.#learnedPositions(slots);
    const kept = (layer: number) => ({ of: cache, layer, step, isRead: !isFirst });
    return this.#layerPasses(visible, angles, kept, positions);
  }

  #learnedPositions(slots: Tensor): Tensor | null {
    const { firstPosition } = this.config;
    return this.#parts.positions?.forward(firstPosition ? slots.add(firstPosition) : slots) ?? null;
  }

  /** Makes the common data of layers of one kind once. */
  #layerPasses(
    visible: (window: number | null) => Visibility,
    angles: (rotary: RotaryConfig) => Angles,
    cache: (layer: number) => LayerPass["cache"],
    positions: Tensor | null,
  ): Passes {
    const seen = new Map<number | null, Visibility>(), turned = new Map<RotaryConfig, Angles>();
    const layer = (k: number): LayerPass => {
      const { window, rotary }: LayerConfig = this.config.layers[k]!;
      if (!seen.has(window)) seen.set(window, visible(window));
      if (rotary && !turned.has(rotary)) turned.set(rotary, angles(rotary));
      return { visible: seen.get(window)!, angles: rotary && turned.get(rotary)!, cache: cache(k) };
    };
    return { layer, positions };
  }

  /** The angles of texts of so many positions. */
  #table(usual: RotaryConfig, reach: number): RotaryTable {
    const { beyond } = usual, rotary = beyond && reach > beyond.positions ? beyond.rotary : usual;
    const table = this.#tables.get(rotary) ?? new RotaryTable(rotary, this.device);
    this.#tables.set(rotary, table);
    return table;
  }

  /** Gives the memory of weights and tables back. */
  override dispose(): void {
    super.dispose();
    for (const table of this.#tables.values()) table[Symbol.dispose]();
    this.work[Symbol.dispose]();
  }
}
