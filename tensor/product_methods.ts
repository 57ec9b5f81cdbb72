/** Products and indexing by tensors. What they compute is in `ops/`. */
import * as contractions from "./ops/contractions.ts";
import * as indexing from "./ops/indexing/indexing.ts";
import { crossEntropy, type CrossEntropyOptions } from "./ops/losses.ts";
import { ImageMethods } from "./image_methods.ts";
import type { Tensor } from "./tensor.ts";

/** Matrix products, picking by indices, sorting, and the loss of classifiers. */
export abstract class ProductMethods extends ImageMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /**
   * The matrix product: (..., m, k) by (..., k, n) gives (..., m, n); leading axes broadcast, vectors
   * are rows on the left and columns on the right.
   *
   * @throws {ShapeError} When the inner sizes differ.
   * @throws {DTypeError} When one is a float and the other an integer.
   */
  matmul(b: Tensor): Tensor {
    return contractions.matmul(this.#self(), b);
  }

  /**
   * The products of matrices one by one: (b, m, k) by (b, k, n) gives (b, m, n). Nothing broadcasts:
   * `matmul` does that.
   *
   * @throws {ShapeError} When one has not three axes, or the sizes differ.
   * @throws {DTypeError} When one is a float and the other an integer.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.fromHost([[[1, 2]], [[3, 4]]]), b = Tensor.ones([2, 2, 3]);
   * assertEquals(await a.bmm(b).toArray(), [[[3, 3, 3]], [[7, 7, 7]]]);
   * ```
   */
  bmm(b: Tensor): Tensor {
    return contractions.bmm(this.#self(), b);
  }

  /**
   * The outer product of vectors (m) and (n), every element by every element: (m, n). Types meet as
   * in `mul`.
   *
   * @throws {ShapeError} When one is no vector.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const table = Tensor.fromHost([1, 2]).outer(Tensor.fromHost([1, 10]));
   * assertEquals(await table.toArray(), [[1, 10], [2, 20]]);
   * ```
   */
  outer(b: Tensor): Tensor {
    return contractions.outer(this.#self(), b);
  }

  /**
   * The rows of this table (count, features) that `indices` (...) name: (..., features).
   *
   * @throws {DTypeError} When the indices are not integers.
   * @throws {RangeError} At the next read, when one is out of range.
   */
  embedding(indices: Tensor): Tensor {
    return indexing.indexSelect(this.#self(), 0, indices, "embedding");
  }

  /**
   * Rows (or columns, ...) in the order of `indices`, whose shape replaces the axis.
   *
   * @throws {DTypeError} When the indices are not integers.
   * @throws {RangeError} At the next read, when one is out of range.
   */
  indexSelect(axis: number, indices: Tensor): Tensor {
    return indexing.indexSelect(this.#self(), axis, indices);
  }

  /**
   * `out[i][j] = x[indices[i][j]][j]` for axis 0 of a matrix, and so on, as `torch.gather`: the
   * result has the shape of `indices`.
   *
   * @throws {RangeError} At the next read, when an index is out of range.
   */
  gather(axis: number, indices: Tensor): Tensor {
    return indexing.gather(this.#self(), axis, indices);
  }

  /**
   * A copy with `source` added at `indices` along an axis: for axis 0 of a matrix
   * `out[indices[i][j]][j] += source[i][j]`. Equal indices add up, in order, the same in every run.
   *
   * @throws {RangeError} At the next read, when an index is out of range.
   */
  scatterAdd(axis: number, indices: Tensor, source: Tensor): Tensor {
    return indexing.scatterAdd(this.#self(), axis, indices, source);
  }

  /** A copy with `source` stored at `indices` along an axis; of equal indices the last wins. */
  scatter(axis: number, indices: Tensor, source: Tensor): Tensor {
    return indexing.scatterSet(this.#self(), axis, indices, source);
  }

  /**
   * 1 where the class is, else 0, along a new last axis, as int32.
   *
   * @throws {RangeError} At the next read, when an element is not one of the classes.
   */
  oneHot(classes: number): Tensor {
    return indexing.oneHot(this.#self(), classes);
  }

  /** The positions that sort an axis, as int32; stable, NaN last. */
  argsort(axis?: number, descending?: boolean): Tensor {
    return indexing.argsort(this.#self(), axis, descending);
  }

  /**
   * The elements of an axis (default the last) in order, and where they were, as int32; stable, NaN
   * last. Computes the order at once.
   */
  sort(axis?: number, descending?: boolean): { values: Tensor; indices: Tensor } {
    return indexing.sort(this.#self(), axis, descending);
  }

  /**
   * The `k` largest (or smallest) elements of an axis (default the last) in order, and where they
   * were, as int32. Computes the order at once.
   *
   * @throws {RangeError} When the axis has fewer elements.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const { values, indices } = Tensor.fromHost([3, 9, 1, 7]).topk(2);
   * assertEquals(await values.toArray(), [9, 7]);
   * assertEquals(await indices.toArray(), [1, 3]);
   * ```
   */
  topk(k: number, axis?: number, largest?: boolean): { values: Tensor; indices: Tensor } {
    return indexing.topk(this.#self(), k, axis, largest);
  }

  /**
   * The loss of a classifier, `-log(softmax(logits)[label])`, averaged over samples: logits (N, C)
   * with integer labels (N), or (N, C, d1, ...) with (N, d1, ...). Samples labelled `ignoreIndex`
   * count for nothing; there is no such label by default. Floating labels of the logits' shape are
   * probabilities: `-sum(probability * log(softmax(logits)))`.
   *
   * @param labels The class of each sample, or the probabilities of its classes.
   * @param options Weights of the classes, label smoothing, a label to ignore, another reduction than
   * the mean.
   * @throws {ShapeError} When the labels do not have the shape of the logits without their axis 1, or
   * the weight not one number for each class.
   * @throws {DTypeError} When the logits are integers.
   * @throws {RangeError} At the next read, when a label is not a class.
   */
  crossEntropy(labels: Tensor, options?: CrossEntropyOptions): Tensor {
    return crossEntropy(this.#self(), labels, options);
  }
}
