/** Windows over the last axes (im2col), and their adjoint (col2im). */
import type { Shape } from "../../../backend/internal.ts";
import { derived } from "../../core/apply.ts";
import type { Tensor } from "../../tensor.ts";

/** All window positions of the last axes: (..., positions..., kernel...). */
export function window(
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
  const op = { kind: "window", kernel, stride, dilation } as const;
  const from = x.shape;
  return derived("window", x, op, shape, x.dtype, (g) => [fold(g, from, stride, dilation)]);
}

/** The adjoint of `window`: each element gets the sum of what the windows hold of it. */
export function fold(
  x: Tensor,
  shape: Shape,
  stride: readonly number[],
  dilation: readonly number[],
): Tensor {
  const kernel = x.shape.slice(x.ndim - stride.length);
  return derived("fold", x, { kind: "fold", stride, dilation }, shape, x.dtype, (g) => [
    window(g, kernel, stride, dilation),
  ]);
}
