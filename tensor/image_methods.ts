/** What is done to images: convolution, pooling, resampling, padding by their edges. */
import { distinct } from "./core/apply.ts";
import type { Axes } from "./ops/axes.ts";
import {
  conv,
  type Conv2dOptions,
  type ConvOptions,
  convTranspose,
  type ConvTransposeOptions,
} from "./ops/images/convolution.ts";
import { padReflect, padReplicate } from "./ops/images/edge_padding.ts";
import * as pooling from "./ops/images/pooling.ts";
import type { PoolOptions } from "./ops/images/pooling.ts";
import { interpolate, type InterpolateOptions } from "./ops/images/resampling.ts";
import { pixelShuffle, pixelUnshuffle } from "./ops/images/pixel_shuffle.ts";
import { ShapeMethods } from "./shape_methods.ts";
import type { Tensor } from "./tensor.ts";

/** Convolution, pooling and resampling, of one, two or three axes behind batch and channels. */
export abstract class ImageMethods extends ShapeMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /**
   * 2-D convolution (cross-correlation, as everywhere in deep learning) of images (N, C, H, W) with
   * `weight` (O, C / groups, KH, KW): (N, O, OH, OW) with
   * `OH = floor((H + 2 * padding - dilation * (KH - 1) - 1) / stride) + 1`.
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv2d(weight: Tensor, options?: Conv2dOptions): Tensor {
    return conv(2, this.#self(), weight, options);
  }

  /**
   * {@linkcode ImageMethods.conv2d} along one axis: sequences (N, C, L) with (O, C / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv1d(weight: Tensor, options?: ConvOptions): Tensor {
    return conv(1, this.#self(), weight, options);
  }

  /**
   * {@linkcode ImageMethods.conv2d} along three axes: volumes (N, C, D, H, W) with
   * (O, C / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit.
   */
  conv3d(weight: Tensor, options?: ConvOptions): Tensor {
    return conv(3, this.#self(), weight, options);
  }

  /**
   * The transposed convolution of images (N, C, H, W) with `weight` (C, O / groups, KH, KW), the
   * gradient of {@linkcode ImageMethods.conv2d} by its image: (N, O, OH, OW) with
   * `OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + outputPadding + 1`.
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose2d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return convTranspose(2, this.#self(), weight, options);
  }

  /**
   * {@linkcode ImageMethods.convTranspose2d} along one axis: (N, C, L) with (C, O / groups, K).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose1d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return convTranspose(1, this.#self(), weight, options);
  }

  /**
   * {@linkcode ImageMethods.convTranspose2d} along three axes: (N, C, D, H, W) with
   * (C, O / groups, KD, KH, KW).
   *
   * @throws {ShapeError} When channels or sizes do not fit, or the output padding reaches the stride.
   */
  convTranspose3d(weight: Tensor, options?: ConvTransposeOptions): Tensor {
    return convTranspose(3, this.#self(), weight, options);
  }

  /**
   * The largest element of each window of images (N, C, H, W): (N, C, OH, OW) with
   * `OH = floor((H + 2 * padding - kernel) / stride) + 1`.
   *
   * @throws {ShapeError} When a window is larger than the image, or may hold padding only.
   */
  maxPool2d(kernel: Axes, options?: PoolOptions): Tensor {
    return pooling.maxPool2d(this.#self(), kernel, options);
  }

  /**
   * The mean of each window of images (N, C, H, W); padding counts as zeros, unless
   * `countIncludePad` is false. Shapes as of {@linkcode ImageMethods.maxPool2d}.
   */
  avgPool2d(kernel: Axes, options?: PoolOptions): Tensor {
    return pooling.avgPool2d(this.#self(), kernel, options);
  }

  /** Images (N, C, H, W) averaged to the given size, (N, C, height, width). */
  adaptiveAvgPool2d(size: Axes): Tensor {
    return pooling.adaptiveAvgPool2d(this.#self(), size);
  }

  /** The largest element of regions that divide images (N, C, H, W) into the given parts. */
  adaptiveMaxPool2d(size: Axes): Tensor {
    return pooling.adaptiveMaxPool2d(this.#self(), size);
  }

  /**
   * Images (N, C, H, W) in another size; "nearest" also takes (N, C, L) and (N, C, D, H, W).
   *
   * @param options `size`, or `scaleFactor`; `mode` "nearest" (default) or "bilinear".
   * @throws {ShapeError} When the axes do not fit the mode, or the size is empty.
   * @throws {TypeError} Unless one of `size` and `scaleFactor` is given.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const row = Tensor.fromHost([[[[0, 4]]]]);
   * const wide = row.interpolate({ size: [1, 4], mode: "bilinear" });
   * assertEquals(await wide.toArray(), [[[[0, 1, 3, 4]]]]);
   * ```
   */
  interpolate(options: InterpolateOptions): Tensor {
    return distinct("interpolate", this.#self(), interpolate(this.#self(), options));
  }

  /**
   * Channels become pixels: (..., C * factor ** 2, H, W) gives (..., C, H * factor, W * factor)
   * (W. Shi et al., Real-Time Single Image and Video Super-Resolution, 2016).
   *
   * @throws {ShapeError} When the channels do not divide by the square of the factor.
   */
  pixelShuffle(factor: number): Tensor {
    return distinct("pixelShuffle", this.#self(), pixelShuffle(this.#self(), factor));
  }

  /**
   * The inverse of {@linkcode ImageMethods.pixelShuffle}: (..., C, H * factor, W * factor) gives
   * (..., C * factor ** 2, H, W).
   *
   * @throws {ShapeError} When height or width do not divide by the factor.
   */
  pixelUnshuffle(factor: number): Tensor {
    return distinct("pixelUnshuffle", this.#self(), pixelUnshuffle(this.#self(), factor));
  }

  /**
   * The last axes, mirrored at their first and last elements, which are not repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When a width reaches the length of its axis.
   */
  padReflect(widths: readonly (readonly [number, number])[]): Tensor {
    return distinct("padReflect", this.#self(), padReflect(this.#self(), widths));
  }

  /**
   * The last axes, with their first and last elements repeated.
   *
   * @param widths [before, after] for each of the last axes.
   * @throws {ShapeError} When an axis to be padded is empty.
   */
  padReplicate(widths: readonly (readonly [number, number])[]): Tensor {
    return distinct("padReplicate", this.#self(), padReplicate(this.#self(), widths));
  }
}
