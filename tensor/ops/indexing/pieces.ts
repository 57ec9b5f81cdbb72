/** Tensors taken apart along an axis, repeated piece by piece, or spread over a grid. */
import { formatShape } from "../../../backend/internal.ts";
import { sameDevice } from "../../core/apply.ts";
import { ShapeError } from "../../core/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/options.ts";
import type { Tensor } from "../../tensor.ts";
import { normalizeAxis } from "../axes.ts";
import { expand, type Range, requireTensors, reshape, slice } from "../shaping.ts";

/** The ranges that take a part of one axis, and all of the others. */
export function along(x: Tensor, axis: number, range: Range): Range[] {
  return x.shape.map((_, k) => k === axis ? range : null);
}

/** Each slice along an axis, without it. */
export function unbind(x: Tensor, axis = 0): Tensor[] {
  const at = normalizeAxis("unbind", axis, x.shape);
  return Array.from({ length: x.shape[at]! }, (_, k) => slice(x, along(x, at, k)));
}

/** Parts of equal size along an axis, the last of which may be shorter. */
export function chunk(x: Tensor, count: number, axis = 0): Tensor[] {
  requireValue("chunk", "count", count, takes.count);
  const at = normalizeAxis("chunk", axis, x.shape), n = x.shape[at]!;
  // Nothing is divided into as many empty parts, as in PyTorch.
  if (n === 0) return Array.from({ length: count }, () => x.reshape(x.shape));
  return x.split(Math.ceil(n / count), at);
}

/** Every element along an axis, `times` in a row; of the flattened tensor where no axis is named. */
export function repeatEach(x: Tensor, times: number, axis?: number): Tensor {
  if (axis === undefined) return repeatEach(x.reshape([x.size]), times, 0);
  const at = normalizeAxis("repeatInterleave", axis, x.shape);
  const shape = x.shape.toSpliced(at + 1, 0, 1), wide = shape.with(at + 1, times);
  return reshape(expand(reshape(x, shape), wide), x.shape.with(at, x.shape[at]! * times));
}

/** How coordinates are ordered: the first one along rows ("ij"), or along columns ("xy"). */
export interface MeshOptions {
  /** "ij" (matrices, the default) or "xy" (plots: the first two axes are exchanged). */
  indexing?: "ij" | "xy";
}

const meshRules: Rules<MeshOptions> = { indexing: takes.oneOf("ij", "xy") };

/** Grids of coordinates from vectors: each as a tensor over all of the grid. */
export function meshgrid(tensors: readonly Tensor[], options: MeshOptions = {}): Tensor[] {
  requireTensors("meshgrid", tensors);
  checkOptions("meshgrid", options, meshRules);
  if (tensors.length === 0) throw new ShapeError("Cannot meshgrid no tensors: pass at least one");
  sameDevice("meshgrid", tensors);
  const long = tensors.find((t) => t.ndim > 1);
  if (long) {
    throw new ShapeError(
      `Cannot meshgrid a tensor of shape ${formatShape(long.shape)}: pass vectors`,
    );
  }
  const sizes = tensors.map((t) => t.size);
  const isSwapped = options.indexing === "xy" && tensors.length > 1;
  return tensors.map((t, k) => {
    const grid = t.reshape(sizes.map((n, axis) => axis === k ? n : 1)).expand(sizes);
    return isSwapped ? grid.transpose(0, 1) : grid;
  });
}
