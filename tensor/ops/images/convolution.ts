/**
 * Convolution along any number of axes, and its adjoint, the transposed convolution.
 *
 * This folder (`images/`) has convolution, pooling, padding and resampling; it imports `shaping/`,
 * `elementwise/`, the contraction of `ops/` and `core/`.
 */
import { formatShape, type Shape } from "../../../backend/internal.ts";
import { narrowed } from "../../core/autocast.ts";
import { aTensor, result, sameDevice } from "../../core/apply.ts";
import { type ShapeError, shapeError } from "../../core/rules/errors.ts";
import { promote } from "../../core/rules/promotion.ts";
import { variant } from "../../core/operations.ts";
import type { Tensor } from "../../core/mod.ts";
import { tuple } from "../shaping/axes.ts";
import { contract } from "../contractions.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { adjointProduct } from "./adjoint.ts";
import { axesFrom } from "../shaping/axes.ts";
import { type Geometry, productOfWindows, windows } from "./geometry.ts";
import type { ConvOptions, ConvTransposeOptions } from "../../core/image_options.ts";

/** Steps and widths are checked with the shapes. */
const convolutionRules: Rules<ConvOptions> = {
  bias: aTensor(),
  stride: takes.anything,
  padding: takes.anything,
  dilation: takes.anything,
  groups: takes.count,
};

const transposeRules: Rules<ConvTransposeOptions> = {
  ...convolutionRules,
  outputPadding: takes.anything,
};

function geometryOf(
  name: string,
  dims: number,
  { stride = 1, padding = 0, dilation = 1, groups = 1 }: ConvOptions,
): Geometry {
  return {
    name,
    stride: tuple(name, "stride", stride, dims),
    padding: tuple(name, "padding", padding, dims),
    dilation: tuple(name, "dilation", dilation, dims),
    groups,
  };
}

/** Reach of a kernel's taps along an axis. */
function spanOf(weight: Tensor, { dilation }: Geometry, axis: number): number {
  return (weight.shape[2 + axis]! - 1) * dilation[axis]! + 1;
}

/** Convolution of (N, C, spatial...) with (O, C / groups, kernel...), along `dims` axes. */
function conv(dims: number, x: Tensor, weight: Tensor, options: ConvOptions = {}): Tensor {
  const name = `conv${dims}d`;
  checkOptions(name, options, convolutionRules);
  const geometry = geometryOf(name, dims, options);
  checkConv(x, weight, geometry);
  const [image, kernel] = narrowed(x, weight);
  const dtype = promote(image.dtype, kernel.dtype);
  const out = convolve(image.cast(dtype), kernel.cast(dtype), geometry);
  return withBias(name, out, options.bias, weight.shape[0]!);
}

export const conv1d = variant("conv1d", conv, 1);
export const conv2d = variant("conv2d", conv, 2);
export const conv3d = variant("conv3d", conv, 3);

/**
 * The adjoint of {@linkcode conv}: (N, C, spatial...) with (C, O / groups, kernel...), each element
 * spread over the places that the kernel would have read it from.
 */
function convTranspose(
  dims: number,
  x: Tensor,
  weight: Tensor,
  options: ConvTransposeOptions = {},
): Tensor {
  const name = `convTranspose${dims}d`;
  checkOptions(name, options, transposeRules);
  const geometry = geometryOf(name, dims, options);
  const extra = tuple(
    name,
    "outputPadding",
    options.outputPadding === undefined ? 0 : options.outputPadding,
    dims,
  );
  const lengths = checkTranspose(x, weight, geometry, extra);
  const [image, kernel] = narrowed(x, weight);
  const dtype = promote(image.dtype, kernel.dtype);
  const out = transposed(image.cast(dtype), kernel.cast(dtype), geometry, lengths);
  return withBias(name, out, options.bias, weight.shape[1]! * geometry.groups);
}

export const convTranspose1d = variant("convTranspose1d", convTranspose, 1);
export const convTranspose2d = variant("convTranspose2d", convTranspose, 2);
export const convTranspose3d = variant("convTranspose3d", convTranspose, 3);

function withBias(name: string, out: Tensor, bias: Tensor | undefined, count: number): Tensor {
  if (!bias) return out;
  sameDevice(name, [out, bias]);
  if (bias.ndim !== 1 || bias.size !== count) {
    throw shapeError(name)`
      Cannot ${name} with a bias of shape ${bias.shape}: pass one number for each of the ${count}
      outputs`;
  }
  return out.add(bias.cast(out.dtype).reshape([1, count, ...out.shape.slice(2).map(() => 1)]));
}

/** Error for an image, or a weight, that does not fit. */
function misfit({ name }: Geometry, x: Tensor, weight: Tensor, why: string): ShapeError {
  return shapeError(name)`
    Cannot ${name} a tensor of shape ${x.shape} with a weight of shape ${weight.shape}: ${why}`;
}

