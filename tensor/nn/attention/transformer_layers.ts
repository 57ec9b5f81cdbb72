/** The layers of transformers, as in PyTorch: A. Vaswani et al., Attention Is All You Need, 2017. */
import { aTensor } from "../../core/apply.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { Dropout } from "../layers/dropout.ts";
import { Linear } from "../layers/linear.ts";
import { nameFrom, type StateNames } from "../module/members.ts";
import { inputOf } from "../module/input.ts";
import { Module } from "../module/module.ts";
import { type AttentionOptions, MultiheadAttention } from "./multihead_attention.ts";
import { LayerNorm } from "../normalization/layer_norm.ts";
import { requireSizes } from "../module/sizes.ts";

/** Options of transformer layers. */
export interface TransformerLayerOptions {
  /** Features between the two linear layers; default 2048. */
  dimFeedforward?: number;
  /** Probability to drop an element while training; default 0.1. */
  dropout?: number;
  /** Activation between the two linear layers; default "relu". */
  activation?: "relu" | "gelu";
  /** Added to variances; default 1e-5. */
  layerNormEps?: number;
  /** True for (N, L, E) instead of (L, N, E); default false, as in PyTorch. */
  batchFirst?: boolean;
  /**
   * True to normalize what goes into attention and linear layers, not what comes out; false by
   * default.
   */
  normFirst?: boolean;
  /** False to leave out all biases; true by default. */
  bias?: boolean;
}

const rules: Rules<TransformerLayerOptions> = {
  dimFeedforward: takes.whole,
  dropout: takes.share,
  activation: takes.oneOf("relu", "gelu"),
  layerNormEps: takes.nonNegative,
  batchFirst: takes.bool,
  normFirst: takes.bool,
  bias: takes.bool,
};

/** Visible positions in a {@linkcode TransformerDecoderLayer}. */
export interface DecoderOptions extends AttentionOptions {
  /** (L, S) or (N * heads, L, S): bool, true where a target may not look in the memory; or numbers. */
  memoryMask?: Tensor;
  /** (N, S): true where the memory is only padding. */
  memoryKeyPaddingMask?: Tensor;
}

const decoderRules: Rules<DecoderOptions> = {
  mask: aTensor(),
  keyPaddingMask: aTensor(),
  isCausal: takes.bool,
  memoryMask: aTensor(),
  memoryKeyPaddingMask: aTensor(),
};

const names: StateNames = {
  selfAttn: "self_attn",
  multiheadAttn: "multihead_attn",
};

/**
 * Base of both layers: self-attention, a feed-forward part, and normalization around.
 *
 * @internal
 */
export abstract class TransformerLayer<Inputs extends unknown[]> extends Module<Inputs> {
  /** Positions look at each other. */
  selfAttn: MultiheadAttention;
  /** E to dimFeedforward. */
  linear1: Linear;
  /** dimFeedforward to E. */
  linear2: Linear;
  /** Around the first part. */
  norm1: LayerNorm;
  /** Around the second. */
  norm2: LayerNorm;
  /** Behind the activation. */
  dropout: Dropout;
  /** Behind the first part. */
  dropout1: Dropout;
  /** Behind the second. */
  dropout2: Dropout;
  /** True when parts get normalized inputs. */
  protected readonly normFirst: boolean;
  readonly #activation: "relu" | "gelu";

  /** Makes what both layers have. */
  protected constructor(features: number, heads: number, options: TransformerLayerOptions) {
    super();
    requireSizes(new.target.name, { features, heads });
    checkOptions(`make a ${new.target.name}`, options, rules);
    const { dimFeedforward = 2048, activation = "relu", normFirst = false } = options;
    const { bias = true, dropout = 0.1 } = options;
    this.selfAttn = attentionOf(features, heads, options);
    this.linear1 = new Linear(features, dimFeedforward, { bias });
    this.linear2 = new Linear(dimFeedforward, features, { bias });
    this.norm1 = normOf(features, options);
    this.norm2 = normOf(features, options);
    this.dropout = new Dropout(dropout);
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.normFirst = normFirst;
    this.#activation = activation;
  }

  /** PyTorch's names. */
  protected override stateName(property: string): string {
    return nameFrom(names, property) ?? super.stateName(property);
  }

  /** `x` and what a part makes of it, normalized before or after. */
  protected residual(x: Tensor, norm: LayerNorm, part: (x: Tensor) => Tensor): Tensor {
    return this.normFirst ? x.add(part(norm.forward(x))) : norm.forward(x.add(part(x)));
  }

