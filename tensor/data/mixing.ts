/**
 * Two images and their labels in one, by chance: mixup (H. Zhang et al., 2018) and CutMix (S. Yun et al.,
 * 2019), on the device, lazily.
 */
import { isFloat } from "../../backend/internal.ts";
import { requireTensor } from "../core/apply.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";

/** Options of {@linkcode mixup} and {@linkcode cutmix}. */
export interface MixOptions {
  /** Shares are drawn from Beta(alpha, alpha): 1 (the default) makes all alike, less favours one image. */
  alpha?: number;
}

const rules: Rules<MixOptions> = { alpha: takes.positive };

/** Result of mixing. */
export interface Mixed {
  /** Of the shape of the images that were given. */
  readonly images: Tensor;
  /** (N, classes): what `crossEntropy` takes as probabilities. */
  readonly labels: Tensor;
}

/** So many are drawn, of which the first that Jöhnk's method accepts is taken: it refuses half at most. */
const TRIES = 64;

/** One number from Beta(alpha, alpha): M. D. Jöhnk, 1964, in logarithms. */
function drawShare(alpha: number, x: Tensor): Tensor {
  const [a, b] = [0, 1].map(() =>
    Tensor.rand([TRIES], { device: x.device }).neg().add(1).log().div(alpha)
  ) as [Tensor, Tensor];
  const accepted = a.exp().add(b.exp()).le(1).cast("int32");
  return a.sub(b).sigmoid().gather(0, accepted.argmax(0).reshape([1])).reshape([]);
}

/** Each row's former one; the first has the last. */
function neighbours(x: Tensor): Tensor {
  const count = x.shape[0]!;
  return count < 2 ? x : Tensor.concat([x.slice([count - 1, null]), x.slice([0, count - 1])]);
}

function requireBatch(action: string, x: unknown, labels: unknown, classes: number): void {
  requireTensor(action, x);
  requireTensor(action, labels);
  requireValue(action, "classes", classes, takes.count);
  if (x.ndim !== 4 || labels.ndim !== 1 || labels.shape[0] !== x.shape[0]) {
    throw shapeError(action)`
      Cannot ${action} of shape ${x.shape} with labels of ${labels.shape}: pass images
      (N, C, H, W) and labels (N)`;
  }
  if (!isFloat(x.dtype)) {
    throw dtypeError(action)`Cannot ${action} of ${x.dtype}: cast them to float32 first`;
  }
}

function mixedLabels(labels: Tensor, classes: number, share: Tensor): Tensor {
  const hot = labels.oneHot(classes).cast("float32");
  return hot.mul(share).add(neighbours(hot).mul(Tensor.sub(1, share)));
}

/**
 * Blends each image with another one of its batch, and their labels alike; one share for a batch.
 *
 * @param x Images (N, C, H, W) of a floating type.
 * @param labels Classes (N).
 * @param classes How many classes there are.
 * @param options How shares are drawn.
 * @throws {ShapeError} When the shapes are others.
 * @throws {DTypeError} When the images do not hold floating point numbers.
 *
 * @example
 * ```ts
 * import { Tensor, transforms } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const { images, labels } = transforms.mixup(
 *   Tensor.rand([4, 3, 8, 8]),
 *   Tensor.fromHost(Int32Array.of(0, 1, 2, 1)),
 *   3,
 *   { alpha: 0.2 },
 * );
 * assertEquals([images.shape, labels.shape], [[4, 3, 8, 8], [4, 3]]);
 * ```
 */
export function mixup(x: Tensor, labels: Tensor, classes: number, options: MixOptions = {}): Mixed {
  requireBatch("mix images", x, labels, classes);
  checkOptions("mixup", options, rules);
  const share = drawShare(options.alpha ?? 1, x);
  const part = share.cast(x.dtype);
  const images = x.mul(part).add(neighbours(x).mul(Tensor.sub(1, part)));
  return { images, labels: mixedLabels(labels, classes, share) };
}

/**
 * Replaces a rectangle of each image by that of another one of its batch, and mixes their labels by
 * area; one rectangle for a batch.
 *
 * @param x Images (N, C, H, W) of a floating type.
 * @param labels Classes (N).
 * @param classes How many classes there are.
 * @param options How the rectangle's share of the area is drawn.
 * @throws {ShapeError} When the shapes are others.
 * @throws {DTypeError} When the images do not hold floating point numbers.
 *
 * @example
 * ```ts
 * import { Tensor, transforms } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const { images, labels } = transforms.cutmix(
 *   Tensor.rand([4, 3, 8, 8]),
 *   Tensor.fromHost(Int32Array.of(0, 1, 2, 1)),
 *   3,
 * );
 * assertEquals([images.shape, labels.shape], [[4, 3, 8, 8], [4, 3]]);
 * ```
 */
export function cutmix(
  x: Tensor,
  labels: Tensor,
  classes: number,
  options: MixOptions = {},
): Mixed {
  requireBatch("mix images", x, labels, classes);
  checkOptions("cutmix", options, rules);
  const half = Tensor.sub(1, drawShare(options.alpha ?? 1, x)).sqrt().mul(0.5);
  const sides = x.shape.slice(2).map((size) => spanOf(size, half, x));
  const [rows, columns] = sides as [Span, Span];
  const inside = rows.inside.reshape([-1, 1]).logicalAnd(columns.inside);
  const area = rows.length.mul(columns.length).div(x.shape[2]! * x.shape[3]!);
  return {
    images: Tensor.where(inside, neighbours(x), x),
    labels: mixedLabels(labels, classes, Tensor.sub(1, area)),
  };
}

/** The part of an axis that a rectangle takes. */
interface Span {
  readonly inside: Tensor;
  readonly length: Tensor;
}

/** Around a middle by chance, half as long as `half` of the axis to each side, as far as there is some. */
function spanOf(size: number, half: Tensor, x: Tensor): Span {
  const middle = Tensor.randint(0, size, [], { device: x.device }).cast("float32");
  const reach = half.mul(size).floor();
  const low = middle.sub(reach).clamp(0), high = middle.add(reach).clamp(undefined, size);
  const places = Tensor.arange(0, size, { device: x.device, dtype: "float32" });
  return { inside: places.ge(low).logicalAnd(places.lt(high)), length: high.sub(low) };
}
