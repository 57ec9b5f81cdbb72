/**
 * Attention with several heads. This folder (`attention/`) has attention and the layers of
 * transformers; it imports `layers/`, `module/`, `ops/`, `autograd/` and `core/`.
 */
import { backendOf } from "../../../backend/internal.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { dropout } from "../layers/dropout.ts";
import { xavierUniform } from "../module/init.ts";
import { Linear } from "../layers/linear.ts";
import { nameFrom, type StateNames } from "../module/members.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { attentionWeights, scaledDotProductAttention } from "./scaled_dot_product_attention.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { aTensor, requireTensor } from "../../core/apply.ts";

/** Fewer rows are mapped sooner than copied (PoCL 3.1: 768 of 128 take 0.28 ms, 0.15 with the copy). */
const MIN_JOINED_ROWS = 256;

/** Options of a {@linkcode MultiheadAttention}. */
export interface MultiheadAttentionOptions {
  /** Probability to drop a weight while training; default 0. */
  dropout?: number;
  /** False to leave out all biases; true by default. */
  bias?: boolean;
  /** True for (N, L, E) instead of (L, N, E); default false, as in PyTorch. */
  batchFirst?: boolean;
}

/** Visible positions in {@linkcode MultiheadAttention}. */
export interface AttentionOptions {
  /** (L, S) or (N * heads, L, S): bool, true where a query may not look; or numbers to add. */
  mask?: Tensor;
  /** (N, S): true where there is no key, only padding. */
  keyPaddingMask?: Tensor;
  /**
   * True when a query may look at its own position and the ones before it only; false by default.
   */
  isCausal?: boolean;
}

const rules: Rules<MultiheadAttentionOptions> = {
  dropout: takes.share,
  bias: takes.bool,
  batchFirst: takes.bool,
};
const attentionRules: Rules<AttentionOptions> = {
  mask: aTensor(),
  keyPaddingMask: aTensor(),
  isCausal: takes.bool,
};

/** Result of attention: the output, and where each query looked. */
export interface AttentionResult {
  /** Of the query's shape. */
  readonly output: Tensor;
  /** (N, heads, L, S), rows sum to 1. */
  readonly weights: Tensor;
}

const names: StateNames = {
  inProjWeight: "in_proj_weight",
  inProjBias: "in_proj_bias",
  outProj: "out_proj",
};

/**
 * Attention with several heads (A. Vaswani et al., Attention Is All You Need, 2017): queries (L, N, E)
 * look at keys (S, N, E) and take a mean of their values. With `batchFirst`, N comes first; without a
 * batch there is no N.
 *
 * @example Self-attention over a sequence, from each position back
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const attention = new nn.MultiheadAttention(32, 4, { batchFirst: true });
 * const x = Tensor.randn([2, 10, 32]);
 * assertEquals(attention.forward(x, x, x, { isCausal: true }).shape, [2, 10, 32]);
 * ```
 */
