/** Picking, counting and drawing elements. What is computed is in `ops/`. */
import type { Shape } from "../backend/internal.ts";
import type { TensorOptions } from "./ops/creation.ts";
import * as counting from "./ops/indexing/counting.ts";
import type { BincountOptions, HistogramOptions, Unique } from "./ops/indexing/counting.ts";
import * as draws from "./ops/draws.ts";
import type { MultinomialOptions } from "./ops/draws.ts";
import type { TensorLike } from "./ops/elementwise.ts";
import type { SearchOptions } from "./ops/indexing/searching.ts";
import { searchsorted } from "./ops/indexing/searching.ts";
import * as selection from "./ops/indexing/selection.ts";
import type { Index, IndexPutOptions, RepeatOptions } from "./ops/indexing/selection.ts";
import { ReversedMethods } from "./reversed_methods.ts";
import type { Tensor } from "./tensor.ts";

/**
 * Selection by truth values and index tensors, counts of values, draws from distributions. Where the
 * size of a result depends on values, one number is read at once, which waits for the device and is
 * refused in `compile`; the elements stay on the device.
 */
export abstract class SelectionMethods extends ReversedMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /**
   * The elements where the mask is true, in row-major order, as a vector; both broadcast. Reads the
   * number of them.
   *
   * @throws {DTypeError} When the mask is not bool.
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, -2], [-3, 4]], { requiresGrad: true });
   * const positive = x.maskedSelect(x.gt(0));
   * assertEquals(await positive.toArray(), [1, 4]);
   * positive.sum().backward();
   * assertEquals(await x.grad!.toArray(), [[1, 0], [0, 1]]);
   * ```
   */
  maskedSelect(mask: Tensor): Tensor {
    return selection.maskedSelect(this.#self(), mask);
  }

  /**
   * The coordinates of the elements that are not zero, in row-major order: (count, axes), int32. Reads
   * the number of them.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2).nonzero().toArray(), [[0, 0], [1, 1]]);
   * ```
   */
  nonzero(): Tensor {
    return selection.nonzero(this.#self());
  }

  /**
   * The elements at coordinates, NumPy's advanced indexing: one entry an axis, integer tensors that
   * broadcast together, null for all of an axis; negative ones count from the end. A bool tensor
   * stands for the coordinates of what is true in it, on as many axes as it has. The axes of the
   * indices replace the indexed ones, or come first where those do not lie side by side.
   *
   * @throws {ShapeError} When indices do not broadcast, or are more than the axes.
   * @throws {DTypeError} When an index is a float.
   * @throws {RangeError} At the next read, when an index is out of range.
   * @throws {Error} In `compile`, with a mask.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.arange(6).reshape([2, 3]);
   * const rows = Tensor.fromHost(Int32Array.of(0, 1)), columns = Tensor.fromHost(Int32Array.of(2, -3));
   * assertEquals(await x.index([rows, columns]).toArray(), [2, 3]);
   * assertEquals(await x.index([null, columns]).toArray(), [[2, 0], [5, 3]]);
   * assertEquals(await x.index([x.gt(3)]).toArray(), [4, 5]);
   * ```
   */
  index(indices: readonly Index[]): Tensor {
    return selection.index(this.#self(), indices);
  }

  /**
   * A copy with `values`, which broadcast, where {@linkcode SelectionMethods.index} would read. Of
   * equal indices the last value stays; with `accumulate` they add up, in order, to what is there.
   *
   * @throws {ShapeError} As `index`, and when the values do not broadcast.
   * @throws {RangeError} At the next read, when an index is out of range.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.zeros([2, 2]), at = Tensor.fromHost(Int32Array.of(1, 1));
   * assertEquals(await x.indexPut([at, at], 5).toArray(), [[0, 0], [0, 5]]);
   * const summed = x.indexPut([at, at], 5, { accumulate: true });
   * assertEquals(await summed.toArray(), [[0, 0], [0, 10]]);
   * ```
   */
  indexPut(
    indices: readonly Index[],
    values: Tensor | number,
    options?: IndexPutOptions,
  ): Tensor {
    return selection.indexPut(this.#self(), indices, values, options);
  }

  /**
   * Every element along an axis several times in a row; of the flattened tensor without an axis.
   *
   * @param repeats How often: a number, or an integer tensor with one for each element.
   * @param axis Along which axis.
   * @param options With `outputSize`, the sum of a tensor of repeats is not read.
   * @throws {Error} In `compile`, with a tensor of repeats and no `outputSize`.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2]);
   * assertEquals(await x.repeatInterleave(2).toArray(), [1, 1, 2, 2]);
   * const times = Tensor.fromHost(Int32Array.of(0, 3));
   * assertEquals(await x.repeatInterleave(times, 0).toArray(), [2, 2, 2]);
   * ```
   */
  repeatInterleave(repeats: Tensor | number, axis?: number, options?: RepeatOptions): Tensor {
    return selection.repeatInterleave(this.#self(), repeats, axis, options);
  }

  /**
   * The distinct values in ascending order, where the elements' values stand among them (of the
   * tensor's shape), and how often each occurs. Reads the number of them. The gradient of a value goes
   * to its first element; each NaN is a value of its own.
   *
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, inverse, counts } = Tensor.fromHost([3, 1, 3]).unique();
   * assertEquals(await values.toArray(), [1, 3]);
   * assertEquals(await inverse.toArray(), [1, 0, 1]);
   * assertEquals(await counts.toArray(), [1, 2]);
   * ```
   */
  unique(): Unique {
    return counting.unique(this.#self());
  }

  /**
   * How often 0, 1, 2, ... occur in a vector of integers, as int32; or the sums of `weights`, in their
   * type. Reads the largest.
   *
   * @throws {DTypeError} When the elements are not integers.
   * @throws {RangeError} At the next read, when one is negative.
   * @throws {Error} In `compile`: the result's size depends on values.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const labels = Tensor.fromHost(Int32Array.of(2, 0, 2));
   * assertEquals(await labels.bincount({ minLength: 4 }).toArray(), [1, 0, 2, 0]);
   * ```
   */
  bincount(options?: BincountOptions): Tensor {
    return counting.bincount(this.#self(), options);
  }

  /**
   * How many elements lie in each bin, as floats, and the edges of the bins, one more. A bin holds its
   * lower edge, the last one both. NaN, and what lies outside, counts for nothing. Gradients go to the
   * weights alone.
   *
   * @param bins How many bins of equal width, or a vector of their edges, ascending.
   * @param options Range of bins of equal width, weights, density.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { counts, edges } = Tensor.fromHost([0, 1, 1, 2, 4]).histogram(2);
   * assertEquals(await counts.toArray(), [3, 2]);
   * assertEquals(await edges.toArray(), [0, 2, 4]);
   * ```
   */
  histogram(
    bins: number | Tensor,
    options?: HistogramOptions,
  ): { counts: Tensor; edges: Tensor } {
    return counting.histogram(this.#self(), bins, options);
  }

  /**
   * Where values would stand in this sorted sequence, as int32: the number of elements before them.
   * Of several sequences (..., n) each is searched for its own row of values (..., m).
   *
   * @param values A number, or a tensor: of any shape for a vector of elements.
   * @param options With `right`, behind equal elements.
   * @throws {ShapeError} When there is not one row of values for each sequence.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const sorted = Tensor.fromHost([1, 3, 3, 5]), values = Tensor.fromHost([0, 3, 9]);
   * assertEquals(await sorted.searchsorted(values).toArray(), [0, 1, 4]);
   * assertEquals(await sorted.searchsorted(values, { right: true }).toArray(), [0, 3, 4]);
   * ```
   */
  searchsorted(values: Tensor | number, options?: SearchOptions): Tensor {
    return searchsorted(this.#self(), values, options);
  }

  /**
   * Classes drawn with these weights, as int32: of (classes) `count` of them, of (rows, classes) as
   * many for each row. Weights need not add up to 1. The same seed draws the same everywhere.
   *
   * @param count How many.
   * @param options Whether a class may be drawn again; by default it may not.
   * @throws {ShapeError} When the weights have not one or two axes.
   * @throws {RangeError} When there are fewer classes than draws; at the next read, when a weight is
   * negative or not finite, or too few are not 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const drawn = Tensor.fromHost([0, 0, 1, 0]).multinomial(3, { replacement: true });
   * assertEquals(await drawn.toArray(), [2, 2, 2]);
   * ```
   */
  multinomial(count: number, options?: MultinomialOptions): Tensor {
    return draws.multinomial(this.#self(), count, options);
  }

  /**
   * 1 with the probability that each element is, else 0, in this type.
   *
   * @throws {DTypeError} When the probabilities are not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.fromHost([0, 1]).bernoulli().toArray(), [0, 1]);
   * ```
   */
  bernoulli(): Tensor {
    return draws.bernoulli(this.#self());
  }

  /**
   * Normal random numbers of a mean and a deviation, which may be tensors that broadcast: gradients go
   * to both.
   *
   * @param mean The means.
   * @param std The standard deviations.
   * @param shape The shape; that of the tensors by default.
   * @throws {ShapeError} When the tensors do not broadcast to the shape.
   * @throws {DTypeError} When one is not floating point.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(Tensor.normal(5, 0.1, [2, 3]).shape, [2, 3]);
   * assertEquals(await Tensor.normal(Tensor.fromHost([1, 2]), 0).toArray(), [1, 2]);
   * ```
   */
  static normal(
    mean: TensorLike,
    std: TensorLike,
    shape?: Shape,
    options?: TensorOptions,
  ): Tensor {
    return draws.normal(mean, std, shape, options);
  }

  /**
   * A random order: of 0 to `x - 1` for a number, of the slices along an axis (default the first) for
   * a tensor.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const rows = Tensor.permutation(Tensor.eye(3));
   * assertEquals(await rows.sum(0).toArray(), [1, 1, 1]);
   * assertEquals(await Tensor.permutation(4).sum().item(), 6);
   * ```
   */
  static permutation(x: TensorLike, axis = 0): Tensor {
    return draws.permutation(x, axis);
  }
}
