import { formatShape } from "../../../backend/internal.ts";
import { compute } from "../../core/operations.ts";
import { aTensor, requireTensor, sameDevice } from "../../core/apply.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { indexSelect, scatterAdd } from "../../ops/indexing/indexing.ts";
import { requireInteger } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { normal } from "../module/init.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode EmbeddingBag}. */
export interface EmbeddingBagOptions {
  /** Join of a bag's vectors; default "mean". */
  mode?: "sum" | "mean" | "max";
}

/** Options for the ids of {@linkcode EmbeddingBag}. */
export interface BagOptions {
  /** Start of each bag in ids (N): integers (B), ascending, the first of them 0. */
  offsets?: Tensor;
  /** Factor of each vector before the sum, of the ids' shape; for mode "sum". */
  perSampleWeights?: Tensor;
}

const bagRules: Rules<BagOptions> = { offsets: aTensor(), perSampleWeights: aTensor() };
const rules: Rules<EmbeddingBagOptions> = { mode: takes.oneOf("sum", "mean", "max") };

/**
 * The sum, mean or maximum of the learned vectors of each bag of things: ids (B, N), or (N) with
 * offsets (B), give (B, features). An empty bag gives zeros.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const words = new nn.EmbeddingBag(100, 16, { mode: "sum" });
 * const ids = Tensor.fromHost(Int32Array.of(4, 8, 15, 16));
 * const offsets = Tensor.fromHost(Int32Array.of(0, 3));
 * assertEquals(words.forward(ids, { offsets }).shape, [2, 16]);
 * ```
 */
export class EmbeddingBag extends Module<[ids: Tensor, options?: BagOptions]> {
  /** (count, features). */
  weight: Tensor;
  readonly #mode: "sum" | "mean" | "max";

  /**
   * Makes the layer.
   *
   * @param count How many things there are.
   * @param features The length of their vectors.
   * @param options `mode`: "sum", "mean" (default) or "max".
   * @throws {RangeError} When a number is not whole.
   */
  constructor(count: number, features: number, options: EmbeddingBagOptions = {}) {
    super();
    requireSizes("EmbeddingBag", { count, features });
    checkOptions("make an EmbeddingBag", options, rules);
    this.weight = parameter(normal([count, features]));
    this.#mode = options.mode ?? "mean";
  }

  /**
   * Looks the vectors of ids up and reduces them, bag by bag.
   *
   * @throws {DTypeError} When the ids or offsets are not integers.
   * @throws {ShapeError} When ids have no offsets that should, or a weight does not fit.
   * @throws {RangeError} At the next read, when an id or offset is out of range.
   */
  forward(ids: Tensor, options: BagOptions = {}): Tensor {
    requireTensor("run EmbeddingBag", ids);
    checkOptions("run EmbeddingBag", options, bagRules);
    this.#check(ids, options);
    return compute(reducedBags, this.weight, this.#mode, ids, options);
  }

  #check(ids: Tensor, { offsets, perSampleWeights }: BagOptions): void {
    requireInteger("run EmbeddingBag", "ids", ids.dtype);
    const ranks = offsets ? ids.ndim === 1 && offsets.ndim === 1 : ids.ndim === 2;
    if (!ranks) {
      throw shapeError("EmbeddingBag")`
        Cannot run EmbeddingBag on ids of shape ${ids.shape} with offsets of shape
        ${offsets?.shape ?? "none"}: pass [B, N], or [N] and offsets [B]`;
    }
    if (offsets) {
      sameDevice("run EmbeddingBag on", [ids, offsets]);
      requireInteger("run EmbeddingBag", "offsets", offsets.dtype);
    }
    if (!perSampleWeights) return;
    if (this.#mode !== "sum") {
      throw dtypeError("EmbeddingBag")`
        Cannot run EmbeddingBag with perSampleWeights by "${this.#mode}": make it with mode "sum"`;
    }
    if (formatShape(perSampleWeights.shape) !== formatShape(ids.shape)) {
      throw shapeError("EmbeddingBag")`
        Cannot run EmbeddingBag on ids of shape ${ids.shape} with perSampleWeights of
        ${perSampleWeights.shape}: they must be equal`;
    }
  }
}

function reducedBags(
  weight: Tensor,
  mode: "sum" | "mean" | "max",
  ids: Tensor,
  { offsets, perSampleWeights }: BagOptions,
): Tensor {
  const looked = indexSelect(weight, 0, ids, "embeddingBag");
  const vectors = perSampleWeights ? looked.mul(perSampleWeights.unsqueeze(-1)) : looked;
  if (offsets) return reducedSegments(vectors, offsets, mode);
  // The mean and the largest of nothing would be no numbers.
  if (vectors.shape[1] === 0) return vectors.sum(1);
  return mode === "sum" ? vectors.sum(1) : mode === "mean" ? vectors.mean(1) : vectors.max(1);
}

/** Vectors (N, F) by bags that begin at offsets (B). */
function reducedSegments(vectors: Tensor, offsets: Tensor, mode: "sum" | "mean" | "max"): Tensor {
  const [count, features] = vectors.shape as [number, number], bags = offsets.size;
  if (count === 0 || bags === 0) return vectors.sum(0).mul(0).expand([bags, features]);
  const begun = offsets.cast("int32").unsqueeze(0).le(vectors.indexLike([count]).unsqueeze(1));
  const bag = begun.cast("int32").sum(1).sub(1);
  const sizes = bag.unsqueeze(0).eq(vectors.indexLike([bags]).unsqueeze(1));
  if (mode === "max") return largestOf(vectors, sizes);
  const sums = scatterAdd(
    vectors.zerosLike([bags, features]),
    0,
    bag.cast("int32").unsqueeze(1).expand([count, features]),
    vectors,
  );
  if (mode === "sum") return sums;
  return sums.div(sizes.cast("int32").sum(1).maximum(1).cast(vectors.dtype).unsqueeze(1));
}

/** The largest vector elements of each bag; `members` (B, N) says who is in it. */
function largestOf(vectors: Tensor, members: Tensor): Tensor {
  const inBag = members.unsqueeze(2);
  const largest = inBag.where(vectors.unsqueeze(0), -Infinity).max(1);
  return members.any(1).unsqueeze(1).where(largest, 0);
}