export class MultiheadAttention
  extends Module<[query: Tensor, key?: Tensor, value?: Tensor, options?: AttentionOptions]> {
  /** (3 * features, features): the projections of query, key and value. */
  inProjWeight: Tensor;
  /** (3 * features), or null. */
  inProjBias: Tensor | null;
  /** Layer that joins the heads. */
  outProj: Linear;
  readonly #features: number;
  readonly #heads: number;
  readonly #dropout: number;
  readonly #batchFirst: boolean;

  /**
   * Makes the layer.
   *
   * @param features E, the length of queries, keys and values.
   * @param heads Into how many parts they are divided.
   * @param options Dropout, biases, the place of the batch.
   * @throws {RangeError} When the features do not divide by the heads.
   */
  constructor(features: number, heads: number, options: MultiheadAttentionOptions = {}) {
    super();
    requireSizes("MultiheadAttention", { features, heads });
    checkOptions("make a MultiheadAttention", options, rules);
    if (!(heads >= 1) || features % heads !== 0) {
      throw new RangeError(
        `Cannot make attention with ${heads} heads: ${features} features do not divide by them`,
      );
    }
    const { dropout = 0, bias = true, batchFirst = false } = options;
    this.inProjWeight = parameter(xavierUniform([3 * features, features]));
    this.inProjBias = bias ? parameter(Tensor.zeros([3 * features])) : null;
    this.outProj = new Linear(features, features, { bias });
    if (this.outProj.bias) this.outProj.bias = parameter(Tensor.zeros([features]));
    this.#features = features;
    this.#heads = heads;
    this.#dropout = dropout;
    this.#batchFirst = batchFirst;
  }

  /** PyTorch's names. */
  protected override stateName(property: string): string {
    return nameFrom(names, property) ?? super.stateName(property);
  }

  /**
   * Lets each query look at the keys.
   *
   * @param query What looks.
   * @param key What is looked at; default: the query.
   * @param value What is taken; default: the key.
   * @param options Masks.
   * @returns A tensor of the query's shape.
   * @throws {ShapeError} When shapes do not fit each other.
   */
  forward(query: Tensor, key = query, value = key, options: AttentionOptions = {}): Tensor {
    const parts = this.#prepare(query, key, value, options);
    const mask = this.#openMask(parts.queries, parts.keys, options);
    const heads = scaledDotProductAttention(parts.queries, parts.keys, parts.values, {
      ...(mask && { mask }),
      isCausal: options.isCausal ?? false,
      dropout: this.training ? this.#dropout : 0,
    });
    return this.#join(heads, query.ndim === 3);
  }

  /**
   * Lets each query look at the keys as `forward` does, and gives the weights, too. The key is the
   * query by default, and the value the key.
   */
  attend(query: Tensor, key = query, value = key, options: AttentionOptions = {}): AttentionResult {
    const { queries, keys, values } = this.#prepare(query, key, value, options);
    const mask = this.#openMask(queries, keys, options);
    const weights = attentionWeights(queries, keys, {
      ...(mask && { mask }),
      isCausal: options.isCausal ?? false,
    });
    const used = this.training ? dropout(weights, this.#dropout) : weights;
    return { output: this.#join(used.matmul(values), query.ndim === 3), weights };
  }

  /** Queries, keys and values of all heads, (N, heads, L, E / heads). */
  #prepare(query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions): Heads {
    checkOptions("attend", options, attentionRules);
    for (const x of [query, key, value]) requireTensor("attend", x);
    // Each once: the same tensor stays the same, and is projected by one product.
    const batches = new Map([query, key, value].map((x) => [x, this.#batchOf(x, query.ndim)]));
    const [q, k, v] = [query, key, value].map((x) => batches.get(x)!) as [Tensor, Tensor, Tensor];
    this.#check(q, k, v);
    const [queries, keys, values] = this.#project(q, k, v);
    return { queries, keys, values };
  }

  /** Heads (N, heads, L, E / heads) side by side, mapped, in the order of axes that the query had. */
  #join(heads: Tensor, isBatch: boolean): Tensor {
    const [n, , length] = heads.shape as [number, number, number];
    const joined = heads.transpose(1, 2).reshape([n, length, this.#features]);
    const { joinsHeads } = backendOf(heads.device).capabilities;
    const isLong = n * length >= MIN_JOINED_ROWS;
    const output = this.outProj.forward(joinsHeads && isLong ? joined.contiguous() : joined);
    if (!isBatch) return output.squeeze(0);
    return this.#batchFirst ? output : output.transpose(0, 1);
  }

  /** As (N, L, E). */
  #batchOf(x: Tensor, rank: number): Tensor {
    if (x.ndim !== rank || rank !== 2 && rank !== 3 || x.shape.at(-1) !== this.#features) {
      throw shapeError("MultiheadAttention")`
        Cannot attend with a tensor of shape ${x.shape}: pass
        ${this.#batchFirst ? "[N, L, E]" : "[L, N, E]"} or [L, E] with E = ${this.#features}, all
        of one kind`;
    }
    if (rank === 2) return x.unsqueeze(0);
    return this.#batchFirst ? x : x.transpose(0, 1);
  }

  #check(query: Tensor, key: Tensor, value: Tensor): void {
    const fits = query.shape[0] === key.shape[0] && `${key.shape}` === `${value.shape}`;
    if (fits) return;
    throw shapeError("MultiheadAttention")`
      Cannot attend with a query of shape ${query.shape}, keys of ${key.shape} and values of
      ${value.shape}: batches must be equal, and each key have a value`;
  }

  /** The projections, divided into heads: (N, heads, L, E / heads). */
  #project(query: Tensor, key: Tensor, value: Tensor): [Tensor, Tensor, Tensor] {
    const self = query === key && key === value;
    const parts = self
      ? this.#linear(query, 0, 3).split(this.#features, -1)
      : [query, key, value].map((x, k) => this.#linear(x, k, 1));
    return parts.map((part) => {
      const [n, length] = part.shape as [number, number];
      return part.reshape([n, length, this.#heads, this.#features / this.#heads]).transpose(1, 2);
    }) as [Tensor, Tensor, Tensor];
  }

  /** `count` projections from the one numbered `first`. */
  #linear(x: Tensor, first: number, count: number): Tensor {
    const rows = [first * this.#features, (first + count) * this.#features] as const;
    const part = (parameter: Tensor): Tensor => count === 3 ? parameter : parameter.slice(rows);
    const product = x.matmul(part(this.inProjWeight).transpose());
    if (!this.inProjBias) return product;
    return product.add(part(this.inProjBias).cast(product.dtype));
  }

  /** Both masks in one, as `scaledDotProductAttention` takes it: true where a query may look. */
  #openMask(
    queries: Tensor,
    keys: Tensor,
    { mask, keyPaddingMask }: AttentionOptions,
  ): Tensor | null {
    const [n, heads, l] = queries.shape as [number, number, number], s = keys.shape[2]!;
    const padding = keyPaddingMask?.reshape([n, 1, 1, s]) ?? null;
    if (!mask) return padding && padding.logicalNot();
    const each = mask.ndim === 3 ? mask.reshape([n, heads, l, s]) : mask;
    if (mask.dtype !== "bool") return padding ? each.maskedFill(padding, -Infinity) : each;
    return (padding ? each.logicalOr(padding) : each).logicalNot();
  }
}

/** Inputs of {@linkcode MultiheadAttention}'s heads. */
interface Heads {
  readonly queries: Tensor;
  readonly keys: Tensor;
  readonly values: Tensor;
}
