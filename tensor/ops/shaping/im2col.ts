/** Windows over the last axes (im2col), and their adjoint (col2im). */
import type { Shape } from "../../../backend/internal.ts";
import { derived } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import { normalizeAxis } from "./axes.ts";
import type { Tensor } from "../../core/mod.ts";

/** All window positions of the last axes: (..., positions..., kernel...). */
export function im2col(
  x: Tensor,
  kernel: readonly number[],
  stride: readonly number[],
  dilation: readonly number[],
): Tensor {
  const lead = x.ndim - kernel.length;
  const positions = kernel.map((k, i) => {
    const span = (k - 1) * dilation[i]! + 1;
    return Math.floor((x.shape[lead + i]! - span) / stride[i]!) + 1;
  });
  const shape = [...x.shape.slice(0, lead), ...positions, ...kernel];
  const op = { kind: "im2col", kernel, stride, dilation } as const;
  const from = x.shape;
  return derived("im2col", x, op, shape, x.dtype, (g) => [col2im(g, from, stride, dilation)]);
}

/** Windows along one axis, whose elements lie along a further last axis. */
export function unfold(x: Tensor, axis: number, size: number, step: number): Tensor {
  const at = normalizeAxis("unfold", axis, x.shape), length = x.shape[at]!;
  requireValue("unfold", "size", size, takes.count);
  requireValue("unfold", "step", step, takes.count);
  if (size > length) {
    throw shapeError("unfold", axis)`
      Cannot unfold axis ${axis} of shape ${x.shape} into windows of ${size}: it has ${length}
      elements`;
  }
  const others = x.shape.map((_, k) => k).filter((k) => k !== at);
  const found = im2col(x.permute([...others, at]), [size], [step], [1]);
  // The windows' number goes back to the axis' place.
  const order = others.map((_, k) => k).toSpliced(at, 0, x.ndim - 1);
  return found.permute([...order, x.ndim]);
}

/** The adjoint of `im2col`: each element gets the sum of what the windows hold of it. */
export function col2im(
  x: Tensor,
  shape: Shape,
  stride: readonly number[],
  dilation: readonly number[],
): Tensor {
  const kernel = x.shape.slice(x.ndim - stride.length);
  return derived("col2im", x, { kind: "col2im", stride, dilation }, shape, x.dtype, (g) => [
    im2col(g, kernel, stride, dilation),
  ]);
}
