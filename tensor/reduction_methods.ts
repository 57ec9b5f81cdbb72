/** The reducing methods of tensors. What they compute, and their gradients, is in `ops/reductions.ts`. */
import { distinct } from "./core/apply.ts";
import { BitwiseMethods } from "./bitwise_methods.ts";
import type { Axes } from "./ops/axes.ts";
import * as reductions from "./ops/reductions.ts";
import * as scans from "./ops/scans.ts";
import type { ReduceOptions } from "./ops/reductions.ts";
import type { Tensor } from "./tensor.ts";
import { checkOptions, type Rules, takes } from "./core/options.ts";

const rules: Rules<ReduceOptions> = { keepDims: takes.bool };
const varianceRules: Rules<ReduceOptions & { correction?: number }> = {
  ...rules,
  correction: takes.finite,
};

/**
 * Reductions over one axis, several, or (by default) all; reduced axes go, unless `keepDims`.
 *
 * @example
 * ```ts
 * import { Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.ones([2, 3, 4]);
 * assertEquals(x.sum().shape, []);
 * assertEquals(x.sum(-1).shape, [2, 3]);
 * assertEquals(x.sum([0, 2], { keepDims: true }).shape, [1, 3, 1]);
 * ```
 */
export abstract class ReductionMethods extends BitwiseMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  #distinct(name: string, out: Tensor): Tensor {
    return distinct(name, this.#self(), out);
  }

  /** The sum; of integers and truth values in int64. */
  sum(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("sum", options, rules);
    return this.#distinct("sum", reductions.sum(this.#self(), axes, options));
  }

  /**
   * The mean.
   *
   * @throws {DTypeError} When the elements are not floating point.
   */
  mean(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("mean", options, rules);
    return reductions.mean(this.#self(), axes, options);
  }

  /** The product; of integers and truth values in int64. */
  prod(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("prod", options, rules);
    return this.#distinct("prod", reductions.prod(this.#self(), axes, options));
  }

  /**
   * The largest element; equal ones share the gradient.
   *
   * @throws {ShapeError} When an axis is empty.
   */
  max(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("max", options, rules);
    return this.#distinct("max", reductions.extreme("max", this.#self(), axes, options));
  }

  /**
   * The smallest element; equal ones share the gradient.
   *
   * @throws {ShapeError} When an axis is empty.
   */
  min(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("min", options, rules);
    return this.#distinct("min", reductions.extreme("min", this.#self(), axes, options));
  }

  /**
   * The position of the first largest element along an axis (default: of all), as int32, or int64
   * where that is too small.
   */
  argmax(axis?: number, options?: ReduceOptions): Tensor {
    checkOptions("argmax", options, rules);
    return reductions.argExtreme("argmax", this.#self(), axis, options);
  }

  /**
   * The position of the first smallest element along an axis (default: of all), as int32, or int64
   * where that is too small.
   */
  argmin(axis?: number, options?: ReduceOptions): Tensor {
    checkOptions("argmin", options, rules);
    return reductions.argExtreme("argmin", this.#self(), axis, options);
  }

  /**
   * The largest element along an axis (default: of all) and the position of the first such one, as
   * `argmax` gives it. The gradient goes to that one alone.
   *
   * @throws {ShapeError} When the axis is empty.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([[3, 9], [7, 1]]).maxWithIndices(1);
   * assertEquals(await values.toArray(), [9, 7]);
   * assertEquals(await indices.toArray(), [1, 0]);
   * ```
   */
  maxWithIndices(axis?: number, options?: ReduceOptions): { values: Tensor; indices: Tensor } {
    checkOptions("maxWithIndices", options, rules);
    return reductions.extremeWithIndices("argmax", this.#self(), axis, options);
  }

  /** The smallest element and its position, as {@linkcode ReductionMethods.maxWithIndices}. */
  minWithIndices(axis?: number, options?: ReduceOptions): { values: Tensor; indices: Tensor } {
    checkOptions("minWithIndices", options, rules);
    return reductions.extremeWithIndices("argmin", this.#self(), axis, options);
  }

  /** True where any element is not zero. */
  any(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("any", options, rules);
    return this.#distinct("any", reductions.anyAll("any", this.#self(), axes, options));
  }

  /** True where no element is zero. */
  all(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("all", options, rules);
    return this.#distinct("all", reductions.anyAll("all", this.#self(), axes, options));
  }

  /**
   * The variance; `correction` (default 1, Bessel's) is taken off the count. NaN where nothing is
   * left of it.
   *
   * @throws {DTypeError} When the elements are not floating point.
   */
  variance(axes?: Axes, options?: ReduceOptions & { correction?: number }): Tensor {
    checkOptions("take the variance", options, varianceRules);
    return reductions.variance(this.#self(), axes, options);
  }

  /** The standard deviation; `correction` as in {@linkcode ReductionMethods.variance}. */
  std(axes?: Axes, options?: ReduceOptions & { correction?: number }): Tensor {
    checkOptions("take the standard deviation", options, varianceRules);
    return reductions.std(this.#self(), axes, options);
  }

  /** The Euclidean norm, `sqrt(sum(x * x))`. */
  norm(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("norm", options, rules);
    return reductions.norm(this.#self(), axes, options);
  }

  /** `log(sum(exp(x)))`, without overflow; -Infinity of nothing. */
  logSumExp(axes?: Axes, options?: ReduceOptions): Tensor {
    checkOptions("logSumExp", options, rules);
    return reductions.logSumExp(this.#self(), axes, options);
  }

  /**
   * `exp(x) / sum(exp(x))` along an axis (default the last), without overflow.
   *
   * @throws {DTypeError} When the elements are not floating point.
   */
  softmax(axis?: number): Tensor {
    return this.#distinct("softmax", reductions.softmax(this.#self(), axis));
  }

  /** `log(softmax(x))` along an axis (default the last), without overflow. */
  logSoftmax(axis?: number): Tensor {
    return this.#distinct("logSoftmax", reductions.logSoftmax(this.#self(), axis));
  }

  /** Running sums along an axis; of integers and truth values in int64. */
  cumsum(axis: number): Tensor {
    return scans.cumsum(this.#self(), axis);
  }

  /**
   * Running products along an axis; of integers and truth values in int64.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([2, 3, 4]).cumprod(0).toArray(), [2, 6, 24]);
   * ```
   */
  cumprod(axis: number): Tensor {
    return scans.cumprod(this.#self(), axis);
  }

  /**
   * The largest element up to each one along an axis, and where it is, as int32: the last of equal
   * ones. From a NaN on all are NaN.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([1, 3, 2]).cummax(0);
   * assertEquals(await values.toArray(), [1, 3, 3]);
   * assertEquals(await indices.toArray(), [0, 1, 1]);
   * ```
   */
  cummax(axis: number): { values: Tensor; indices: Tensor } {
    return scans.cumulativeExtreme("max", this.#self(), axis);
  }

  /** The smallest element up to each one, and where it is, as {@linkcode ReductionMethods.cummax}. */
  cummin(axis: number): { values: Tensor; indices: Tensor } {
    return scans.cumulativeExtreme("min", this.#self(), axis);
  }
}
