/** Convolutions whose windows have a place for each of their elements. */
import { sizeOf } from "../../../../../backend/internal.ts";
import { Tensor } from "../../../../class/tensor.ts";

import type { Call, Operators } from "../../core/call.ts";
import { sampled } from "./sampling.ts";
import { spanOf, type Windows, windowsOf } from "./windows.ts";

/** Places of the elements of all windows along an axis, where nothing moves them: [taps, windows]. */
function restingPlaces(axis: number, windows: Windows, counts: readonly number[]): Tensor {
  const { kernel, strides, dilations, pads } = windows, taps = sizeOf(kernel), all = sizeOf(counts);
  const along = (at: number, lengths: readonly number[]) =>
    Math.floor(at / sizeOf(lengths.slice(axis + 1))) % lengths[axis]!;
  const places = Float32Array.from(
    { length: taps * all },
    (_, k) =>
      along(Math.floor(k / all), kernel) * dilations[axis]! +
      along(k % all, counts) * strides[axis]! -
      pads[axis]![0],
  );
  return Tensor.fromHost(places, { shape: [taps, all] });
}

/** X. Zhu et al., Deformable ConvNets v2, 2018: windows of elements that are moved, and weighed. */
function deformableConvolution(call: Call): Tensor {
  const x = call.tensor(0), w = call.tensor(1), [n, c, ...lengths] = x.shape as [number, number];
  const windows = windowsOf(call, w.shape.slice(2), lengths), axes = lengths.length;
  const counts = lengths.map((length, k) => {
    const { kernel, strides, dilations, pads } = windows, [before, after] = pads[k]!;
    return Math.floor((length + before + after - spanOf(kernel[k]!, dilations[k]!)) / strides[k]!) +
      1;
  });
  const taps = sizeOf(windows.kernel), all = sizeOf(counts), parts = call.int("offset_group", 1);
  const moved = call.tensor(2).reshape([n * parts, taps, axes, all]);
  const sources = lengths.map((_, axis) =>
    moved.slice(null, null, axis).add(restingPlaces(axis, windows, counts).cast(x.dtype))
  );
  const image = x.reshape([n * parts, c / parts, ...lengths]);
  const seen = sampled({ x: image, lengths, edges: "zeros", isAligned: true }, sources, "linear");
  const mask = call.optional(4)?.reshape([n * parts, 1, taps, all]);
  const groups = call.int("group", 1), outputs = w.shape[0]! / groups;
  const columns = (mask ? seen.mul(mask) : seen).reshape([n, groups, c / groups * taps, all]);
  const sums = w.reshape([groups, outputs, -1]).matmul(columns).reshape([
    n,
    w.shape[0]!,
    ...counts,
  ]);
  const bias = call.optional(3);
  return bias ? sums.add(bias.reshape([-1, ...counts.map(() => 1)])) : sums;
}

/** Deformable convolutions, by their kinds. */
export const deformable: Operators = { DeformConv: deformableConvolution };
