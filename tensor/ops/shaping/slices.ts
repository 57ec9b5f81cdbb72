/** Parts of tensors, and what is put around them: slices, padding, their gradients. */
import { formatShape, type Shape } from "../../../backend/internal.ts";
import { derived, requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { requireValue, shown, takes } from "../../core/rules/options.ts";
import type { Axes, SliceRange } from "../../core/arguments.ts";
import { normalizeAxes } from "./axes.ts";
import { elementOf } from "../elementwise/elements.ts";
import { reshape } from "./views.ts";
import type { Tensor } from "../../core/mod.ts";

/** Picks and slices, NumPy's basic indexing. */
export function slice(x: Tensor, ranges: readonly SliceRange[]): Tensor {
  const { starts, steps, lengths } = geometryOf(x, ranges);
  const kept = lengths.filter((_, axis) => typeof ranges[axis] !== "number");
  return reshape(strided(x, starts, steps, lengths), kept);
}

/** Start, step and length of each axis of a slice. */
function geometryOf(
  x: Tensor,
  ranges: readonly SliceRange[],
): { starts: number[]; steps: number[]; lengths: number[] } {
  if (ranges.length > x.ndim) {
    throw shapeError("slice")`
      Cannot slice a tensor of shape ${x.shape} by ${ranges.length} ranges: it has ${x.ndim} axes;
      give one index or range for each, at most`;
  }
  const parts = x.shape.map((n, axis) => rangeOf(x, ranges[axis] ?? null, n, axis));
  return {
    starts: parts.map(([start]) => start),
    steps: parts.map(([, step]) => step),
    lengths: parts.map(([, , length]) => length),
  };
}

/** A copy of `x` in which `value`, broadcast, stands in a slice. */
export function sliceAssign(
  x: Tensor,
  ranges: readonly SliceRange[],
  value: Tensor | number,
): Tensor {
  requireValue("assign a slice", "ranges", ranges, takes.list);
  if (typeof value !== "number") requireTensor("assign a slice", value, " or a number");
  const part = slice(x, ranges);
  if (part.size === 0) return x;
  const { starts, steps, lengths } = geometryOf(x, ranges);
  const place = (t: Tensor): Tensor => unslice(t.reshape(lengths), starts, steps, x.shape);
  const values = typeof value === "number"
    ? part.fullLike(value)
    : value.cast(x.dtype).expand(part.shape);
  return place(part.onesLike()).ne(0).where(place(values), x);
}

function rangeOf(x: Tensor, range: SliceRange, n: number, axis: number): [number, number, number] {
  if (range === null) return [0, 1, n];
  if (typeof range === "number") {
    const at = range < 0 ? range + n : range;
    if (Number.isInteger(range) && at >= 0 && at < n) return [at, 1, 1];
    throw new RangeError(
      `Cannot slice axis ${axis} of a tensor of shape ${formatShape(x.shape)} at ${range}: ` +
        `valid are ${-n} to ${n - 1}`,
    );
  }
  if (!Array.isArray(range) || ![1, 2, 3].includes(range.length)) {
    throw new TypeError(
      `Cannot slice axis ${axis} by ${
        shown(range)
      }: pass a position, [start, stop, step], or null ` +
        `for all; indexSelect takes positions in a tensor`,
    );
  }
  const [start = null, stop = null, step = 1] = range;
  if (
    !Number.isInteger(step) || step === 0 ||
    [start, stop].some((v) => v !== null && !Number.isInteger(v))
  ) {
    throw new RangeError(
      `Cannot slice axis ${axis} by ${shown(range)}: pass whole numbers and a step other than 0`,
    );
  }
  const clamp = (v: number, low: number, high: number): number =>
    Math.min(high, Math.max(low, v < 0 ? v + n : v));
  const [low, high] = step > 0 ? [0, n] : [-1, n - 1];
  const from = start === null ? (step > 0 ? 0 : n - 1) : clamp(start, low, high);
  const to = stop === null ? (step > 0 ? n : -1) : clamp(stop, low, high);
  return [from, step, Math.max(0, Math.ceil((to - from) / step))];
}

/** Element `i` of each axis is element `start + i * step` of the input's. */
export function strided(
  x: Tensor,
  starts: readonly number[],
  steps: readonly number[],
  lengths: readonly number[],
): Tensor {
  const from = x.shape;
  if (steps.every((s) => s === 1) && lengths.every((n, k) => n === from[k])) return x;
  const op = { kind: "slice", starts, steps } as const;
  return derived("slice", x, op, lengths, x.dtype, (g) => [unslice(g, starts, steps, from)]);
}

/** The adjoint of `strided`: elements go back to where they came from, among zeros. */
function unslice(
  g: Tensor,
  starts: readonly number[],
  steps: readonly number[],
  shape: Shape,
): Tensor {
  if (g.size === 0) return g.zerosLike(shape);
  const backwards = steps.map((_, axis) => axis).filter((axis) => steps[axis]! < 0);
  const forward = backwards.length > 0 ? g.flip(backwards) : g;
  const spread = dilate(forward, steps.map(Math.abs));
  const first = starts.map((start, k) =>
    steps[k]! < 0 ? start + (g.shape[k]! - 1) * steps[k]! : start
  );
  return spread.pad(first.map((start, k) => [start, shape[k]! - start - spread.shape[k]!]));
}

/** Puts `step - 1` zeros between the elements of each axis. */
export function dilate(x: Tensor, steps: readonly number[]): Tensor {
  let out = x;
  steps.forEach((step, axis) => {
    const n = out.shape[axis]!;
    if (step === 1 || n <= 1) return;
    const widths: [number, number][] = [...out.shape, 0].map(() => [0, 0]);
    widths[axis + 1] = [0, step - 1];
    const spread = out.unsqueeze(axis + 1).pad(widths.slice(0, out.ndim + 1));
    const shape = out.shape.map((m, k) => k === axis ? n * step : m);
    const ranges: SliceRange[] = shape.map((m, k) => k === axis ? [0, m - step + 1] : null);
    out = spread.reshape(shape).slice(...ranges);
  });
  return out;
}

/** Reverses the order of elements along axes. */
export function flip(x: Tensor, axes: Axes): Tensor {
  const list = normalizeAxes("flip", axes, x.shape);
  const starts = x.shape.map((n, axis) => list.includes(axis) ? Math.max(0, n - 1) : 0);
  const steps = x.shape.map((_, axis) => list.includes(axis) ? -1 : 1);
  return strided(x, starts, steps, x.shape);
}

/** Puts `value` around the elements; a negative width cuts off. */
export function pad(x: Tensor, widths: readonly (readonly [number, number])[], value = 0): Tensor {
  const bad = !Array.isArray(widths) || widths.length !== x.ndim ||
    widths.some((pair) => !Array.isArray(pair) || pair.length !== 2) ||
    widths.flat().some((w) => !Number.isInteger(w)) ||
    widths.some(([before, after], k) => before + after + x.shape[k]! < 0);
  if (bad) {
    throw shapeError("pad")`
      Cannot pad a tensor of shape ${x.shape} by ${shown(widths)}: pass [before, after] for each
      axis, and cut off no more than there is`;
  }
  if (widths.some(([before, after]) => before < 0 || after < 0)) {
    const kept = widths.map(([before, after], k): [number, number] => {
      const n = x.shape[k]!, from = Math.min(n, Math.max(0, -before));
      return [from, Math.max(from, Math.min(n, n + after))];
    });
    // What is cut off behind the last element is padding that was put before the first one.
    const rest = widths.map(([before, after], k): [number, number] =>
      kept[k]![0] < kept[k]![1]
        ? [Math.max(0, before), Math.max(0, after)]
        : [x.shape[k]! + before + after, 0]
    );
    return pad(slice(x, kept), rest, value);
  }
  if (widths.every(([before, after]) => before === 0 && after === 0)) return x;
  const from = x.shape;
  const filler = elementOf("pad", value, x.dtype);
  const shape = from.map((n, k) => n + widths[k]![0] + widths[k]![1]);
  const before = widths.map((w) => w[0]);
  return derived("pad", x, { kind: "pad", before, value: filler }, shape, x.dtype, (g) => [
    g.slice(...from.map((n, k): SliceRange => [before[k]!, before[k]! + n])),
  ]);
}
