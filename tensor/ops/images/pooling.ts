/** Pooling: the largest element, or the mean, of windows of images. */
import { formatShape } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { nearestIn } from "../elementwise/elements.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import type { Sizes } from "../../core/arguments.ts";
import { pair } from "../shaping/axes.ts";
import { pad } from "../shaping/slices.ts";
import { im2col } from "../shaping/im2col.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import type { PoolOptions } from "../../core/image_options.ts";

/** Rules for {@linkcode PoolOptions}; steps and widths are checked with the shapes. */
export const poolRules: Rules<PoolOptions> = {
  stride: takes.anything,
  padding: takes.anything,
  dilation: takes.anything,
  countIncludePad: takes.bool,
};

function padded(x: Tensor, [top, left]: readonly [number, number], value = 0): Tensor {
  return pad(x, [[0, 0], [0, 0], [top, top], [left, left]], value);
}

function poolWindows(
  op: string,
  x: Tensor,
  kernel: Sizes,
  options: PoolOptions,
  value: number,
): Tensor {
  checkOptions(op, options, poolRules);
  const size = pair(op, "kernel", kernel);
  const stride = pair(op, "stride", options.stride ?? kernel, 1);
  const padding = pair(op, "padding", options.padding, 0);
  const dilation = pair(op, "dilation", options.dilation, 1);
  const span = (k: 0 | 1): number => (size[k] - 1) * dilation[k] + 1;
  const fits = (k: 0 | 1): boolean => (x.shape[x.ndim - 2 + k] ?? 0) + 2 * padding[k] >= span(k);
  if (
    x.ndim !== 4 || !fits(0) || !fits(1) || [...size, ...stride, ...dilation].some((n) => n < 1)
  ) {
    throw shapeError(op)`
      Cannot ${op} a tensor of shape ${x.shape} by windows of ${formatShape(size)}: pass
      [N, C, H, W], not smaller than a window`;
  }
  if (padding.some((p, k) => p < 0 || 2 * p > size[k as 0 | 1])) {
    throw shapeError(op)`
      Cannot ${op} by windows of ${formatShape(size)} with padding ${formatShape(padding)}: pad by
      at most half a window, so that none holds padding only`;
  }
  const image = padded(x, padding, value);
  const [n, c, h, w] = image.shape as [number, number, number, number];
  const isTiling = [h, w].every((side, k) =>
    stride[k] === size[k] && dilation[k] === 1 && side % size[k]! === 0
  );
  if (!isTiling) return im2col(image, size, stride, dilation);
  // Windows that tile the image are a view of it, and so is what they give back in backward.
  return image.reshape([n, c, h / size[0], size[0], w / size[1], size[1]])
    .permute([0, 1, 2, 4, 3, 5]);
}

/** The largest element of each window; the first of equal ones gets the gradient, as in PyTorch. */
export function maxPool2d(x: Tensor, kernel: Sizes, options: PoolOptions = {}): Tensor {
  const low = nearestIn(x.dtype, -Infinity);
  const all = poolWindows("maxPool2d", x, kernel, options, low);
  const isPadded = pair("maxPool2d", "padding", options.padding, 0).some((n) => n > 0);
  const within = (): Tensor =>
    poolWindows("maxPool2d", x.detach().onesLike().cast("bool"), kernel, options, 0);
  return maxOfTaps("maxPool2d", all, isPadded ? within : null);
}

/** The largest of the last two of six axes; of those `within`, where some are padding. */
function maxOfTaps(name: string, all: Tensor, within: (() => Tensor) | null = null): Tensor {
  const [n, c, oh, ow, kh, kw] = all.shape as [number, number, number, number, number, number];
  const taps = (t: Tensor): Tensor => t.reshape([n, c, oh, ow, kh * kw]);
  const value = taps(all.detach()).max(4);
  return result(name, [all], value, (g, y) => {
    const flat = taps(all.detach());
    // Padding equals the smallest element, and is not to be picked in its place.
    const best = within
      ? taps(within()).logicalAnd(flat.ge(y.detach().unsqueeze(4)).logicalOr(flat.isNaN()))
      : flat;
    const hit = best.argmax(4).unsqueeze(4).eq(all.indexLike([kh * kw]));
    return [hit.where(g.unsqueeze(4), 0).reshape(all.shape)];
  });
}