  /** The two linear layers. */
  protected feedForward(x: Tensor, last: Dropout): Tensor {
    const inner = this.linear1.forward(x)[this.#activation]();
    return last.forward(this.linear2.forward(this.dropout.forward(inner)));
  }
}

function attentionOf(
  features: number,
  heads: number,
  { dropout = 0.1, bias = true, batchFirst = false }: TransformerLayerOptions,
): MultiheadAttention {
  return new MultiheadAttention(features, heads, { dropout, bias, batchFirst });
}

function normOf(
  features: number,
  { layerNormEps = 1e-5, bias = true }: TransformerLayerOptions,
): LayerNorm {
  return new LayerNorm(features, { eps: layerNormEps, bias });
}

/**
 * Self-attention, then two linear layers, each added to what goes in: (L, N, E) gives (L, N, E); with
 * `batchFirst` N comes first; without a batch there is no N. Parameters are named as PyTorch's.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.TransformerEncoderLayer(16, 2, { dimFeedforward: 32, batchFirst: true });
 * assertEquals(layer.forward(Tensor.randn([3, 5, 16]), { isCausal: true }).shape, [3, 5, 16]);
 * ```
 */
export class TransformerEncoderLayer
  extends TransformerLayer<[x: Tensor, options?: AttentionOptions]> {
  /**
   * Makes the layer.
   *
   * @param features E, the length of a position's vector.
   * @param heads Into how many parts attention divides it.
   * @param options Sizes, dropout, activation, order.
   * @throws {RangeError} When the features do not divide by the heads.
   */
  constructor(features: number, heads: number, options: TransformerLayerOptions = {}) {
    super(features, heads, options);
  }

  /**
   * Runs the layer.
   *
   * @param x (L, N, E), (N, L, E) with `batchFirst`, or (L, E).
   * @param options Masks, as {@linkcode MultiheadAttention} takes them.
   * @throws {ShapeError} When a shape does not fit.
   */
  forward(x: Tensor, options: AttentionOptions = {}): Tensor {
    const y = this.residual(
      inputOf(this, x),
      this.norm1,
      (x) => this.dropout1.forward(this.selfAttn.forward(x, x, x, options)),
    );
    return this.residual(y, this.norm2, (y) => this.feedForward(y, this.dropout2));
  }
}

/**
 * Self-attention of the target, attention to the memory that an encoder gave, then two linear layers,
 * each added to what goes in: targets (L, N, E) and a memory (S, N, E) give (L, N, E). Parameters are
 * named as PyTorch's.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.TransformerDecoderLayer(16, 2, { dimFeedforward: 32, batchFirst: true });
 * const [target, memory] = [Tensor.randn([3, 5, 16]), Tensor.randn([3, 7, 16])];
 * assertEquals(layer.forward(target, memory, { isCausal: true }).shape, [3, 5, 16]);
 * ```
 */
export class TransformerDecoderLayer
  extends TransformerLayer<[x: Tensor, memory: Tensor, options?: DecoderOptions]> {
  /** Positions look at the memory. */
  multiheadAttn: MultiheadAttention;
  /** Around the third part. */
  norm3: LayerNorm;
  /** Behind the third. */
  dropout3: Dropout;

  /**
   * Makes the layer.
   *
   * @param features E, the length of a position's vector.
   * @param heads Into how many parts attention divides it.
   * @param options Sizes, dropout, activation, order.
   * @throws {RangeError} When the features do not divide by the heads.
   */
  constructor(features: number, heads: number, options: TransformerLayerOptions = {}) {
    super(features, heads, options);
    this.multiheadAttn = attentionOf(features, heads, options);
    this.norm3 = normOf(features, options);
    this.dropout3 = new Dropout(options.dropout ?? 0.1);
  }

  /**
   * Runs the layer.
   *
   * @param x The target: (L, N, E), (N, L, E) with `batchFirst`, or (L, E).
   * @param memory What the encoder gave: (S, N, E), (N, S, E), or (S, E).
   * @param options Masks; `isCausal` is about the target.
   * @throws {ShapeError} When a shape does not fit.
   */
  forward(x: Tensor, memory: Tensor, options: DecoderOptions = {}): Tensor {
    checkOptions("run TransformerDecoderLayer", options, decoderRules);
    const { memoryMask, memoryKeyPaddingMask, ...own } = options;
    const toMemory: AttentionOptions = {
      ...(memoryMask && { mask: memoryMask }),
      ...(memoryKeyPaddingMask && { keyPaddingMask: memoryKeyPaddingMask }),
    };
    const seen = this.residual(
      inputOf(this, x),
      this.norm1,
      (x) => this.dropout1.forward(this.selfAttn.forward(x, x, x, own)),
    );
    const told = this.residual(
      seen,
      this.norm2,
      (y) => this.dropout2.forward(this.multiheadAttn.forward(y, memory, memory, toMemory)),
    );
    return this.residual(told, this.norm3, (y) => this.feedForward(y, this.dropout3));
  }
}
