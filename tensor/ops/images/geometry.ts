/** Geometry of a convolution's kernel over an image, and the product of its windows. */
import type { Shape } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { contract } from "../contractions.ts";
import { axesFrom } from "../shaping/axes.ts";
import { pad } from "../shaping/slices.ts";
import { im2col } from "../shaping/im2col.ts";

/** Steps of a kernel over an image: for each axis, and the groups of channels. */
export interface Geometry {
  readonly name: string;
  readonly stride: readonly number[];
  readonly padding: readonly number[];
  readonly dilation: readonly number[];
  readonly groups: number;
}

/**
 * Windows of an image by group: (N, G, C/G, positions..., kernel...), the first `positions` of them
 * where an image has more.
 */
export function windows(
  x: Tensor,
  kernel: Shape,
  { stride, dilation, padding, groups }: Geometry,
  positions?: Shape,
): Tensor {
  const image = pad(x, [[0, 0], [0, 0], ...padding.map((p): [number, number] => [p, p])]);
  const all = im2col(image, kernel, stride, dilation);
  const [n, c, ...rest] = all.shape as [number, number, ...number[]];
  const grouped = all.reshape([n, groups, c / groups, ...rest]);
  if (!positions) return grouped;
  return grouped.slice(null, null, null, ...positions.map((m): [number, number] => [0, m]));
}

/** A convolution's result, (N, O, positions...): each element is the product of a window with a kernel. */
export function productOfWindows(x: Tensor, weight: Tensor, geometry: Geometry): Tensor {
  const { groups } = geometry;
  const n = x.shape[0]!, dims = geometry.stride.length;
  const [o, c, ...kernel] = weight.shape as [number, number, ...number[]];
  const left = weight.reshape([1, groups, o / groups, c, ...kernel])
    .expand([n, groups, o / groups, c, ...kernel]);
  const right = windows(x, kernel, geometry)
    .permute([0, 1, 2, ...axesFrom(3 + dims, dims), ...axesFrom(3, dims)]);
  const out = contract(left, right, 2, 1, 1 + dims);
  return out.reshape([n, o, ...out.shape.slice(3)]);
}
