/**
 * Changes of images by chance, on the device: batches (N, C, H, W), each image by itself. They are
 * lazy, fuse with what follows, and draw from the random state (`manualSeed`).
 *
 * @module
 */
import { formatShape } from "../../backend/engine.ts";
import { requireTensor } from "../apply.ts";
import { ShapeError } from "../errors.ts";
import { checkOptions, pairFrom, requireValue, takes } from "../options.ts";
import { Tensor } from "../tensor.ts";

function requireImages(action: string, x: unknown): asserts x is Tensor {
  requireTensor(action, x);
  if (x.ndim === 4) return;
  throw new ShapeError(
    `Cannot ${action} of shape ${formatShape(x.shape)}: pass images (N, C, H, W)`,
  );
}

/**
 * Subtracts a mean from each channel and divides by a deviation.
 *
 * @param x Images (N, C, H, W).
 * @param mean One number a channel.
 * @param std One number a channel.
 * @throws {ShapeError} When there is not one number a channel.
 *
 * @example
 * ```ts
 * import { Tensor, transforms } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.full([1, 2, 1, 1], 3);
 * assertEquals(await transforms.normalize(x, [1, 2], [2, 1]).toArray(), [[[[1]], [[1]]]]);
 * ```
 */
export function normalize(x: Tensor, mean: readonly number[], std: readonly number[]): Tensor {
  requireImages("normalize", x);
  requireValue("normalize", "mean", mean, takes.list);
  requireValue("normalize", "std", std, takes.list);
  const channels = x.shape[1]!;
  if (mean.length !== channels || std.length !== channels) {
    throw new ShapeError(
      `Cannot normalize ${channels} channels by ${mean.length} means and ${std.length} deviations`,
    );
  }
  const each = (values: readonly number[]): Tensor =>
    Tensor.fromHost([...values], { shape: [1, channels, 1, 1], device: x.device });
  return x.sub(each(mean)).div(each(std));
}

/** Flips some of the images left to right: each with the chance `p`. */
export function randomHorizontalFlip(x: Tensor, p = 0.5): Tensor {
  return randomFlip("flip images left to right", x, 3, p);
}

/** Flips some of the images upside down: each with the chance `p`. */
export function randomVerticalFlip(x: Tensor, p = 0.5): Tensor {
  return randomFlip("flip images upside down", x, 2, p);
}

function randomFlip(action: string, x: Tensor, axis: number, p: number): Tensor {
  requireImages(action, x);
  requireValue(action, "p", p, takes.share);
  const chosen = Tensor.rand([x.shape[0]!, 1, 1, 1], { device: x.device }).lt(p);
  return Tensor.where(chosen, x.flip(axis), x);
}

/**
 * Cuts a window out of each image, each at a place of chance.
 *
 * @param x Images (N, C, H, W).
 * @param size The window's height and width.
 * @param options `padding`: zeros that are put around the images first, default 0.
 * @returns Images (N, C, height, width).
 * @throws {ShapeError} When the window is larger than the padded images.
 *
 * @example
 * ```ts
 * import { Tensor, transforms } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.rand([8, 3, 32, 32]);
 * assertEquals(transforms.randomCrop(x, 32, { padding: 4 }).shape, [8, 3, 32, 32]);
 * ```
 */
export function randomCrop(
  x: Tensor,
  size: number | readonly [number, number],
  options: { padding?: number } = {},
): Tensor {
  requireImages("crop images", x);
  requireValue("crop images", "size", size, pairFrom(1));
  checkOptions("crop images", options, { padding: takes.whole });
  const { padding = 0 } = options, [count, channels] = x.shape as [number, number];
  const sides = typeof size === "number" ? [size, size] : size;
  let out = padding === 0 ? x : x.pad([[0, 0], [0, 0], [padding, padding], [padding, padding]]);
  for (const axis of [2, 3]) {
    const side = sides[axis - 2]!, room = out.shape[axis]! - side;
    if (room < 0) {
      throw new ShapeError(
        `Cannot crop ${formatShape(sides)} out of images of shape ${formatShape(out.shape)}`,
      );
    }
    const start = Tensor.randint(0, room + 1, [count, 1, 1, 1], { device: x.device });
    const steps = start.indexLike([side]).reshape(axis === 2 ? [side, 1] : [side]);
    const shape = [count, channels, out.shape[2]!, out.shape[3]!].with(axis, side);
    out = out.gather(axis, start.add(steps).expand(shape));
  }
  return out;
}
