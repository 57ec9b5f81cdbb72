/**
 * Pooling of sequences and volumes: windows are boxes, so that their largest elements, and means, are taken
 * axis by axis, two at a time.
 */
import { requireTensor } from "../../core/apply.ts";
import type { Sizes } from "../../core/arguments.ts";
import type { PoolOptions } from "../../core/image_options.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { poolRules } from "../../ops/images/pooling.ts";
import { tuple } from "../../ops/shaping/axes.ts";
import { Module } from "../module/module.ts";

/** The pooling of images. */
export type PoolImages = (x: Tensor, kernel: Sizes, options: PoolOptions) => Tensor;

/**
 * The common part of layers that pool along one axis or three.
 *
 * @internal
 */
export abstract class Pooling extends Module {
  readonly #kernel: readonly number[];
  readonly #rest: Pick<PoolOptions, "countIncludePad">;
  readonly #steps: Readonly<Record<"stride" | "padding" | "dilation", readonly number[]>>;

  /**
   * Checks the sizes of windows.
   *
   * @param action What is made, for messages.
   * @param axes Along how many axes it pools.
   * @param kernel The window's size.
   * @param options Steps and padding.
   */
  protected constructor(
    action: string,
    readonly axes: number,
    kernel: Sizes,
    options: PoolOptions,
  ) {
    super();
    checkOptions(action, options, poolRules);
    const { stride = kernel, padding = 0, dilation = 1, ...rest } = options;
    this.#kernel = tuple(action, "kernel", kernel, axes);
    this.#rest = rest;
    this.#steps = {
      stride: tuple(action, "stride", stride, axes),
      padding: tuple(action, "padding", padding, axes),
      dilation: tuple(action, "dilation", dilation, axes),
    };
  }

  /** Pools along all axes. */
  protected reduce(x: Tensor, pool: PoolImages): Tensor {
    const { name } = this.constructor;
    requireTensor(`run ${name}`, x);
    if (x.ndim !== this.axes + 2) {
      throw shapeError(name)`
        Cannot run ${name} on a tensor of shape ${x.shape}: pass
        ${this.axes === 1 ? "[N, C, L]" : "[N, C, D, H, W]"}`;
    }
    const [n, c, ...sides] = x.shape as [number, number, ...number[]];
    if (this.axes === 1) return this.#along([null, 0], x.unsqueeze(2), pool).squeeze(2);
    const [d, h, w] = sides as [number, number, number];
    const planes = this.#along([1, 2], x.reshape([n, c * d, h, w]), pool);
    const [height, width] = planes.shape.slice(2) as [number, number];
    const lines = this.#along([0, null], planes.reshape([n, c, d, height * width]), pool);
    return lines.reshape([n, c, lines.shape[2]!, height, width]);
  }

  /** Pools along the last two axes, as these of the layer's; null for one that stays. */
  #along(axes: readonly (number | null)[], x: Tensor, pool: PoolImages): Tensor {
    const pick = (list: readonly number[], other: number) =>
      axes.map((axis) => axis === null ? other : list[axis]!);
    const { stride, padding, dilation } = this.#steps;
    return pool(x, pick(this.#kernel, 1), {
      ...this.#rest,
      stride: pick(stride, 1),
      padding: pick(padding, 0),
      dilation: pick(dilation, 1),
    });
  }
}

/** The largest element of each window of sequences (N, C, L). */
export class MaxPool1d extends Pooling {
  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number.
   * @param options Stride (default: the kernel's size), padding, dilation.
   */
  constructor(kernel: Sizes, options: PoolOptions = {}) {
    super("make a MaxPool1d", 1, kernel, options);
  }

  /**
   * Takes the largest element of each window.
   *
   * @throws {ShapeError} When the axes are others, or a window is larger than the input.
   */
  forward(x: Tensor): Tensor {
    return this.reduce(x, (y, kernel, options) => y.maxPool2d(kernel, options));
  }
}

/** The largest element of each window of volumes (N, C, D, H, W). */
export class MaxPool3d extends Pooling {
  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number, or depth, height and width.
   * @param options Stride (default: the kernel's size), padding, dilation.
   */
  constructor(kernel: Sizes, options: PoolOptions = {}) {
    super("make a MaxPool3d", 3, kernel, options);
  }

  /**
   * Takes the largest element of each window.
   *
   * @throws {ShapeError} When the axes are others, or a window is larger than the input.
   */
  forward(x: Tensor): Tensor {
    return this.reduce(x, (y, kernel, options) => y.maxPool2d(kernel, options));
  }
}

/** The mean of each window of sequences (N, C, L). */
export class AvgPool1d extends Pooling {
  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number.
   * @param options Stride (default: the kernel's size), padding.
   */
  constructor(kernel: Sizes, options: PoolOptions = {}) {
    super("make an AvgPool1d", 1, kernel, options);
  }

  /**
   * Takes the mean of each window.
   *
   * @throws {ShapeError} When the axes are others, or a window is larger than the input.
   */
  forward(x: Tensor): Tensor {
    return this.reduce(x, (y, kernel, options) => y.avgPool2d(kernel, options));
  }
}

/** The mean of each window of volumes (N, C, D, H, W). */
export class AvgPool3d extends Pooling {
  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number, or depth, height and width.
   * @param options Stride (default: the kernel's size), padding.
   */
  constructor(kernel: Sizes, options: PoolOptions = {}) {
    super("make an AvgPool3d", 3, kernel, options);
  }

  /**
   * Takes the mean of each window.
   *
   * @throws {ShapeError} When the axes are others, or a window is larger than the input.
   */
  forward(x: Tensor): Tensor {
    return this.reduce(x, (y, kernel, options) => y.avgPool2d(kernel, options));
  }
}
