/**
 * The fully connected layer. This folder (`layers/`) has the layers without state over time, a file
 * a kind; it imports `module/`, `ops/`, `autograd/` and `core/`. Tensors come in and go out by
 * `forward`.
 */
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { kaimingUniform, uniform } from "../module/init.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";

const rules: Rules<{ bias?: boolean }> = { bias: takes.bool };

/**
 * `x Wᵀ + b` over the last axis: (..., inFeatures) gives (..., outFeatures).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Linear(3, 2);
 * assertEquals(layer.weight.shape, [2, 3]);
 * assertEquals(layer.forward(Tensor.ones([5, 3])).shape, [5, 2]);
 * ```
 */
export class Linear extends Module {
  /** (outFeatures, inFeatures). */
  weight: Tensor;
  /** (outFeatures), or null. */
  bias: Tensor | null;

  /**
   * Makes the layer.
   *
   * @param inFeatures The length of the input's last axis.
   * @param outFeatures The length of the output's.
   * @param options `bias: false` for none.
   * @throws {RangeError} When a length is no whole number of at least 0.
   */
  constructor(inFeatures: number, outFeatures: number, options: { bias?: boolean } = {}) {
    super();
    requireSizes("Linear", { inFeatures, outFeatures });
    checkOptions("make a Linear", options, rules);
    this.weight = parameter(kaimingUniform([outFeatures, inFeatures], { slope: Math.sqrt(5) }));
    const bound = inFeatures > 0 ? 1 / Math.sqrt(inFeatures) : 0;
    this.bias = options.bias === false
      ? null
      : parameter(uniform([outFeatures], { low: -bound, high: bound }));
  }

  /**
   * Maps the last axis.
   *
   * @throws {ShapeError} When the last axis does not have `inFeatures` elements.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run Linear", x);
    const features = this.weight.shape[1]!;
    if (x.shape.at(-1) !== features) {
      throw shapeError("Linear")`
        Cannot run Linear on a tensor of shape ${x.shape}: its last axis must have ${features}
        elements`;
    }
    const product = x.matmul(this.weight.transpose());
    return this.bias ? product.add(this.bias.cast(product.dtype)) : product;
  }
}
