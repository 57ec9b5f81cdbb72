/** Sums of products: matrix multiplication and convolution; pooling stands beside them. */
import {
  broadcastShapes,
  dtypes,
  type Float32Precision,
  formatShape,
  Node,
} from "../../backend/engine.ts";
import { narrowed } from "../amp/autocast.ts";
import { aTensor, result, sameDevice } from "../apply.ts";
import { nearestIn } from "../creation.ts";
import { DTypeError, ShapeError } from "../errors.ts";
import { getFloat32Precision } from "../float32_precision.ts";
import { promote } from "../promotion.ts";
import type { Tensor } from "../tensor.ts";
import { type Axes, pair } from "./axes.ts";
import { dilate, expand, pad, window } from "./shaping.ts";
import { checkOptions, type Rules, takes } from "../options.ts";

function range(start: number, count: number): number[] {
  return Array.from({ length: count }, (_, k) => start + k);
}

/**
 * The general contraction: inputs (batch..., m..., k...) and (batch..., k..., n...), result
 * (batch..., m..., n...). Its gradients are contractions again.
 *
 * @param a The left operand.
 * @param b The right operand.
 * @param batch How many leading axes both share.
 * @param m How many axes of `a` follow that stay.
 * @param k How many axes are summed over.
 */
export function contract(a: Tensor, b: Tensor, batch: number, m: number, k: number): Tensor {
  const n = b.ndim - batch - k;
  const shape = [...a.shape.slice(0, batch + m), ...b.shape.slice(batch + k)];
  // The sum of no products is 0.
  const node = a.size === 0 || b.size === 0
    ? new Node({ kind: "constant", value: 0 }, [], shape, a.dtype)
    : new Node(
      { kind: "contract", batch, m, n, ...precisionFor(a) },
      [a.node, b.node],
      shape,
      a.dtype,
    );
  const lead = range(0, batch);
  return result("matmul", [a, b], node, (g) => [
    a.requiresGrad
      ? contract(g, b.permute([...lead, ...range(batch + k, n), ...range(batch, k)]), batch, m, n)
      : null,
    b.requiresGrad
      ? contract(a.permute([...lead, ...range(batch + m, k), ...range(batch, m)]), g, batch, k, m)
      : null,
  ]);
}

/** How a product of such elements may be computed, where that is a question. */
function precisionFor({ dtype }: Tensor): { precision?: Float32Precision } {
  const precision = getFloat32Precision();
  return dtype !== "float32" || precision === "highest" ? {} : { precision };
}

/** The matrix product by NumPy's rules: leading axes broadcast, vectors are rows or columns. */
export function matmul(a: Tensor, b: Tensor): Tensor {
  sameDevice("matmul", [a, b]);
  const fail = (why: string): ShapeError =>
    new ShapeError(
      `Cannot matmul tensors of shapes ${formatShape(a.shape)} and ${formatShape(b.shape)}: ${why}`,
    );
  if (a.ndim === 0 || b.ndim === 0) throw fail("scalars are multiplied with mul");
  if (a.dtype === "bool" || b.dtype === "bool" || dtypes[a.dtype].kind !== dtypes[b.dtype].kind) {
    throw new DTypeError(`Cannot matmul ${a.dtype} and ${b.dtype}: cast both to one type`);
  }
  const [left, right] = narrowed(a, b);
  const dtype = promote(left.dtype, right.dtype);
  const [x, y] = [left.cast(dtype), right.cast(dtype)];
  if (a.ndim === 1) return matmul(x.unsqueeze(0), y).squeeze(-1 - Number(b.ndim > 1));
  if (b.ndim === 1) return matmul(x, y.unsqueeze(1)).squeeze(-1);
  if (x.shape[x.ndim - 1] !== y.shape[y.ndim - 2]) {
    throw fail(`${x.shape[x.ndim - 1]} columns do not meet ${y.shape[y.ndim - 2]} rows`);
  }
  // One matrix for a whole batch: the batch is just more rows.
  if (y.ndim === 2) return contract(x, y, 0, x.ndim - 1, 1);
  const batch = broadcastShapes(x.shape.slice(0, -2), y.shape.slice(0, -2));
  if (!batch) throw fail("the leading axes do not broadcast");
  const [p, q] = [x, y].map((t) => expand(t, [...batch, ...t.shape.slice(-2)]));
  return contract(p!, q!, batch.length, 1, 1);
}

