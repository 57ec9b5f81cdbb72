/** Windows over the last axes (im2col), and their adjoint (col2im). */
import type { Shape } from "../../../backend/internal.ts";
import { derived, result } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { requireValue, takes } from "../../core/rules/options.ts";
import { axesFrom, normalizeAxis } from "./axes.ts";
import { dilate, pad } from "./slices.ts";
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
  return result("col2im", [x], windowSums(x.detach(), shape, stride, dilation), (g) => [
    im2col(g, kernel, stride, dilation),
  ]);
}

const gcd = (a: number, b: number): number => b === 0 ? a : gcd(b, a % b);

/**
 * Sums of windows by views alone. Elements in steps of the stride (a phase of it) are held by taps in such steps:
 * element `q * stride + v` is tap `u * stride + v` of window `q - u * dilation`, for each `u`.
 */
function windowSums(
  x: Tensor,
  shape: Shape,
  stride: readonly number[],
  dilation: readonly number[],
): Tensor {
  const dims = stride.length, lead = x.ndim - 2 * dims, before = axesFrom(0, lead);
  const ones = stride.map(() => 1), common = stride.map((s, k) => gcd(s, dilation[k]!));
  if (common.some((n) => n > 1)) {
    // Only every such element is in a window.
    const by = (numbers: readonly number[]): number[] => numbers.map((n, k) => n / common[k]!);
    const few = common.map((n, k) => Math.ceil(shape[lead + k]! / n));
    const sums = windowSums(x, [...shape.slice(0, lead), ...few], by(stride), by(dilation));
    const spread = dilate(sums, [...before.map(() => 1), ...common]);
    return pad(spread, shape.map((n, k): [number, number] => [0, n - spread.shape[k]!]));
  }
  if (stride.some((s, k) => s > 1 && dilation[k]! > 1)) {
    // Phases of stretched windows are other ones: zeros between windows make these begin everywhere.
    const spread = dilate(x, [...before.map(() => 1), ...stride, ...ones]);
    return windowSums(spread, shape, ones, dilation);
  }
  const places = stride.map((s, k) => Math.ceil(shape[lead + k]! / s));
  const taps = stride.map((s, k) => Math.ceil(x.shape[lead + dims + k]! / s));
  const ends = taps.map((n, k) => (n - 1) * dilation[k]!);
  const free = before.map((): [number, number] => [0, 0]);
  const phases = pad(x, [
    ...free,
    ...ends.map((end, k): [number, number] => [end, places[k]! - x.shape[lead + k]!]),
    ...taps.map((n, k): [number, number] => [0, n * stride[k]! - x.shape[lead + dims + k]!]),
  ]);
  const windows = places.map((n, k) => n + ends[k]!);
  const each = axesFrom(0, dims);
  // (..., phases, windows by taps): a step back along windows is one on along taps.
  const lines = phases.reshape([
    ...x.shape.slice(0, lead),
    ...windows,
    ...taps.flatMap((n, k) => [n, stride[k]!]),
  ])
    .permute([
      ...before,
      ...each.map((k) => lead + dims + 2 * k + 1),
      ...each.flatMap((k) => [lead + k, lead + dims + 2 * k]),
    ])
    .reshape([...x.shape.slice(0, lead), ...stride, ...windows.map((n, k) => n * taps[k]!)])
    .slice(
      ...axesFrom(0, lead + dims).map(() => null),
      ...taps.map((n, k): [number, number] => [n - 1, windows[k]! * n]),
    );
  const held = im2col(lines, taps, taps, taps.map((n, k) => dilation[k]! * n - 1));
  const last = axesFrom(lead + 2 * dims, dims);
  const sums = held.shape.slice(0, lead + 2 * dims);
  return derived("col2im", held, { kind: "reduce", fn: "sum", axes: last }, sums, x.dtype, null)
    .permute([...before, ...each.flatMap((k) => [lead + dims + k, lead + k])])
    .reshape([...x.shape.slice(0, lead), ...places.map((n, k) => n * stride[k]!)])
    .slice(...before.map(() => null), ...each.map((k): [number, number] => [0, shape[lead + k]!]));
}
