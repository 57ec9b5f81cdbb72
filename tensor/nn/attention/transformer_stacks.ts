/** Stacks of transformer layers, as in PyTorch. */
import { requireValue, takes } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import type { LayerNorm } from "../normalization/layer_norm.ts";
import { ModuleList } from "../module/containers.ts";
import { type AnyModule, Module } from "../module/module.ts";
import type { AttentionOptions } from "./multihead_attention.ts";
import type {
  DecoderOptions,
  TransformerDecoderLayer,
  TransformerEncoderLayer,
} from "./transformer_layers.ts";

function listOf<M extends AnyModule>(name: string, make: () => M, count: number): ModuleList<M> {
  requireValue(`make a ${name}`, "make", make, takes.callback);
  requireValue(`make a ${name}`, "count", count, takes.count);
  return new ModuleList(Array.from({ length: count }, make));
}

/**
 * Encoder layers one after the other.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = () => new nn.TransformerEncoderLayer(16, 2, { dimFeedforward: 32 });
 * const encoder = new nn.TransformerEncoder(layer, 3, new nn.LayerNorm(16));
 * assertEquals(encoder.forward(Tensor.randn([5, 2, 16])).shape, [5, 2, 16]);
 * ```
 */
export class TransformerEncoder extends Module<[x: Tensor, options?: AttentionOptions]> {
  /** The layers, from the input on. */
  layers: ModuleList<TransformerEncoderLayer>;
  /** Normalizes the last output; null for none. */
  norm: LayerNorm | null;

  /**
   * Makes the stack.
   *
   * @param make Makes a layer: each is one of its own.
   * @param count How many layers.
   * @param norm Normalizes the last output.
   */
  constructor(make: () => TransformerEncoderLayer, count: number, norm: LayerNorm | null = null) {
    super();
    this.layers = listOf("TransformerEncoder", make, count);
    this.norm = norm;
  }

  /**
   * Runs the layers.
   *
   * @param x (L, N, E), (N, L, E) with `batchFirst`, or (L, E).
   * @param options Masks for each layer.
   */
  forward(x: Tensor, options: AttentionOptions = {}): Tensor {
    let y = x;
    for (const layer of this.layers) y = layer.forward(y, options);
    return this.norm === null ? y : this.norm.forward(y);
  }
}

/** Decoder layers one after the other, each of which looks at the same memory. */
export class TransformerDecoder
  extends Module<[x: Tensor, memory: Tensor, options?: DecoderOptions]> {
  /** The layers, from the input on. */
  layers: ModuleList<TransformerDecoderLayer>;
  /** Normalizes the last output; null for none. */
  norm: LayerNorm | null;

  /**
   * Makes the stack.
   *
   * @param make Makes a layer: each is one of its own.
   * @param count How many layers.
   * @param norm Normalizes the last output.
   */
  constructor(make: () => TransformerDecoderLayer, count: number, norm: LayerNorm | null = null) {
    super();
    this.layers = listOf("TransformerDecoder", make, count);
    this.norm = norm;
  }

  /**
   * Runs the layers.
   *
   * @param x The target: (L, N, E), (N, L, E) with `batchFirst`, or (L, E).
   * @param memory What the encoder gave.
   * @param options Masks for each layer.
   */
  forward(x: Tensor, memory: Tensor, options: DecoderOptions = {}): Tensor {
    let y = x;
    for (const layer of this.layers) y = layer.forward(y, memory, options);
    return this.norm === null ? y : this.norm.forward(y);
  }
}
