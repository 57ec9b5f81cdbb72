/** The rearranging methods of tensors. What they do, and their gradients, is in `ops/shaping.ts`. */
import { formatShape, type Shape } from "../backend/internal.ts";
import { derived, distinct } from "./core/apply.ts";
import { ShapeError } from "./core/errors.ts";
import { type Axes, normalizeAxis } from "./ops/axes.ts";
import * as pieces from "./ops/indexing/pieces.ts";
import * as shaping from "./ops/shaping.ts";
import type { Range } from "./ops/shaping.ts";
import { ReductionMethods } from "./reduction_methods.ts";
import type { Tensor } from "./tensor.ts";
import { shown } from "./core/options.ts";

/** Views: they cost nothing by themselves and fuse into what reads them. Axes may be negative. */
export abstract class ShapeMethods extends ReductionMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  #distinct(name: string, out = this.#self()): Tensor {
    return distinct(name, this.#self(), out);
  }

  /**
   * The same elements in another shape; one axis may be -1 and is computed.
   *
   * @throws {ShapeError} When the elements do not fill it.
   */
  reshape(shape: Shape): Tensor {
    return this.#distinct("reshape", shaping.reshape(this.#self(), shape));
  }

  /** The axes from `start` to `end`, both included, joined to one; a scalar becomes [1]. */
  flatten(start = 0, end = -1): Tensor {
    const { shape, ndim } = this;
    if (ndim === 0) return this.reshape([1]);
    const [a, b] = [normalizeAxis("flatten", start, shape), normalizeAxis("flatten", end, shape)];
    if (a > b) {
      throw new ShapeError(`Cannot flatten the axes ${start} to ${end} of ${formatShape(shape)}`);
    }
    const joined = shape.slice(a, b + 1).reduce((x, y) => x * y, 1);
    return this.reshape([...shape.slice(0, a), joined, ...shape.slice(b + 1)]);
  }

  /**
   * The axes in another order.
   *
   * @throws {ShapeError} When an axis is missing or named twice.
   */
  permute(axes: readonly number[]): Tensor {
    return this.#distinct("permute", shaping.permute(this.#self(), axes));
  }

  /** Two axes exchanged; by default the last two. */
  transpose(a = -2, b = -1): Tensor {
    if (this.ndim < 2 && a === -2 && b === -1) return this.#distinct("transpose");
    const order = this.shape.map((_, axis) => axis);
    const [x, y] = [
      normalizeAxis("transpose", a, this.shape),
      normalizeAxis("transpose", b, this.shape),
    ];
    [order[x], order[y]] = [order[y]!, order[x]!];
    return this.permute(order);
  }

  /**
   * Axes of size 1 repeated without copying; -1 keeps an axis, leading axes may be added.
   *
   * @throws {ShapeError} When another axis would change its size.
   */
  expand(shape: Shape): Tensor {
    return this.#distinct("expand", shaping.expand(this.#self(), shape));
  }

  /**
   * The whole tensor repeated along each axis, as often as `times` says; more numbers than axes add
   * axes in front.
   */
  repeat(times: readonly number[]): Tensor {
    const lead = shaping.listOf("repeat", times).length - this.ndim;
    if (lead < 0 || times.some((n) => !Number.isInteger(n) || n < 0)) {
      throw new ShapeError(
        `Cannot repeat a tensor of shape ${
          formatShape(this.shape)
        } by [${times}]: pass how often ` +
          `for each axis`,
      );
    }
    const shape = [...new Array<number>(lead).fill(1), ...this.shape];
    const spread = shape.flatMap((n, k) => [times[k]!, n]);
    return this.reshape(shape.flatMap((n) => [1, n])).expand(spread)
      .reshape(shape.map((n, k) => n * times[k]!));
  }

  /** Without its axes of size 1, or without one of them. */
  squeeze(axis?: number): Tensor {
    if (axis === undefined) return this.reshape(this.shape.filter((n) => n !== 1));
    const at = normalizeAxis("squeeze", axis, this.shape);
    return this.shape[at] === 1
      ? this.reshape(this.shape.filter((_, k) => k !== at))
      : this.#distinct("squeeze");
  }

  /** With a new axis of size 1 in front of axis `axis`. */
  unsqueeze(axis: number): Tensor {
    const at = normalizeAxis("unsqueeze", axis, this.shape, this.ndim + 1);
    return this.reshape([...this.shape.slice(0, at), 1, ...this.shape.slice(at)]);
  }

  /** The elements along axes in reverse order. */
  flip(axes: Axes): Tensor {
    if (arguments.length > 1) {
      throw new TypeError(`Cannot flip by ${shown([...arguments])}: pass several axes as an array`);
    }
    return this.#distinct("flip", shaping.flip(this.#self(), axes));
  }

  /** The elements along an axis moved by `shift`; what leaves at the end comes back at the front. */
  roll(shift: number, axis = 0): Tensor {
    const at = normalizeAxis("roll", axis, this.shape);
    const n = this.shape[at]!;
    if (!Number.isInteger(shift)) {
      throw new RangeError(`Cannot roll by ${shown(shift)}: pass a whole number`);
    }
    const by = n === 0 ? 0 : ((shift % n) + n) % n;
    if (by === 0) return this.#distinct("roll");
    const part = (start: number, end: number): Tensor =>
      this.slice(...this.shape.map((_, k): Range => k === at ? [start, end] : null));
    return shaping.concat([part(n - by, n), part(0, n - by)], at);
  }

  /**
   * `value` (default 0) put around the elements, [before, after] for each axis; negative widths cut
   * off.
   *
   * @throws {ShapeError} When there is not one pair an axis, or more is cut off than there is.
   */
  pad(widths: readonly (readonly [number, number])[], value?: number): Tensor {
    return this.#distinct("pad", shaping.pad(this.#self(), widths, value));
  }

  /**
   * Basic indexing, one entry an axis: a number picks (and drops the axis), [start, stop, step?]
   * slices, null keeps all. Negative positions count from the end, steps may be negative. Behind the
   * last axis there are axes of size 1.
   *
   * @throws {RangeError} When a picked position is out of range, or a step is 0.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const m = Tensor.arange(6).reshape([2, 3]);
   * assertEquals(await m.slice(null, [null, null, 2]).toArray(), [[0, 2], [3, 5]]);
   * assertEquals(await m.slice(-1).toArray(), [3, 4, 5]);
   * ```
   */
  slice(...ranges: Range[]): Tensor {
    return this.#distinct("slice", shaping.slice(this.#self(), ranges));
  }

  /**
   * A copy of this tensor in which `value` (broadcast) stands in the part that `ranges` names.
   *
   * @param ranges As {@linkcode ShapeMethods.slice} takes them.
   * @param value What to put there.
   */
  sliceAssign(ranges: readonly Range[], value: Tensor | number): Tensor {
    return this.#distinct("sliceAssign", shaping.sliceAssign(this.#self(), ranges, value));
  }

  /**
   * Parts of `size` along an axis (the last may be shorter), or of the given sizes.
   *
   * @throws {ShapeError} When the sizes do not add up to the axis.
   */
  split(size: number | readonly number[], axis = 0): Tensor[] {
    const at = normalizeAxis("split", axis, this.shape);
    const n = this.shape[at]!;
    const fail = (): ShapeError =>
      new ShapeError(
        `Cannot split axis ${axis} of ${formatShape(this.shape)} by ${
          shown([size].flat())
        }: pass a whole number ` +
          `of at least 1, or sizes that add up to ${n}`,
      );
    const isCount = Number.isInteger(size) && size as number >= 1;
    if (!isCount && !Array.isArray(size)) throw fail();
    const sizes = typeof size === "number"
      ? Array.from(
        { length: Math.max(1, Math.ceil(n / size)) },
        (_, k) => Math.min(size, n - k * size),
      )
      : size;
    const bad = sizes.some((s) => !(Number.isInteger(s) && s >= 0));
    if (bad || sizes.reduce((a, b) => a + b, 0) !== n) throw fail();
    let start = 0;
    return sizes.map((length) => {
      const range: Range = [start, start += length];
      return this.slice(...this.shape.map((_, k) => k === at ? range : null));
    });
  }

  /**
   * At most `count` parts of equal size along an axis; the last may be shorter. As `torch.chunk`, it
   * gives fewer where the axis does not divide into as many.
   *
   * @throws {RangeError} When the count is not a whole number of at least 1.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [query, key, value] = Tensor.arange(6).chunk(3) as [Tensor, Tensor, Tensor];
   * assertEquals(await query.toArray(), [0, 1]);
   * assertEquals([key.shape, value.shape], [[2], [2]]);
   * ```
   */
  chunk(count: number, axis?: number): Tensor[] {
    return pieces.chunk(this.#self(), count, axis);
  }

  /**
   * The slices along an axis (default the first), each without it: rows of a matrix.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const [x, y] = Tensor.fromHost([[1, 2], [3, 4]]).unbind(1) as [Tensor, Tensor];
   * assertEquals([await x.toArray(), await y.toArray()], [[1, 3], [2, 4]]);
   * ```
   */
  unbind(axis?: number): Tensor[] {
    return pieces.unbind(this.#self(), axis);
  }

  /** The same value in a tensor of its own, in memory of its own; differentiable. */
  clone(): Tensor {
    return derived("clone", this.#self(), { kind: "copy" }, this.shape, this.dtype, (g) => [g]);
  }

  /** The diagonal of the last two axes, or of a vector the matrix that has it. */
  diagonal(): Tensor {
    if (this.ndim === 0) {
      throw new ShapeError("Cannot take the diagonal of a scalar: it has no axes");
    }
    if (this.ndim === 1) {
      const n = this.size;
      return eyeLike(this.#self(), n).ne(0).where(this.unsqueeze(1), this.zerosLike([1]));
    }
    return shaping.diagonalView(this.#self());
  }

  /** The lower triangle of the last two axes, zeros above the given diagonal. */
  tril(diagonal = 0): Tensor {
    return this.#triangle("tril", diagonal).where(this.#self(), this.zerosLike());
  }

  /** The upper triangle of the last two axes, zeros below the given diagonal. */
  triu(diagonal = 0): Tensor {
    return this.#triangle("triu", diagonal, -1).where(this.zerosLike(), this.#self());
  }

  #triangle(op: string, diagonal: number, offset = 0): Tensor {
    if (this.ndim < 2 || !Number.isInteger(diagonal)) {
      throw new ShapeError(
        `Cannot take the ${op} of a tensor of shape ${
          formatShape(this.shape)
        }: it takes matrices, ` +
          `and a whole number`,
      );
    }
    const [rows, columns] = this.shape.slice(-2) as [number, number];
    const row = this.indexLike([rows]).unsqueeze(1), column = this.indexLike([columns]);
    return column.le(row.add(diagonal + offset));
  }

  /**
   * The same value, held in memory while a schedule runs: what reads it loads it instead of computing
   * it again.
   */
  contiguous(): Tensor {
    return derived(
      "contiguous",
      this.#self(),
      { kind: "copy" },
      this.shape,
      this.dtype,
      (g) => [g],
    );
  }

  /**
   * The same value, cut off from `backward`. It stays what it is when this tensor is assigned another
   * one, or is disposed of.
   */
  detach(): Tensor {
    return derived("detach", this.#self(), { kind: "reshape" }, this.shape, this.dtype, null);
  }

  /** A tensor of the same device full of `value`. */
  abstract fullLike(value: number, shape?: Shape): Tensor;
  /** A tensor of the same device full of zeros. */
  abstract zerosLike(shape?: Shape): Tensor;
  /** A tensor of the same device full of ones. */
  abstract onesLike(shape?: Shape): Tensor;
  /** 0, 1, 2, ... on the same device, as int32. */
  abstract indexLike(shape: Shape): Tensor;
}

function eyeLike(x: Tensor, n: number): Tensor {
  return x.indexLike([n]).unsqueeze(1).eq(x.indexLike([n])).cast(x.dtype);
}
