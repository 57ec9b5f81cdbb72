/** Normalization of each sample by itself, over its last axes. */
import { formatShape, sameShape, type Shape } from "../../../backend/internal.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { Tensor } from "../../class/tensor.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { standardize } from "./batch_norm.ts";

/** Options of {@linkcode LayerNorm}. */
export interface LayerNormOptions {
  /** Added to the variance; default 1e-5. */
  eps?: number;
  /** False to leave out weight and bias; true by default. */
  affine?: boolean;
  /** False to leave out the bias only; true by default. */
  bias?: boolean;
}

/** Shapes allowed for a layer that normalizes last axes. */
const layerShape: Rule = {
  takes: "the length of the last axis, or an array with those of several",
  accepts: (value) => {
    const lengths = [value].flat();
    return lengths.length > 0 && lengths.every(takes.whole.accepts);
  },
};

/**
 * The lengths of the last axes, which a layer is made for.
 *
 * @throws {TypeError} When they are no lengths.
 */
export function lastLengths(layer: string, shape: number | Shape): Shape {
  requireValue(`make a ${layer}`, "shape", shape, layerShape);
  return typeof shape === "number" ? [shape] : [...shape];
}

/**
 * The last axes of a tensor, which have the lengths that a layer is made for.
 *
 * @throws {ShapeError} When they have others.
 */
export function lastAxes(layer: string, x: Tensor, lengths: Shape): number[] {
  requireTensor(`run ${layer}`, x);
  const first = x.ndim - lengths.length;
  if (first >= 0 && sameShape(x.shape.slice(first), lengths)) {
    return lengths.map((_, k) => first + k);
  }
  throw shapeError(layer)`
    Cannot run ${layer} on a tensor of shape ${x.shape}: its last axes must be
    ${formatShape(lengths)}`;
}

const layerRules: Rules<LayerNormOptions> = {
  eps: takes.nonNegative,
  affine: takes.bool,
  bias: takes.bool,
};

/**
 * Normalizes the last axes of each sample (J. Ba et al., Layer Normalization, 2016).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const y = new nn.LayerNorm(4).forward(Tensor.fromHost([[1, 2, 3, 4]]));
 * assertAlmostEquals(await y.square().mean().item(), 1, 1e-4);
 * ```
 */
export class LayerNorm extends Module {
  /** Factor of the normalized elements, or null. */
  weight: Tensor | null;
  /** Term added then, or null. */
  bias: Tensor | null;
  readonly #shape: Shape;
  readonly #eps: number;

  /**
   * Makes the layer.
   *
   * @param shape The lengths of the axes that are normalized over, the last ones.
   * @param options Epsilon, what to leave out.
   */
  constructor(shape: number | Shape, options: LayerNormOptions = {}) {
    super();
    this.#shape = lastLengths("LayerNorm", shape);
    checkOptions("make a LayerNorm", options, layerRules);
    const { eps = 1e-5, affine = true, bias = true } = options;
    this.weight = affine ? parameter(Tensor.ones(this.#shape)) : null;
    this.bias = affine && bias ? parameter(Tensor.zeros(this.#shape)) : null;
    this.#eps = eps;
  }

  /**
   * Normalizes each sample.
   *
   * @throws {ShapeError} When the last axes have other lengths.
   */
  forward(x: Tensor): Tensor {
    const axes = lastAxes("LayerNorm", x, this.#shape);
    const { value } = standardize(atLeastSingle(x), axes, this.#eps);
    const scaled = this.weight ? value.mul(this.weight) : value;
    return (this.bias ? scaled.add(this.bias) : scaled).cast(x.dtype);
  }
}
