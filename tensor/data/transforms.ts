/**
 * Random changes of images on the device: batches (N, C, H, W), each image by itself. They are
 * lazy, fuse with what follows, and draw from the random state (`manualSeed`).
 *
 * @module
 */
import { formatShape, isFloat } from "../../backend/internal.ts";
import { requireTensor } from "../core/apply.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, pairFrom, requireValue, takes } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";

function requireImages(action: string, x: unknown): asserts x is Tensor {
  requireTensor(action, x);
  if (x.ndim === 4) return;
  throw shapeError(action)`Cannot ${action} of shape ${x.shape}: pass images (N, C, H, W)`;
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
    throw shapeError("normalize")`
      Cannot normalize ${channels} channels by ${mean.length} means and ${std.length} deviations`;
  }
  const each = (values: readonly number[]): Tensor =>
    Tensor.fromHost([...values], { shape: [1, channels, 1, 1], device: x.device });
  return x.sub(each(mean)).div(each(std));
}

/**
 * Flips some of the images (N, C, H, W) left to right: each with the probability `p`, 0.5 by
 * default.
 */
export function randomHorizontalFlip(x: Tensor, p = 0.5): Tensor {
  return randomFlip("flip images left to right", x, 3, p);
}

/**
 * Flips some of the images (N, C, H, W) upside down: each with the probability `p`, 0.5 by default.
 */
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
 * Cuts a window out of each image, each at a random place.
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
      throw shapeError("crop")`
        Cannot crop ${formatShape(sides)} out of images of shape ${out.shape}`;
    }
    const start = Tensor.randint(0, room + 1, [count, 1, 1, 1], { device: x.device });
    const steps = start.indexLike([side]).reshape(axis === 2 ? [side, 1] : [side]);
    const shape = [count, channels, out.shape[2]!, out.shape[3]!].with(axis, side);
    out = out.gather(axis, start.add(steps).expand(shape));
  }
  return out;
}

export { cutmix, type Mixed, type MixOptions, mixup } from "./mixing.ts";

/**
 * Turns each image about its middle by a random angle, counterclockwise; what comes from outside is
 * 0, values between pixels are bilinear.
 *
 * @param x Images (N, C, H, W) of a floating type.
 * @param degrees Angles are drawn from `-degrees` to `degrees`, or between two angles.
 * @throws {ShapeError} When these are no images.
 * @throws {DTypeError} When they do not hold floating point numbers.
 *
 * @example
 * ```ts
 * import { Tensor, transforms } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([[[[1, 2], [3, 4]]]]);
 * const rotated = await transforms.randomRotation(x, [90, 90]).toNumbers();
 * assertEquals(rotated.map(Math.round), [2, 4, 1, 3]);
 * ```
 */
export function randomRotation(x: Tensor, degrees: number | readonly [number, number]): Tensor {
  requireImages("turn images", x);
  if (!isFloat(x.dtype)) {
    throw dtypeError("randomRotation")`
      Cannot turn images of ${x.dtype}: cast them to float32 first`;
  }
  const [from, to] = typeof degrees === "number" ? [-degrees, degrees] : degrees;
  requireValue("turn images", "degrees", from, takes.finite);
  requireValue("turn images", "degrees", to, takes.finite);
  const [count, , height, width] = x.shape as [number, number, number, number];
  const angle = Tensor.rand([count, 1, 1, 1], { device: x.device })
    .mul((to - from) * Math.PI / 180).add(from * Math.PI / 180);
  const place = (size: number, shape: readonly number[]): Tensor =>
    Tensor.arange(0, size, { device: x.device, dtype: "float32" }).sub((size - 1) / 2)
      .reshape(shape);
  const dy = place(height, [1, 1, height, 1]), dx = place(width, [1, 1, 1, width]);
  const [sin, cos] = [angle.sin(), angle.cos()];
  return sampled(
    x,
    sin.mul(dx).add(cos.mul(dy)).add((height - 1) / 2),
    cos.mul(dx).sub(sin.mul(dy)).add((width - 1) / 2),
  );
}

/** The images' values at rows and columns (N, 1, H, W), between pixels bilinear, outside 0. */
function sampled(x: Tensor, rows: Tensor, columns: Tensor): Tensor {
  const [count, channels, height, width] = x.shape as [number, number, number, number];
  const flat = x.reshape([count, channels, height * width]);
  const [top, left] = [rows.floor(), columns.floor()];
  const corner = (down: number, right: number): Tensor => {
    const [i, j] = [top.add(down), left.add(right)];
    const share = Tensor.sub(1, rows.sub(i).abs()).mul(Tensor.sub(1, columns.sub(j).abs()));
    const inside = i.ge(0).logicalAnd(i.lt(height)).logicalAnd(j.ge(0)).logicalAnd(j.lt(width));
    const index = i.clamp(0, height - 1).mul(width).add(j.clamp(0, width - 1)).cast("int32")
      .reshape([count, 1, height * width]).expand([count, channels, height * width]);
    const weight = Tensor.where(inside, share, 0).cast(x.dtype);
    return flat.gather(2, index).reshape(x.shape).mul(weight);
  };
  return corner(0, 0).add(corner(0, 1)).add(corner(1, 0)).add(corner(1, 1));
}
