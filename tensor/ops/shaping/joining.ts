/** Tensors joined along an axis, taken apart, repeated, or spread over a grid. */
import { type DType, formatShape, isFloat } from "../../../backend/internal.ts";
import { distinct, sameDevice } from "../../core/apply.ts";
import { type ShapeError, shapeError } from "../../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../../core/rules/options.ts";
import { promote } from "../../core/rules/promotion.ts";
import { normalizeAxis } from "./axes.ts";
import { slice } from "./slices.ts";
import type { MeshOptions, SliceRange } from "../../core/arguments.ts";
import { expand, flatten, listOf, reshape } from "./views.ts";
import type { Tensor } from "../../core/mod.ts";

/** Throws where a caller without types passes no array. */
function requireTensors(op: string, tensors: readonly Tensor[]): void {
  if (Array.isArray(tensors)) return;
  throw new TypeError(`Cannot ${op} ${shown(tensors)}: pass an array of tensors`);
}

/** Tensors one behind the other along an axis. */
export function concat(tensors: readonly Tensor[], axis = 0): Tensor {
  requireTensors("concat", tensors);
  const first = tensors[0];
  if (!first) throw shapeError("concat")`Cannot concat no tensors: pass at least one`;
  sameDevice("concat", tensors);
  const at = normalizeAxis("concat", axis, first.shape);
  for (const t of tensors) {
    const fits = t.ndim === first.ndim && t.shape.every((n, k) => k === at || n === first.shape[k]);
    if (fits) continue;
    throw shapeError("concat", axis)`
      Cannot concat tensors of shapes ${first.shape} and ${t.shape} along axis ${axis}`;
  }
  const dtype = tensors.map((t): DType => t.dtype).reduce(promote);
  if (tensors.length === 1) return first.reshape(first.shape);
  // Long lists are joined in a tree, so that no element looks at more than a few tensors.
  if (tensors.length > 8) {
    const half = Math.ceil(tensors.length / 2);
    return concat([
      concat(tensors.slice(0, half), at).contiguous(),
      concat(tensors.slice(half), at).contiguous(),
    ], at);
  }
  const total = tensors.reduce((sum, t) => sum + t.shape[at]!, 0);
  // What is added changes nothing, not even the sign of a zero.
  const neutral = isFloat(dtype) ? -0 : 0;
  let start = 0;
  return tensors.map((t) => {
    const n = t.shape[at]!;
    const widths = t.shape.map((_, k): [number, number] =>
      k === at ? [start, total - start - n] : [0, 0]
    );
    start += n;
    return t.cast(dtype).pad(widths, neutral);
  }).reduce((a, b) => a.add(b));
}

/** Tensors side by side along a new axis. */
export function stack(tensors: readonly Tensor[], axis = 0): Tensor {
  requireTensors("stack", tensors);
  const first = tensors[0];
  if (!first) throw shapeError("stack")`Cannot stack no tensors: pass at least one`;
  sameDevice("stack", tensors);
  for (const t of tensors) {
    if (formatShape(t.shape) === formatShape(first.shape)) continue;
    throw shapeError("stack")`Cannot stack tensors of shapes ${first.shape} and ${t.shape}`;
  }
  const at = normalizeAxis("stack", axis, first.shape, first.ndim + 1);
  return concat(tensors.map((t) => t.unsqueeze(at)), at);
}

/** The elements along an axis, or in row-major order, moved by `shift`; what leaves comes back. */
export function roll(x: Tensor, shift: number, axis?: number): Tensor {
  if (axis === undefined) return reshape(roll(flatten(x), shift, 0), x.shape);
  const at = normalizeAxis("roll", axis, x.shape);
  const n = x.shape[at]!;
  if (!Number.isInteger(shift)) {
    throw new RangeError(`Cannot roll by ${shown(shift)}: pass a whole number`);
  }
  const by = n === 0 ? 0 : ((shift % n) + n) % n;
  if (by === 0) return x;
  const part = (start: number, end: number): Tensor => slice(x, along(x, at, [start, end]));
  return concat([part(n - by, n), part(0, n - by)], at);
}

/** Parts of `size` along an axis (the last may be shorter), or of the given sizes. */
export function split(x: Tensor, size: number | readonly number[], axis = 0): Tensor[] {
  const at = normalizeAxis("split", axis, x.shape);
  const n = x.shape[at]!;
  const fail = (): ShapeError =>
    shapeError("split", axis)`
      Cannot split axis ${axis} of ${x.shape} by ${shown([size].flat())}: pass a whole number of
      at least 1, or sizes that add up to ${n}`;
  const isCount = Number.isInteger(size) && size as number >= 1;
  if (!isCount && !Array.isArray(size)) throw fail();
  const sizes = typeof size === "number"
    ? Array.from(
      { length: Math.max(1, Math.ceil(n / size)) },
      (_, k) => Math.min(size, n - k * size),
    )
    : size;
  const bad = sizes.some((s) => !(Number.isInteger(s) && s >= 0));
  if (bad || sizes.reduce((a, b) => a + b, 0) !== n) throw fail();
  let start = 0;
  return sizes.map((length) => {
    const range: SliceRange = [start, start += length];
    const part = slice(x, along(x, at, range));
    return part === x ? distinct("split", x) : part;
  });
}

/** The whole tensor repeated along each axis, as often as `times` says. */
export function repeat(x: Tensor, times: readonly number[]): Tensor {
  const lead = listOf("repeat", times).length - x.ndim;
  if (lead < 0 || times.some((n) => !Number.isInteger(n) || n < 0)) {
    throw shapeError("repeat")`
      Cannot repeat a tensor of shape ${x.shape} by ${shown(times)}: pass how often for each axis`;
  }
  const shape = [...new Array<number>(lead).fill(1), ...x.shape];
  const spread = shape.flatMap((n, k) => [times[k]!, n]);
  return reshape(x, shape.flatMap((n) => [1, n])).expand(spread)
    .reshape(shape.map((n, k) => n * times[k]!));
}

/** The ranges that take a part of one axis, and all of the others. */
export function along(x: Tensor, axis: number, range: SliceRange): SliceRange[] {
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

const meshRules: Rules<MeshOptions> = { indexing: takes.oneOf("ij", "xy") };

/** Grids of coordinates from vectors: each as a tensor over all of the grid. */
export function meshgrid(tensors: readonly Tensor[], options: MeshOptions = {}): Tensor[] {
  requireTensors("meshgrid", tensors);
  checkOptions("meshgrid", options, meshRules);
  if (tensors.length === 0) {
    throw shapeError("meshgrid")`
    Cannot meshgrid no tensors: pass at least one`;
  }
  sameDevice("meshgrid", tensors);
  const long = tensors.find((t) => t.ndim > 1);
  if (long) {
    throw shapeError("meshgrid")`Cannot meshgrid a tensor of shape ${long.shape}: pass vectors`;
  }
  const sizes = tensors.map((t) => t.size);
  const isSwapped = options.indexing === "xy" && tensors.length > 1;
  return tensors.map((t, k) => {
    const grid = t.reshape(sizes.map((n, axis) => axis === k ? n : 1)).expand(sizes);
    return isSwapped ? grid.transpose(0, 1) : grid;
  });
}