/** The products of the matrices of two batches, one by one. */
export function bmm(a: Tensor, b: Tensor): Tensor {
  sameDevice("bmm", [a, b]);
  if (a.ndim === 3 && b.ndim === 3 && a.shape[0] === b.shape[0] && a.shape[2] === b.shape[1]) {
    return matmul(a, b);
  }
  throw new ShapeError(
    `Cannot bmm tensors of shapes ${formatShape(a.shape)} and ${
      formatShape(b.shape)
    }: pass [b, m, k] and [b, k, n]; matmul broadcasts`,
  );
}

/** Every element of one vector by every element of another. */
export function outer(a: Tensor, b: Tensor): Tensor {
  sameDevice("outer", [a, b]);
  if (a.ndim === 1 && b.ndim === 1) return a.unsqueeze(1).mul(b);
  throw new ShapeError(
    `Cannot take the outer product of shapes ${formatShape(a.shape)} and ${
      formatShape(b.shape)
    }: pass vectors`,
  );
}

/** Options of `conv2d`. */
export interface Conv2dOptions {
  /** One number per output channel. */
  bias?: Tensor;
  /** Steps between positions; one number, or height and width. */
  stride?: Axes;
  /** Zeros around the image. */
  padding?: Axes;
  /** Steps between the taps of the kernel. */
  dilation?: Axes;
  /** Groups of channels that do not see each other. */
  groups?: number;
}

/** Steps and widths are checked with the shapes. */
const convolutionRules: Rules<Conv2dOptions> = {
  bias: aTensor(),
  stride: takes.anything,
  padding: takes.anything,
  dilation: takes.anything,
  groups: takes.count,
};

interface Geometry {
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly groups: number;
}

/** 2-D convolution of (N, C, H, W) with (O, C / groups, KH, KW). */
export function conv2d(x: Tensor, weight: Tensor, options: Conv2dOptions = {}): Tensor {
  checkOptions("conv2d", options, convolutionRules);
  const geometry: Geometry = {
    stride: pair("conv2d", "stride", options.stride, 1),
    padding: pair("conv2d", "padding", options.padding, 0),
    dilation: pair("conv2d", "dilation", options.dilation, 1),
    groups: options.groups ?? 1,
  };
  checkConv(x, weight, geometry);
  const [image, kernel] = narrowed(x, weight);
  const dtype = promote(image.dtype, kernel.dtype);
  const out = convolve(image.cast(dtype), kernel.cast(dtype), geometry);
  const { bias } = options;
  if (bias && (bias.ndim !== 1 || bias.size !== weight.shape[0])) {
    throw new ShapeError(
      `Cannot conv2d with a bias of shape ${
        formatShape(bias.shape)
      }: pass one number for each of ` +
        `the ${weight.shape[0]} outputs`,
    );
  }
  return bias ? out.add(bias.cast(dtype).reshape([1, bias.size, 1, 1])) : out;
}

