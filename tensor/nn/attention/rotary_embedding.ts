import { formatShape } from "../../../backend/internal.ts";
import { aTensor, requireTensor } from "../../core/apply.ts";
import { ShapeError } from "../../core/rules/errors.ts";
import { checkOptions, checkValue, type Rules, takes } from "../../core/rules/options.ts";
import { requireInteger } from "../../core/rules/promotion.ts";
import { concat, stack } from "../../ops/functional.ts";
import type { Tensor } from "../../core/tensor.ts";
import { Module } from "../module/module.ts";
import { requireSizes } from "../module/sizes.ts";

/** How {@linkcode RotaryEmbedding} is made. */
export interface RotaryEmbeddingOptions {
  /** The longest wave is so many positions times 2 pi, nearly; default 10000. */
  base?: number;
  /** True to rotate neighbours (0 with 1), as GPT-J; else halves (0 with E / 2), as Llama. */
  interleaved?: boolean;
}

const rules: Rules<RotaryEmbeddingOptions> = { base: takes.positive, interleaved: takes.bool };

/**
 * Rotary position embedding (J. Su et al., RoFormer, 2021): pairs of features are rotated by angles that
 * grow with the position, so that the product of a query and a key depends on how far they are apart.
 * It has no parameters.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const rotary = new nn.RotaryEmbedding(8);
 * const [q, k] = [Tensor.randn([1, 8]), Tensor.randn([1, 8])];
 * const product = (i: number, j: number) =>
 *   rotary.forward(q, i).mul(rotary.forward(k, j)).sum().item();
 * assertAlmostEquals(await product(3, 5), await product(13, 15), 1e-4);
 * ```
 */
export class RotaryEmbedding extends Module<[x: Tensor, start?: number | Tensor]> {
  readonly #features: number;
  readonly #base: number;
  readonly #interleaved: boolean;

  /**
   * Makes the layer.
   *
   * @param features E, features of a head; even.
   * @param options The base of the wave lengths, which features are pairs.
   * @throws {RangeError} When the features are not even.
   */
  constructor(features: number, options: RotaryEmbeddingOptions = {}) {
    super();
    requireSizes("RotaryEmbedding", { features });
    checkOptions("make a RotaryEmbedding", options, rules);
    if (features % 2 !== 0) {
      throw new RangeError(
        `Cannot make a RotaryEmbedding of ${features} features: pass an even number`,
      );
    }
    this.#features = features;
    this.#base = options.base ?? 10_000;
    this.#interleaved = options.interleaved ?? false;
  }

  /**
   * Rotates queries or keys.
   *
   * @param x (..., L, E).
   * @param start The position of the first one, default 0: a number, a tensor of one, or a tensor of
   * all L positions. A tensor, such as {@linkcode KeyValueCache.position}, needs no new kernel for
   * another position.
   * @returns A tensor of the same shape and type.
   * @throws {ShapeError} When the last axis does not have `features` elements, or the positions are
   * not as many as there are.
   * @throws {DTypeError} When positions are no integers.
   */
  forward(x: Tensor, start: number | Tensor = 0): Tensor {
    requireTensor("run RotaryEmbedding", x);
    if (x.ndim < 2 || x.shape.at(-1) !== this.#features) {
      throw new ShapeError(
        `Cannot run RotaryEmbedding on a tensor of shape ${
          formatShape(x.shape)
        }: pass (..., L, ${this.#features})`,
      );
    }
    const angles = this.#angles(x, this.#positions(x, start));
    const [cos, sin] = [angles.cos(), angles.sin()];
    const wide = x.cast(x.dtype === "float64" ? "float64" : "float32");
    const [a, b] = this.#pairs(wide);
    const turned = [a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))];
    const joined = this.#interleaved ? stack(turned, -1).reshape(x.shape) : concat(turned, -1);
    return joined.cast(x.dtype);
  }

  /** The positions of the rows, (L) or one before all rows. */
  #positions(x: Tensor, start: number | Tensor): Tensor {
    const length = x.shape.at(-2)!;
    if (typeof start === "number") {
      checkValue("run RotaryEmbedding", "start", start, takes.integer);
      return x.indexLike([length]).add(start);
    }
    checkValue("run RotaryEmbedding", "start", start, aTensor());
    requireInteger("run RotaryEmbedding", "positions", start.dtype);
    if (start.size === 1 && start.ndim <= 1) return x.indexLike([length]).add(start.reshape([1]));
    if (start.ndim === 1 && start.size === length) return start;
    throw new ShapeError(
      `Cannot run RotaryEmbedding with positions of shape ${
        formatShape(start.shape)
      }: pass one, or ${length}`,
    );
  }

  /** (L, E / 2). */
  #angles(x: Tensor, positions: Tensor): Tensor {
    const dtype = x.dtype === "float64" ? "float64" : "float32";
    const half = this.#features / 2;
    const waves = x.indexLike([half]).cast(dtype).mul(-Math.log(this.#base) / half).exp();
    return positions.cast(dtype).unsqueeze(1).mul(waves);
  }

  /** The first and the second of each pair, (..., L, E / 2). */
  #pairs(x: Tensor): [Tensor, Tensor] {
    const half = this.#features / 2;
    if (!this.#interleaved) return x.split(half, -1) as [Tensor, Tensor];
    const pairs = x.reshape([...x.shape.slice(0, -1), half, 2]);
    const pick = (k: number): Tensor => pairs.slice(...x.shape.map(() => null), k);
    return [pick(0), pick(1)];
  }
}
