/** Images in another size, as modules. */
import { requireTensor } from "../../core/apply.ts";
import { checkInterpolation } from "../../ops/images/resampling.ts";
import type { InterpolateOptions } from "../../core/image_options.ts";
import type { Tensor } from "../../core/mod.ts";
import { Module } from "../module/module.ts";
import { requireValue, takes } from "../../core/rules/options.ts";

/**
 * Images (N, C, H, W) in another size; "nearest" also takes sequences and volumes.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Upsample({ scaleFactor: 2, mode: "bilinear" });
 * assertEquals(layer.forward(Tensor.zeros([1, 3, 8, 8])).shape, [1, 3, 16, 16]);
 * ```
 */
export class Upsample extends Module {
  readonly #options: InterpolateOptions;

  /**
   * Makes the layer.
   *
   * @param options `size` or `scaleFactor`; `mode` "nearest" (default) or "bilinear"; `alignCorners`.
   * @throws {TypeError} Unless one of `size` and `scaleFactor` is given.
   */
  constructor(options: InterpolateOptions) {
    super();
    checkInterpolation("make an Upsample", options);
    this.#options = options;
  }

  /**
   * Resamples a batch of images.
   *
   * @throws {ShapeError} When the axes do not fit.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run Upsample", x);
    return x.interpolate(this.#options);
  }
}

/**
 * Channels become pixels: (N, C * factor ** 2, H, W) gives (N, C, H * factor, W * factor).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(new nn.PixelShuffle(2).forward(Tensor.zeros([1, 8, 3, 3])).shape, [1, 2, 6, 6]);
 * ```
 */
export class PixelShuffle extends Module {
  /**
   * Makes the layer.
   *
   * @param factor By what height and width grow.
   */
  constructor(readonly factor: number) {
    super();
    requireValue("make a PixelShuffle", "factor", factor, takes.count);
  }

  /**
   * Rearranges the channels.
   *
   * @throws {ShapeError} When the channels do not divide by the square of the factor.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run PixelShuffle", x);
    return x.pixelShuffle(this.factor);
  }
}

/** The inverse of {@linkcode PixelShuffle}: (N, C, H, W) to (N, C * factor ** 2, H / factor, W / factor). */
export class PixelUnshuffle extends Module {
  /**
   * Makes the layer.
   *
   * @param factor By what height and width are divided.
   */
  constructor(readonly factor: number) {
    super();
    requireValue("make a PixelUnshuffle", "factor", factor, takes.count);
  }

  /**
   * Rearranges the pixels.
   *
   * @throws {ShapeError} When height or width do not divide by the factor.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run PixelUnshuffle", x);
    return x.pixelUnshuffle(this.factor);
  }
}