function checkConv(
  x: Tensor,
  weight: Tensor,
  { stride, dilation, padding, groups }: Geometry,
): void {
  const fail = (why: string): ShapeError =>
    new ShapeError(
      `Cannot conv2d a tensor of shape ${formatShape(x.shape)} with a weight of shape ${
        formatShape(weight.shape)
      }: ${why}`,
    );
  sameDevice("conv2d", [x, weight]);
  if (x.ndim !== 4 || weight.ndim !== 4) {
    throw fail("pass [N, C, H, W] and [O, C / groups, KH, KW]");
  }
  if (!Number.isInteger(groups) || groups < 1) throw fail(`there are no ${groups} groups`);
  const [outputs, channels] = weight.shape as [number, number];
  if (x.shape[1] !== channels * groups || outputs % groups !== 0) {
    throw fail(
      `${x.shape[1]} channels do not fit ${groups} group(s) of ${channels}, ${outputs} outputs`,
    );
  }
  if (stride.some((s) => s < 1) || dilation.some((d) => d < 1) || padding.some((p) => p < 0)) {
    throw fail("stride and dilation are at least 1, padding at least 0");
  }
  if (weight.shape[2] === 0 || weight.shape[3] === 0) throw fail("the kernel is empty");
  for (const k of [0, 1] as const) {
    const span = (weight.shape[2 + k]! - 1) * dilation[k] + 1;
    if (x.shape[2 + k]! + 2 * padding[k] < span) {
      throw fail("the kernel is larger than the padded image");
    }
  }
}

function padded(x: Tensor, [top, left]: readonly [number, number], value = 0): Tensor {
  return pad(x, [[0, 0], [0, 0], [top, top], [left, left]], value);
}

/** Windows of an image by group: (N, G, C/G, OH, OW, KH, KW). */
function windows(
  x: Tensor,
  kernel: readonly number[],
  { stride, dilation, padding, groups }: Geometry,
): Tensor {
  const all = window(padded(x, padding), kernel, stride, dilation);
  const [n, c, ...rest] = all.shape as [number, number, ...number[]];
  return all.reshape([n, groups, c / groups, ...rest]);
}

function convolve(x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const { groups } = geometry;
  const [n] = x.shape as [number];
  const [o, c, kh, kw] = weight.shape as [number, number, number, number];
  const forward = (image: Tensor, w: Tensor): Tensor => {
    const left = w.reshape([1, groups, o / groups, c, kh, kw]).expand([
      n,
      groups,
      o / groups,
      c,
      kh,
      kw,
    ]);
    const right = windows(image, [kh, kw], geometry).permute([0, 1, 2, 5, 6, 3, 4]);
    const out = contract(left, right, 2, 1, 3);
    return out.reshape([n, o, ...out.shape.slice(3)]);
  };
  const value = forward(x.detach(), weight.detach());
  return result("conv2d", [x, weight], value, (g) => [
    x.requiresGrad ? imageGradient(g, x, weight, geometry) : null,
    weight.requiresGrad ? weightGradient(g, x, weight, geometry) : null,
  ]);
}

/** The image's gradient: the result's, spread by the stride, convolved with the mirrored kernel. */
function imageGradient(g: Tensor, x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const { stride, padding, dilation, groups } = geometry;
  const [o, c, kh, kw] = weight.shape as [number, number, number, number];
  const mirrored = weight.reshape([groups, o / groups, c, kh, kw]).transpose(1, 2)
    .reshape([groups * c, o / groups, kh, kw]).flip([2, 3]);
  const spread = dilate(g, [1, 1, ...stride]);
  const widths = [kh, kw].map((k, i): [number, number] => {
    const before = (k - 1) * dilation[i]! - padding[i]!;
    const after = x.shape[2 + i]! + padding[i]! - spread.shape[2 + i]!;
    return [before, after];
  });
  const image = spread.pad([[0, 0], [0, 0], ...widths]);
  return convolve(image, mirrored, { stride: [1, 1], padding: [0, 0], dilation, groups });
}

/** The kernel's gradient: for each tap, the sum over images and positions. */
function weightGradient(g: Tensor, x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const { groups } = geometry;
  const [o, , kh, kw] = weight.shape as [number, number, number, number];
  const [n, , oh, ow] = g.shape as [number, number, number, number];
  const left = g.reshape([n, groups, o / groups, oh, ow]).permute([1, 2, 0, 3, 4]);
  const right = windows(x, [kh, kw], geometry).permute([1, 0, 3, 4, 2, 5, 6]);
  return contract(left, right, 1, 1, 3).reshape(weight.shape);
}

