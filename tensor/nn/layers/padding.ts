/** Padding of images (N, C, H, W), and of sequences and volumes, as modules. */
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Sizes } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";
import { Module } from "../module/module.ts";
import { requireValue, takes, tupleFrom } from "../../core/rules/options.ts";

/** Elements before and behind each axis, the first axis first. */
type Widths = [before: number, behind: number][];

/**
 * The common part of padding along one, two or three axes.
 *
 * @internal
 */
export abstract class Padding extends Module {
  readonly #dims: number;
  /** [before, after] for each of the last axes. */
  readonly #widths: Widths;
  readonly #fill: (x: Tensor, widths: Widths) => Tensor;

  /** Makes a layer that pads the last `dims` axes. */
  constructor(padding: Sizes, dims: number, fill: (x: Tensor, widths: Widths) => Tensor) {
    super();
    const sides = 2 * dims;
    requireValue(`make a ${new.target.name}`, "padding", padding, tupleFrom(-Infinity, sides));
    const list = typeof padding === "number" ? new Array<number>(sides).fill(padding) : padding;
    this.#widths = Array.from({ length: dims }, (_, axis): [number, number] => {
      const at = 2 * (dims - 1 - axis);
      return [list[at]!, list[at + 1]!];
    });
    this.#dims = dims;
    this.#fill = fill;
  }

  /**
   * Pads the last axes.
   *
   * @throws {ShapeError} When the axes or widths do not fit.
   */
  forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    const dims = this.#dims;
    if (x.ndim === dims + 1 || x.ndim === dims + 2) {
      const wider = this.#fill(x, this.#widths.map(([a, b]) => [Math.max(0, a), Math.max(0, b)]));
      if (this.#widths.every(([a, b]) => a >= 0 && b >= 0)) return wider;
      const cut = this.#widths.map(([a, b]): [number, number] => [Math.min(0, a), Math.min(0, b)]);
      return constant(wider, cut, 0);
    }
    throw shapeError(this.constructor.name)`
      Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
      ${dims + 2} axes, or ${dims + 1} without a batch`;
  }
}

/** Fills with one number. */
function constant(x: Tensor, widths: Widths, value: number): Tensor {
  const none = x.shape.slice(widths.length).map((): [number, number] => [0, 0]);
  return x.pad([...none, ...widths], value);
}

const zeros = (x: Tensor, widths: Widths) => constant(x, widths, 0);
const reflected = (x: Tensor, widths: Widths) => x.padReflect(widths);
const replicated = (x: Tensor, widths: Widths) => x.padReplicate(widths);

/**
 * The common part of padding with a number.
 *
 * @internal
 */
export abstract class ConstantPadding extends Padding {
  /** Makes a layer that pads the last `dims` axes with `value`. */
  constructor(padding: Sizes, readonly value: number, dims: number) {
    super(padding, dims, (x, widths) => constant(x, widths, value));
    requireValue(`make a ${new.target.name}`, "value", value, takes.number);
  }
}

/** Zeros around sequences (N, C, L). */
export class ZeroPad1d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 1, zeros);
  }
}

/** A number around sequences (N, C, L). */
export class ConstantPad1d extends ConstantPadding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right]; negative ones cut off.
   * @param value The number that it is filled with.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes, value: number) {
    super(padding, value, 1);
  }
}

/** Sequences (N, C, L), mirrored at their edges, which are not repeated. */
export class ReflectionPad1d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 1, reflected);
  }
}

/** Sequences (N, C, L), with their edges repeated. */
export class ReplicationPad1d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 1, replicated);
  }
}

/**
 * Zeros around images (N, C, H, W).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const image = Tensor.fromHost([[[[1, 2], [3, 4], [4, 5]]]]);
 * const padded = new nn.ZeroPad2d([1, 0, 2, 0]).forward(image);
 * assertEquals(padded.shape, [1, 1, 5, 3]);
 * assertEquals(await padded.slice(0, 0, 0, 0).item(), 0);
 * ```
 */
export class ZeroPad2d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 2, zeros);
  }
}

/**
 * A number around images (N, C, H, W).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const image = Tensor.fromHost([[[[1, 2], [3, 4], [4, 5]]]]);
 * const padded = new nn.ConstantPad2d([1, 0, 2, 0], 7).forward(image);
 * assertEquals(padded.shape, [1, 1, 5, 3]);
 * assertEquals(await padded.slice(0, 0, 0, 0).item(), 7);
 * ```
 */
export class ConstantPad2d extends ConstantPadding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom]; negative ones cut off.
   * @param value The number that it is filled with.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes, value: number) {
    super(padding, value, 2);
  }
}

/**
 * Images (N, C, H, W), mirrored at their edges, which are not repeated.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const image = Tensor.fromHost([[[[1, 2], [3, 4], [4, 5]]]]);
 * const padded = new nn.ReflectionPad2d([1, 0, 2, 0]).forward(image);
 * assertEquals(padded.shape, [1, 1, 5, 3]);
 * assertEquals(await padded.slice(0, 0, 0, 0).item(), 5);
 * ```
 */
export class ReflectionPad2d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 2, reflected);
  }
}

/**
 * Images (N, C, H, W), with their edges repeated.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const image = Tensor.fromHost([[[[1, 2], [3, 4], [4, 5]]]]);
 * const padded = new nn.ReplicationPad2d([1, 0, 2, 0]).forward(image);
 * assertEquals(padded.shape, [1, 1, 5, 3]);
 * assertEquals(await padded.slice(0, 0, 0, 0).item(), 1);
 * ```
 */
export class ReplicationPad2d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 2, replicated);
  }
}

/** Zeros around volumes (N, C, D, H, W). */
export class ZeroPad3d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom, front, back]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 3, zeros);
  }
}

/** A number around volumes (N, C, D, H, W). */
export class ConstantPad3d extends ConstantPadding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom, front, back]; negative ones cut off.
   * @param value The number that it is filled with.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes, value: number) {
    super(padding, value, 3);
  }
}

/** Volumes (N, C, D, H, W), mirrored at their edges, which are not repeated. */
export class ReflectionPad3d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom, front, back]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 3, reflected);
  }
}

/** Volumes (N, C, D, H, W), with their edges repeated. */
export class ReplicationPad3d extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or [left, right, top, bottom, front, back]; negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Sizes) {
    super(padding, 3, replicated);
  }
}
