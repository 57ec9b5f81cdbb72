/**
 * Pooling as modules, on images (N, C, H, W), and windows of them as columns.
 *
 * This folder imports operations of tensors (`ops/`, `core/`) and `module/`.
 */
import type { Sizes } from "../../core/arguments.ts";
import { pair } from "../../ops/shaping/axes.ts";
import type { PoolOptions } from "../../core/image_options.ts";
import { poolRules } from "../../ops/images/pooling.ts";
import type { Tensor } from "../../core/mod.ts";
import { inputOf } from "../module/input.ts";
import { Module } from "../module/module.ts";
import { checkOptions } from "../../core/rules/options.ts";

function checkPooling(action: string, kernel: Sizes, options: PoolOptions): void {
  pair(action, "kernel", kernel);
  checkOptions(action, options, poolRules);
  for (const name of ["stride", "padding", "dilation"] as const) {
    pair(action, name, options[name], 0);
  }
}

/** The largest element of each window of images (N, C, H, W). */
export class MaxPool2d extends Module {
  readonly #options: PoolOptions;

  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number, or height and width.
   * @param options Stride (default: the kernel's size) and padding.
   */
  constructor(readonly kernel: Sizes, options: PoolOptions = {}) {
    super();
    checkPooling("make a MaxPool2d", kernel, options);
    this.#options = options;
  }

  /**
   * Takes the largest element of each window.
   *
   * @throws {ShapeError} When the image is smaller than a window.
   */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).maxPool2d(this.kernel, this.#options);
  }
}

/**
 * The mean of each window of images (N, C, H, W); padding counts as zeros, unless `countIncludePad`
 * is false.
 */
export class AvgPool2d extends Module {
  readonly #options: PoolOptions;

  /**
   * Makes the layer.
   *
   * @param kernel The window's size: one number, or height and width.
   * @param options Stride (default: the kernel's size) and padding.
   */
  constructor(readonly kernel: Sizes, options: PoolOptions = {}) {
    super();
    checkPooling("make an AvgPool2d", kernel, options);
    this.#options = options;
  }

  /**
   * Takes the mean of each window.
   *
   * @throws {ShapeError} When the image is smaller than a window.
   */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).avgPool2d(this.kernel, this.#options);
  }
}

/** Images (N, C, H, W) averaged to a given size, whatever theirs is: (N, C, height, width). */
export class AdaptiveAvgPool2d extends Module {
  /**
   * Makes the layer.
   *
   * @param size The output's size: one number, or height and width.
   */
  constructor(readonly size: Sizes) {
    super();
    pair("make an AdaptiveAvgPool2d", "size", size);
  }

  /**
   * Takes the means of the regions.
   *
   * @throws {ShapeError} When it is not a batch of images.
   */
  forward(x: Tensor): Tensor {
    return inputOf(this, x).adaptiveAvgPool2d(this.size);
  }
}