/** Options of pooling. */
export interface PoolOptions {
  /** Steps between windows; default: the kernel's size. */
  stride?: Axes;
  /** Padding around the image. */
  padding?: Axes;
  /** Steps between the elements of a window. */
  dilation?: Axes;
  /** Whether padding counts as zeros in a mean (default), or not at all. */
  countIncludePad?: boolean;
}

/** What {@linkcode PoolOptions} may hold; steps and widths are checked with the shapes. */
export const poolRules: Rules<PoolOptions> = {
  stride: takes.anything,
  padding: takes.anything,
  dilation: takes.anything,
  countIncludePad: takes.bool,
};

function poolWindows(
  op: string,
  x: Tensor,
  kernel: Axes,
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
    throw new ShapeError(
      `Cannot ${op} a tensor of shape ${formatShape(x.shape)} by windows of ${
        formatShape(size)
      }: ` +
        `pass [N, C, H, W], not smaller than a window`,
    );
  }
  if (padding.some((p, k) => p < 0 || 2 * p > size[k as 0 | 1])) {
    throw new ShapeError(
      `Cannot ${op} by windows of ${formatShape(size)} with padding ${
        formatShape(padding)
      }: pad by ` +
        `at most half a window, so that none holds padding only`,
    );
  }
  const image = padded(x, padding, value);
  const [n, c, h, w] = image.shape as [number, number, number, number];
  const isTiling = [h, w].every((side, k) =>
    stride[k] === size[k] && dilation[k] === 1 && side % size[k]! === 0
  );
  if (!isTiling) return window(image, size, stride, dilation);
  // Windows that tile the image are a view of it, and so is what they give back in backward.
  return image.reshape([n, c, h / size[0], size[0], w / size[1], size[1]])
    .permute([0, 1, 2, 4, 3, 5]);
}

/** The largest element of each window; the first of equal ones gets the gradient, as in PyTorch. */
export function maxPool2d(x: Tensor, kernel: Axes, options: PoolOptions = {}): Tensor {
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
export function avgPool2d(x: Tensor, kernel: Axes, options: PoolOptions = {}): Tensor {
  const means = poolWindows("avgPool2d", x, kernel, options, 0).mean([4, 5]);
  if (options.countIncludePad ?? true) return means;
  // The mean of ones says how much of each window is image.
  return means.div(
    poolWindows("avgPool2d", x.detach().onesLike(), kernel, options, 0).mean([4, 5]),
  );
}

/** The sizes of an adaptive pooling, checked; whether its regions tile the image. */
function regionsOf(op: string, x: Tensor, size: Axes): { parts: [number, number]; tile: boolean } {
  const parts = pair(op, "size", size, 1);
  if (x.ndim !== 4 || parts.some((n) => n < 1)) {
    throw new ShapeError(
      `Cannot ${op} a tensor of shape ${formatShape(x.shape)} to ${formatShape(parts)}: ` +
        `pass [N, C, H, W], and sizes of at least 1`,
    );
  }
  return { parts, tile: parts.every((n, k) => x.shape[2 + k]! > 0 && x.shape[2 + k]! % n === 0) };
}

/** The windows of regions that tile the image. */
function tileSizes(x: Tensor, parts: readonly [number, number]): [number, number] {
  return [x.shape[2]! / parts[0], x.shape[3]! / parts[1]];
}

/** The largest element of regions that divide the image into `size` parts; see {@linkcode maxPool2d}. */
export function adaptiveMaxPool2d(x: Tensor, size: Axes): Tensor {
  const { parts, tile } = regionsOf("adaptiveMaxPool2d", x, size);
  if (tile) return maxPool2d(x, tileSizes(x, parts));
  // (N, C, H, W) -> (N, C, oh, kh, ow, kw); regions that are shorter see their last element again.
  const rows = regions(x, 2, parts[0]).elements;
  const all = regions(rows, 4, parts[1]).elements.permute([0, 1, 2, 4, 3, 5]);
  return maxOfTaps("adaptiveMaxPool2d", all);
}

/** The mean over regions that divide the image into `size` parts. */
export function adaptiveAvgPool2d(x: Tensor, size: Axes): Tensor {
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
  /** How many elements each region has. */
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
