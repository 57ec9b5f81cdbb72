/** Windows of images as columns, and back. */
import { requireTensor } from "../../core/apply.ts";
import type { Sizes } from "../../core/arguments.ts";
import { compute } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions, pairFrom, requireValue, type Rules } from "../../core/rules/options.ts";
import type { Tensor } from "../../core/mod.ts";
import { col2im, im2col } from "../../ops/shaping/im2col.ts";
import { Module } from "../module/module.ts";

/** Options of {@linkcode unfold} and {@linkcode fold}: one number, or height and width. */
export interface FoldOptions {
  /** Steps between the elements of a window; default 1. */
  dilation?: Sizes;
  /** Zeros around the image; default 0. */
  padding?: Sizes;
  /** Steps between windows; default 1. */
  stride?: Sizes;
}

const rules: Rules<FoldOptions> = {
  dilation: pairFrom(1),
  padding: pairFrom(0),
  stride: pairFrom(1),
};

type Pair = readonly [height: number, width: number];

function pair(value: Sizes): Pair {
  return typeof value === "number" ? [value, value] : [value[0]!, value[1]!];
}

/** The walk of windows over an image. */
interface Windows {
  readonly kernel: Pair;
  readonly dilation: Pair;
  readonly padding: Pair;
  readonly stride: Pair;
}

function windowsOf(op: string, kernel: Sizes, options: FoldOptions = {}): Windows {
  checkOptions(op, options, rules);
  requireValue(op, "kernel", kernel, pairFrom(1));
  const { dilation = 1, padding = 0, stride = 1 } = options;
  return {
    kernel: pair(kernel),
    dilation: pair(dilation),
    padding: pair(padding),
    stride: pair(stride),
  };
}

/** Number of windows along each axis of an image. */
function positions(size: readonly number[], { kernel, dilation, padding, stride }: Windows): Pair {
  const [rows, columns] = size.map((n, k) => {
    const span = (kernel[k]! - 1) * dilation[k]! + 1;
    return Math.floor((n + 2 * padding[k]! - span) / stride[k]!) + 1;
  });
  return [rows!, columns!];
}

/**
 * The windows of images as columns, as in PyTorch: (N, C, H, W) gives (N, C * kernel, windows).
 *
 * @param x Images.
 * @param kernel The size of a window.
 * @throws {ShapeError} When it is no batch of images, or no window fits.
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(nn.unfold(Tensor.ones([1, 3, 4, 4]), 2).shape, [1, 12, 9]);
 * ```
 */
export function unfold(x: Tensor, kernel: Sizes, options?: FoldOptions): Tensor {
  requireTensor("unfold", x);
  const windows = windowsOf("unfold", kernel, options);
  if (x.ndim !== 4 || positions(x.shape.slice(2), windows).some((n) => n < 1)) {
    throw shapeError("unfold")`
      Cannot unfold a tensor of shape ${x.shape} into windows of ${windows.kernel.join(" x ")}:
      pass (N, C, H, W) into which a window fits`;
  }
  return compute(columnsOf, x, windows);
}

function columnsOf(x: Tensor, { kernel, dilation, padding: [h, w], stride }: Windows): Tensor {
  const [n, c] = x.shape as [number, number];
  const all = im2col(x.pad([[0, 0], [0, 0], [h, h], [w, w]]), kernel, stride, dilation);
  return all.permute([0, 1, 4, 5, 2, 3]).reshape([n, c * kernel[0] * kernel[1], -1]);
}

/**
 * Sums of windows that are columns, as in PyTorch: (N, C * kernel, windows) gives (N, C, H, W). What
 * windows have in common adds up.
 *
 * @param x Columns, as {@linkcode unfold} gives them.
 * @param size Height and width of the images.
 * @param kernel The size of a window.
 * @throws {ShapeError} When there are not as many windows, or elements of a window.
 */
export function fold(x: Tensor, size: Sizes, kernel: Sizes, options?: FoldOptions): Tensor {
  requireTensor("fold", x);
  requireValue("fold", "size", size, pairFrom(1));
  const windows = windowsOf("fold", kernel, options), image = pair(size);
  const [rows, columns] = positions(image, windows), area = windows.kernel[0] * windows.kernel[1];
  const isRight = x.ndim === 3 && x.shape[1]! % area === 0 && x.shape[2] === rows * columns &&
    rows > 0 && columns > 0;
  if (isRight) return compute(imagesOf, x, image, windows);
  throw shapeError("fold")`
    Cannot fold a tensor of shape ${x.shape} into images of ${image.join(" x ")}: pass
    (N, channels * ${area}, ${rows * columns})`;
}

function imagesOf(x: Tensor, size: Pair, windows: Windows): Tensor {
  const { kernel, dilation, padding: [h, w], stride } = windows;
  const [rows, columns] = positions(size, windows), c = x.shape[1]! / kernel[0] / kernel[1];
  const all = x.reshape([x.shape[0]!, c, ...kernel, rows, columns]).permute([0, 1, 4, 5, 2, 3]);
  const whole = [x.shape[0]!, c, size[0] + 2 * h, size[1] + 2 * w];
  const image = col2im(all.contiguous(), whole, stride, dilation);
  return image.slice(null, null, [h, h + size[0]], [w, w + size[1]]);
}

/** {@linkcode unfold} as a layer. */
export class Unfold extends Module {
  /**
   * Makes the layer.
   *
   * @param kernel The size of a window.
   */
  constructor(readonly kernel: Sizes, readonly options: FoldOptions = {}) {
    super();
    windowsOf("make an Unfold", kernel, options);
  }

  /** See {@linkcode unfold}. */
  forward(x: Tensor): Tensor {
    return unfold(x, this.kernel, this.options);
  }
}

/** {@linkcode fold} as a layer. */
export class Fold extends Module {
  /**
   * Makes the layer.
   *
   * @param size Height and width of the images.
   * @param kernel The size of a window.
   */
  constructor(readonly size: Sizes, readonly kernel: Sizes, readonly options: FoldOptions = {}) {
    super();
    requireValue("make a Fold", "size", size, pairFrom(1));
    windowsOf("make a Fold", kernel, options);
  }

  /** See {@linkcode fold}. */
  forward(x: Tensor): Tensor {
    return fold(x, this.size, this.kernel, this.options);
  }
}
