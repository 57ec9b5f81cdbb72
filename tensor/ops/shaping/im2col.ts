/** Windows over the last axes (im2col), and their adjoint (col2im). */
import type { Shape } from "../../../backend/internal.ts";
import { derived } from "../../core/apply.ts";
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
