import type { Tensor } from "../../../core/mod.ts";
import { type AnyModule, Module } from "../../../nn/module/module.ts";
import type { LayerNorm } from "../../../nn/normalization/layer_norm.ts";
import type { RMSNorm } from "../../../nn/normalization/rms_norm.ts";
import type { Projection } from "../../weights/projection.ts";
import type { LayerPart } from "./architectures/architecture.ts";
import { groupedAttention, type Visibility } from "./attention.ts";
import type { SplitWork } from "../../../distributed/tensor_parallel/split_work.ts";
import type { DecoderConfig } from "./architectures/config.ts";
import type { CacheStep, DecoderCache } from "./decoder_cache.ts";
import type { Experts } from "./experts.ts";
import { type Angles, rotated } from "./positions.ts";

/** Normalizes the features of a position. */
export type Norm = LayerNorm | RMSNorm;

/** The parts of a layer that a model has. */
export interface LayerParts {
  readonly norms: ReadonlyMap<LayerPart, Norm>;
  readonly projections: ReadonlyMap<LayerPart, Projection>;
  /** A mixture in the place of a feed-forward layer, or null. */
  readonly experts: Experts | null;
  /** True where rows for queries, keys and values lie head by head of keys. */
  readonly isGrouped: boolean;
}

/** Data of a layer's run in one pass. */
export interface LayerPass {
  readonly angles: Angles | null;
  readonly visible: Visibility;
  /** Cache of keys and values; null for none. */
  readonly cache: {
    readonly of: DecoderCache;
    readonly layer: number;
    readonly step: CacheStep;
    /** True where what it held before is looked at, too. */
    readonly isRead: boolean;
  } | null;
}

/** Attention and a feed-forward layer, each with a norm before it, some with one behind it. */
export class DecoderLayer extends Module<[x: Tensor, pass: LayerPass]> {
  readonly #config: DecoderConfig;
  readonly #parts: LayerParts;
  readonly #work: SplitWork;
  /** The parts by the names of the architecture. */
  readonly parts: ReadonlyMap<string, AnyModule>;

  /**
   * Puts a layer together.
   *
   * @param config The model's sizes.
   * @param names What the parts are called in `stateDict`.
   * @param parts The parts, or a rank's parts of them.
   * @param work The ranks that share the work.
   */
  constructor(
    config: DecoderConfig,
    names: Readonly<Partial<Record<LayerPart, string>>>,
    parts: LayerParts,
    work: SplitWork,
  ) {
    super();
    this.#work = work;
    this.#config = config;
    this.#parts = parts;
    const all = [...parts.norms, ...parts.projections];
    const own = all.map(([part, module]): [string, AnyModule] => [names[part]!, module]);
    this.parts = new Map([...own, ...parts.experts ? [["experts", parts.experts] as const] : []]);
  }

  /** The names of the parts stand by themselves. */
  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  /** Maps the features of positions, (N, L, width). */
  forward(x: Tensor, pass: LayerPass): Tensor {
    const work = this.#work, { isParallel } = this.#config;
    const normed = work.share(this.#norm("attentionNorm", x));
    const attended = this.#ended("attentionEnd", work.sum(this.#attention(normed, pass)));
    const between = x.add(attended);
    // Side by side, both read the same features, and where there is one norm, what it made of them.
    const read = isParallel && !this.#parts.norms.has("mlpNorm")
      ? normed
      : work.share(this.#norm("mlpNorm", isParallel ? x : between));
    return between.add(this.#ended("mlpEnd", work.sum(this.#feedForward(read))));
  }

  /** The term that a part of the layer adds. */
  #ended(part: LayerPart, x: Tensor): Tensor {
    const { residualScale } = this.#config, normed = this.#norm(part, x);
    return residualScale === 1 ? normed : normed.mul(residualScale);
  }

  #norm(part: LayerPart, x: Tensor): Tensor {
    return this.#parts.norms.get(part)?.forward(x) ?? x;
  }

  #project(part: LayerPart, x: Tensor): Tensor {
    return this.#parts.projections.get(part)!.forward(x);
  }

  #attention(x: Tensor, { angles, visible, cache }: LayerPass): Tensor {
    const [n, l] = x.shape as [number, number, number];
    const { headFeatures, headNorms, normsTurned, isInterleaved } = this.#config;
    const [q, k, v] = this.#queryKeyValue(x) as [Tensor, Tensor, Tensor];
    const apart = (all: Tensor) => all.reshape([n, l, -1, headFeatures]).permute([0, 2, 1, 3]);
    const turn = (heads: Tensor) => angles ? rotated(heads, angles, isInterleaved) : heads;
    const heads = (part: LayerPart, all: Tensor) => {
      if (headNorms === "all") return turn(apart(this.#norm(part, all)));
      return normsTurned ? this.#norm(part, turn(apart(all))) : turn(this.#norm(part, apart(all)));
    };
    const query = heads("queryNorm", q), key = heads("keyNorm", k), value = apart(v);
    const stored = cache && cache.of.append(cache.layer, key, value, cache.step);
    const [keys, values] = cache?.isRead
      ? stored!
      : [key, value].map((rows) => ({ rows, scales: null }));
    const seen = groupedAttention(query, keys!, values!, visible, this.#config);
    return this.#project("output", seen.permute([0, 2, 1, 3]).reshape([n, l, -1]));
  }

  #queryKeyValue(x: Tensor): Tensor[] {
    const { heads, keyHeads, headFeatures } = this.#config, lead = x.shape.slice(0, -1);
    if (!this.#parts.projections.has("queryKeyValue")) {
      return (["query", "key", "value"] as const).map((part) => this.#project(part, x));
    }
    const all = this.#project("queryKeyValue", x);
    if (!this.#parts.isGrouped) {
      const sizes = [heads, keyHeads, keyHeads].map((count) => count * headFeatures);
      return all.split(sizes, -1);
    }
    const groups = all.reshape([...lead, keyHeads, -1, headFeatures]);
    const parts = groups.split([heads / keyHeads, 1, 1], -2);
    return parts.map((part) => part.reshape([...lead, -1]));
  }

  #feedForward(x: Tensor): Tensor {
    const { projections, experts } = this.#parts, { activation } = this.#config;
    if (experts) return experts.forward(x);
    if (projections.has("gateUp")) {
      const [gate, up] = this.#project("gateUp", x).chunk(2, -1) as [Tensor, Tensor];
      return this.#project("down", activation(gate).mul(up));
    }
    const up = this.#project("up", x);
    const hidden = projections.has("gate")
      ? activation(this.#project("gate", x)).mul(up)
      : activation(up);
    return this.#project("down", hidden);
  }
}
