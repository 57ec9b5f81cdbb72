import type { Tensor } from "../../core/mod.ts";
import { normal } from "../module/init.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";

const rules: Rules<{ paddingIndex?: number }> = { paddingIndex: takes.whole };

/**
 * A learned vector for each of `count` things: ids of any shape (...) give (..., features).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const words = new nn.Embedding(100, 16);
 * const ids = Tensor.fromHost(Int32Array.of(4, 8, 15));
 * assertEquals(words.forward(ids).shape, [3, 16]);
 * ```
 */
export class Embedding extends Module {
  /** (count, features). */
  weight: Tensor;
  readonly #padding: number | null;

  /**
   * Makes the layer.
   *
   * @param count How many things there are.
   * @param features The length of their vectors.
   * @param options `paddingIndex`: the id whose vector is 0 at first and does not learn.
   * @throws {RangeError} When a number is not whole, or the padding is none of the things.
   */
  constructor(count: number, features: number, options: { paddingIndex?: number } = {}) {
    super();
    requireSizes("Embedding", { count, features });
    checkOptions("make an Embedding", options, rules);
    const { paddingIndex = null } = options;
    if (paddingIndex !== null && paddingIndex >= count) {
      throw new RangeError(
        `Cannot make an Embedding of ${count} with padding ${paddingIndex}: valid are 0 to ${
          count - 1
        }`,
      );
    }
    const drawn = normal([count, features]);
    this.#padding = paddingIndex;
    this.weight = parameter(
      paddingIndex === null
        ? drawn
        : drawn.maskedFill(drawn.indexLike([count]).eq(paddingIndex).unsqueeze(1), 0),
    );
  }

  /**
   * Looks the vectors of ids up.
   *
   * @throws {DTypeError} When the ids are not integers.
   * @throws {RangeError} At the next read, when an id is out of range.
   */
  forward(ids: Tensor): Tensor {
    const vectors = this.weight.embedding(ids);
    if (this.#padding === null) return vectors;
    return ids.eq(this.#padding).unsqueeze(-1).where(vectors.detach(), vectors);
  }
}
