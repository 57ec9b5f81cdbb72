import { isFloat, type Shape } from "../../../backend/internal.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { result } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { Module } from "../module/module.ts";
import { lastAxes, lastLengths } from "./layer_norm.ts";
import { parameter } from "../module/parameter.ts";

/** Options of {@linkcode RMSNorm}. */
export interface RMSNormOptions {
  /** Added to the mean square; default the distance from 1 to the next float32, 2 ** -23. */
  eps?: number;
  /** False to leave out the weight; true by default. */
  affine?: boolean;
}

const rules: Rules<RMSNormOptions> = { eps: takes.nonNegative, affine: takes.bool };

/** `x / sqrt(mean(x ** 2) + eps)` over axes, with the gradient in closed form. */
function scaleToUnit(x: Tensor, axes: readonly number[], eps: number): Tensor {
  const scaleOf = (x: Tensor): Tensor => x.square().mean(axes, { keepDims: true }).add(eps).rsqrt();
  const { value, scale } = withoutGrad(() => {
    const detached = x.detach(), scale = scaleOf(detached);
    return { value: detached.mul(scale), scale };
  });
  return result("RMSNorm", [x], value, (g, y) => {
    const factor = isGradEnabled() ? scaleOf(x) : scale;
    return [factor.mul(g.sub(y.mul(g.mul(y).mean(axes, { keepDims: true }))))];
  });
}

/**
 * Scales the last axes of each sample to a mean square of 1; the mean stays (B. Zhang, R. Sennrich,
 * Root Mean Square Layer Normalization, 2019).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const y = new nn.RMSNorm(4).forward(Tensor.fromHost([[1, 2, 3, 4]]));
 * assertAlmostEquals(await y.square().mean().item(), 1, 1e-4);
 * ```
 */
export class RMSNorm extends Module {
  /** Factor of the scaled elements, or null. */
  weight: Tensor | null;
  readonly #shape: Shape;
  readonly #eps: number;

  /**
   * Makes the layer.
   *
   * @param shape The lengths of the axes that are normalized over, the last ones.
   * @param options Epsilon, what to leave out.
   */
  constructor(shape: number | Shape, options: RMSNormOptions = {}) {
    super();
    this.#shape = lastLengths("RMSNorm", shape);
    checkOptions("make a RMSNorm", options, rules);
    const { eps = 2 ** -23, affine = true } = options;
    this.weight = affine ? parameter(Tensor.ones(this.#shape)) : null;
    this.#eps = eps;
  }

  /**
   * Normalizes each sample.
   *
   * @throws {ShapeError} When the last axes have other lengths.
   * @throws {DTypeError} When the elements are not floating point.
   */
  forward(x: Tensor): Tensor {
    const axes = lastAxes("RMSNorm", x, this.#shape);
    requireFloat(x);
    const value = compute(scaleToUnit, atLeastSingle(x), axes, this.#eps);
    return (this.weight ? value.mul(this.weight) : value).cast(x.dtype);
  }
}

function requireFloat({ dtype }: Tensor): void {
  if (isFloat(dtype)) return;
  throw dtypeError("RMSNorm")`Cannot run RMSNorm on ${dtype}: cast it with .cast("float32")`;
}