/** The mean of each window; padding counts as zeros. */
export function avgPool2d(x: Tensor, kernel: Sizes, options: PoolOptions = {}): Tensor {
  const means = poolWindows("avgPool2d", x, kernel, options, 0).mean([4, 5]);
  if (options.countIncludePad ?? true) return means;
  // The mean of ones says how much of each window is image.
  return means.div(
    poolWindows("avgPool2d", x.detach().onesLike(), kernel, options, 0).mean([4, 5]),
  );
}

/** The sizes of an adaptive pooling, checked; whether its regions tile the image. */
function regionsOf(op: string, x: Tensor, size: Sizes): { parts: [number, number]; tile: boolean } {
  const parts = pair(op, "size", size, 1);
  if (x.ndim !== 4 || parts.some((n) => n < 1)) {
    throw shapeError(op)`
      Cannot ${op} a tensor of shape ${x.shape} to ${formatShape(parts)}: pass [N, C, H, W], and
      sizes of at least 1`;
  }
  return { parts, tile: parts.every((n, k) => x.shape[2 + k]! > 0 && x.shape[2 + k]! % n === 0) };
}

/** The windows of regions that tile the image. */
function tileSizes(x: Tensor, parts: readonly [number, number]): [number, number] {
  return [x.shape[2]! / parts[0], x.shape[3]! / parts[1]];
}

/** The largest element of regions that divide the image into `size` parts; see {@linkcode maxPool2d}. */
export function adaptiveMaxPool2d(x: Tensor, size: Sizes): Tensor {
  const { parts, tile } = regionsOf("adaptiveMaxPool2d", x, size);
  if (tile) return maxPool2d(x, tileSizes(x, parts));
  // (N, C, H, W) -> (N, C, oh, kh, ow, kw); regions that are shorter see their last element again.
  const rows = regions(x, 2, parts[0]).elements;
  const all = regions(rows, 4, parts[1]).elements.permute([0, 1, 2, 4, 3, 5]);
  return maxOfTaps("adaptiveMaxPool2d", all);
}

/** The mean over regions that divide the image into `size` parts. */
export function adaptiveAvgPool2d(x: Tensor, size: Sizes): Tensor {
  const { parts, tile } = regionsOf("adaptiveAvgPool2d", x, size);
  if (tile) return avgPool2d(x, tileSizes(x, parts));
  return parts.reduce((image, count, k) => regionMean(image, 2 + k, count), x);
}

/** The mean of each of `count` regions along an axis. */
function regionMean(x: Tensor, axis: number, count: number): Tensor {
  const { elements, isLast, lengths } = regions(x, axis, count);
  const mask = isLast.reshape(elements.shape.map((n, k) => k === axis || k === axis + 1 ? n : 1));
  // What is seen again counts once, and is left out by selection: it may be infinite.
  const sums = mask.where(0, elements).sum(axis + 1);
  return sums.div(lengths.cast(x.dtype).reshape(sums.shape.map((n, k) => k === axis ? n : 1)));
}

/** The regions of an axis: part r of `count` goes from floor(r n / count) to before ceil((r + 1) n / count). */
interface Regions {
  /** The elements, with the axis as (region, place). */
  readonly elements: Tensor;
  /** True for places behind the end of a region, where its last element stands again. */
  readonly isLast: Tensor;
  /** Number of elements in each region. */
  readonly lengths: Tensor;
}

function regions(x: Tensor, axis: number, count: number): Regions {
  const n = x.shape[axis]!;
  const longest = Math.max(
    ...Array.from(
      { length: count },
      (_, r) => Math.ceil((r + 1) * n / count) - Math.floor(r * n / count),
    ),
  );
  const region = x.indexLike([count]).unsqueeze(1);
  const start = region.mul(n).floorDivide(count);
  const end = region.add(1).mul(n).add(count - 1).floorDivide(count);
  const at = start.add(x.indexLike([longest]));
  return {
    elements: x.indexSelect(axis, at.minimum(end.sub(1))),
    isLast: at.ge(end),
    lengths: end.sub(start),
  };
}
