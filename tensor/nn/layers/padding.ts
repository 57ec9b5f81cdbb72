/** Padding of images (N, C, H, W), and of sequences and volumes, as modules. */
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Axes } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";
import { Module } from "../module/module.ts";
import { requireValue, takes, tupleFrom } from "../../core/rules/options.ts";

/** Elements before and behind each axis, the first axis first. */
export type Widths = [before: number, behind: number][];

/** Padding for any number of axes and any filling. */
export abstract class Padding extends Module {
  /** [before, after] for each of the last axes. */
  readonly #widths: Widths;

  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or in PyTorch's order, from the last axis: [left, right,
   * top, bottom, front, back]. Negative ones cut off.
   * @throws {TypeError} When it is neither.
   */
  constructor(padding: Axes) {
    super();
    const sides = 2 * this.dims();
    requireValue(`make a ${new.target.name}`, "padding", padding, tupleFrom(-Infinity, sides));
    const list = typeof padding === "number" ? new Array<number>(sides).fill(padding) : padding;
    this.#widths = Array.from({ length: this.dims() }, (_, axis): [number, number] => {
      const at = 2 * (this.dims() - 1 - axis);
      return [list[at]!, list[at + 1]!];
    });
  }

  /** Number of padded axes, the last ones. */
  protected abstract dims(): number;

  /** The padded tensor. */
  protected abstract padded(x: Tensor, widths: Widths): Tensor;

  /**
   * Pads the last axes.
   *
   * @throws {ShapeError} When the axes or widths do not fit.
   */
  forward(x: Tensor): Tensor {
    requireTensor(`run ${this.constructor.name}`, x);
    if (x.ndim === this.dims() + 1 || x.ndim === this.dims() + 2) {
      const wider = this.padded(x, this.#widths.map(([a, b]) => [Math.max(0, a), Math.max(0, b)]));
      if (this.#widths.every(([a, b]) => a >= 0 && b >= 0)) return wider;
      const cut = this.#widths.map(([a, b]): [number, number] => [Math.min(0, a), Math.min(0, b)]);
      return constant(wider, cut, 0);
    }
    throw shapeError(this.constructor.name)`
      Cannot run ${this.constructor.name} on a tensor of shape ${x.shape}: it must have
      ${this.dims() + 2} axes, or ${this.dims() + 1} without a batch`;
  }
}

/** Fills with one number. */
function constant(x: Tensor, widths: Widths, value: number): Tensor {
  const none = x.shape.slice(widths.length).map((): [number, number] => [0, 0]);
  return x.pad([...none, ...widths], value);
}

/** Zeros around the last axes. */
export abstract class ZeroPadding extends Padding {
  /** The padded tensor. */
  protected override padded(x: Tensor, widths: Widths): Tensor {
    return constant(x, widths, 0);
  }
}

/** A number around the last axes. */
export abstract class ConstantPadding extends Padding {
  /**
   * Makes the layer.
   *
   * @param padding One number for all sides, or from the last axis: [left, right, top, bottom, ...].
   * @param value What it is filled with.
   */
  constructor(padding: Axes, readonly value: number) {
    super(padding);
    requireValue(`make a ${new.target.name}`, "value", value, takes.number);
  }

  /** The padded tensor. */
  protected override padded(x: Tensor, widths: Widths): Tensor {
    return constant(x, widths, this.value);
  }
}

/** The last axes, mirrored at their edges, which are not repeated. */
export abstract class ReflectionPadding extends Padding {
  /** The padded tensor. */
  protected override padded(x: Tensor, widths: Widths): Tensor {
    return x.padReflect(widths);
  }
}

/** The last axes, with their edges repeated. */
export abstract class ReplicationPadding extends Padding {
  /** The padded tensor. */
  protected override padded(x: Tensor, widths: Widths): Tensor {
    return x.padReplicate(widths);
  }
}

/** Zeros around sequences (N, C, L). */
export class ZeroPad1d extends ZeroPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 1;
  }
}

/** A number around sequences (N, C, L). */
export class ConstantPad1d extends ConstantPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 1;
  }
}

/** Sequences (N, C, L), mirrored at their edges, which are not repeated. */
export class ReflectionPad1d extends ReflectionPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 1;
  }
}

/** Sequences (N, C, L), with their edges repeated. */
export class ReplicationPad1d extends ReplicationPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 1;
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
export class ZeroPad2d extends ZeroPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 2;
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
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 2;
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
export class ReflectionPad2d extends ReflectionPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 2;
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
export class ReplicationPad2d extends ReplicationPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 2;
  }
}

/** Zeros around volumes (N, C, D, H, W). */
export class ZeroPad3d extends ZeroPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 3;
  }
}

/** A number around volumes (N, C, D, H, W). */
export class ConstantPad3d extends ConstantPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 3;
  }
}

/** Volumes (N, C, D, H, W), mirrored at their edges, which are not repeated. */
export class ReflectionPad3d extends ReflectionPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 3;
  }
}

/** Volumes (N, C, D, H, W), with their edges repeated. */
export class ReplicationPad3d extends ReplicationPadding {
  /** Number of padded axes, the last ones. */
  protected override dims(): number {
    return 3;
  }
}