/** Checks operands for both directions; `layout` says what a weight is. */
function checkOperands(x: Tensor, weight: Tensor, geometry: Geometry, layout: string): void {
  const { name, stride, dilation, padding, groups } = geometry;
  const dims = stride.length;
  const fail = (why: string): ShapeError => misfit(geometry, x, weight, why);
  sameDevice(name, [x, weight]);
  const axes = ["D", "H", "W"].slice(3 - dims);
  if (x.ndim !== 2 + dims || weight.ndim !== 2 + dims) {
    throw fail(`pass [N, C, ${axes.join(", ")}] and [${layout}, K${axes.join(", K")}]`);
  }
  if (!Number.isInteger(groups) || groups < 1) throw fail(`there are no ${groups} groups`);
  if (stride.some((s) => s < 1) || dilation.some((d) => d < 1) || padding.some((p) => p < 0)) {
    throw fail("stride and dilation are at least 1, padding at least 0");
  }
  if (weight.shape.slice(2).includes(0)) throw fail("the kernel is empty");
}

function checkConv(x: Tensor, weight: Tensor, geometry: Geometry): void {
  checkOperands(x, weight, geometry, "O, C / groups");
  const { padding, groups } = geometry;
  const [outputs, channels] = weight.shape as [number, number];
  if (x.shape[1] !== channels * groups || outputs % groups !== 0) {
    throw misfit(
      geometry,
      x,
      weight,
      `${x.shape[1]} channels do not fit ${groups} group(s) of ${channels}, ${outputs} outputs`,
    );
  }
  padding.forEach((p, k) => {
    if (x.shape[2 + k]! + 2 * p >= spanOf(weight, geometry, k)) return;
    throw misfit(geometry, x, weight, "the kernel is larger than the padded image");
  });
}

/** The lengths of the output's axes. */
function checkTranspose(
  x: Tensor,
  weight: Tensor,
  geometry: Geometry,
  extra: readonly number[],
): number[] {
  checkOperands(x, weight, geometry, "C, O / groups");
  const { stride, padding, dilation, groups } = geometry;
  const fail = (why: string): ShapeError => misfit(geometry, x, weight, why);
  if (x.shape[1] !== weight.shape[0] || weight.shape[0]! % groups !== 0) {
    throw fail(
      `${x.shape[1]} channels do not fit a weight of ${weight.shape[0]} in ${groups} group(s)`,
    );
  }
  if (extra.some((e, k) => e < 0 || e >= Math.max(stride[k]!, dilation[k]!))) {
    throw fail(
      `the output padding ${formatShape(extra)} must be less than the stride or the dilation`,
    );
  }
  const lengths = extra.map((e, k) =>
    (x.shape[2 + k]! - 1) * stride[k]! - 2 * padding[k]! + spanOf(weight, geometry, k) + e
  );
  if (lengths.every((n) => n > 0) && !x.shape.slice(2).includes(0)) return lengths;
  throw fail(`the output would have the lengths ${formatShape(lengths)}: use less padding`);
}

/** Each output is the product of a window with the kernel. */
function convolve(x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const value = productOfWindows(x.detach(), weight.detach(), geometry);
  return result(geometry.name, [x, weight], value, (g) => [
    x.requiresGrad ? transposed(g, weight, geometry, x.shape.slice(2)) : null,
    weight.requiresGrad ? weightGradient(g, x, weight, geometry) : null,
  ]);
}

/** The image's gradient, which is the transposed convolution; their gradients are each other. */
function transposed(x: Tensor, weight: Tensor, geometry: Geometry, lengths: Shape): Tensor {
  const value = adjointProduct(x.detach(), weight.detach(), geometry, lengths);
  const positions = x.shape.slice(2);
  return result(geometry.name, [x, weight], value, (g) => [
    x.requiresGrad ? firstOf(convolve(g, weight, geometry), positions) : null,
    weight.requiresGrad ? weightGradient(x, g, weight, geometry) : null,
  ]);
}

/** The first positions; an output padded by more than the stride has some that nothing came from. */
function firstOf(x: Tensor, positions: Shape): Tensor {
  return x.slice(null, null, ...positions.map((n): [number, number] => [0, n]));
}

/** The kernel's gradient: for each tap, the sum over images and positions. */
function weightGradient(g: Tensor, x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const { groups } = geometry;
  const [o, , ...kernel] = weight.shape as [number, number, ...number[]];
  const [n, , ...positions] = g.shape as [number, number, ...number[]];
  const dims = kernel.length;
  const left = g.reshape([n, groups, o / groups, ...positions])
    .permute([1, 2, 0, ...axesFrom(3, dims)]);
  const right = windows(x, kernel, geometry, positions)
    .permute([1, 0, ...axesFrom(3, dims), 2, ...axesFrom(3 + dims, dims)]);
  return contract(left, right, 1, 1, 1 + dims).reshape(weight.shape);
}
