/** Views: operations that rearrange elements without computing; they cost nothing until they are read. */
import { type DType, dtypes, formatShape, type Shape, sizeOf } from "../../backend/internal.ts";
import { derived, requireTensor, sameDevice } from "../core/apply.ts";
import { elementOf } from "./creation.ts";
import { ShapeError } from "../core/errors.ts";
import { promote } from "../core/promotion.ts";
import type { Tensor } from "../tensor.ts";
import { type Axes, normalizeAxes, normalizeAxis } from "./axes.ts";
import { unbroadcast } from "./elementwise.ts";
import { requireValue, shown, takes } from "../core/options.ts";

/** The same elements in another shape; one axis may be -1 and is computed. */
export function reshape(x: Tensor, shape: Shape): Tensor {
  const wanted = inferShape(x, shape);
  if (wanted.length === x.ndim && wanted.every((n, k) => n === x.shape[k])) return x;
  const from = x.shape;
  return derived("reshape", x, { kind: "reshape" }, wanted, x.dtype, (g) => [g.reshape(from)]);
}

function inferShape(x: Tensor, shape: Shape): number[] {
  const fail = (why: string): ShapeError =>
    new ShapeError(
      `Cannot reshape a tensor of shape ${formatShape(x.shape)} to ${formatShape(shape)}: ${why}`,
    );
  const open = listOf("reshape", shape).indexOf(-1);
  const rest = sizeOf(shape.filter((_, k) => k !== open));
  if (shape.some((n, k) => !Number.isInteger(n) || n < 0 && k !== open)) {
    throw fail("axes are whole numbers, and at most one is -1");
  }
  if (open >= 0 && (rest === 0 || x.size % rest !== 0)) {
    throw fail(`${x.size} elements do not divide by ${rest}`);
  }
  const wanted = shape.map((n, k) => k === open ? x.size / rest : n);
  if (sizeOf(wanted) !== x.size) throw fail(`${x.size} elements do not fill ${sizeOf(wanted)}`);
  return wanted;
}

/** What should be an array, from a caller without types. */
export function listOf<T>(op: string, value: readonly T[]): readonly T[] {
  if (Array.isArray(value)) return value;
  throw new TypeError(`Cannot ${op} by ${typeof value} "${value}": pass an array of whole numbers`);
}

/** The axes in another order. */
export function permute(x: Tensor, axes: readonly number[]): Tensor {
  const order = listOf("permute", axes).map((axis) => normalizeAxis("permute", axis, x.shape));
  if (order.length !== x.ndim || new Set(order).size !== x.ndim) {
    throw new ShapeError(
      `Cannot permute a tensor of shape ${formatShape(x.shape)} by [${axes}]: name each axis once`,
    );
  }
  if (order.every((axis, k) => axis === k)) return x;
  const inverse = order.map((_, axis) => order.indexOf(axis));
  const shape = order.map((axis) => x.shape[axis]!);
  return derived(
    "permute",
    x,
    { kind: "permute", axes: order },
    shape,
    x.dtype,
    (g) => [g.permute(inverse)],
  );
}

/** Repeats axes of size 1 (and adds leading ones) without copying; -1 keeps an axis. */
export function expand(x: Tensor, shape: Shape): Tensor {
  const lead = listOf("expand", shape).length - x.ndim;
  const wanted = shape.map((n, k) => n === -1 && k >= lead ? x.shape[k - lead]! : n);
  const fits = lead >= 0 && x.shape.every((n, k) => n === 1 || n === wanted[k + lead]) &&
    wanted.every((n) => Number.isInteger(n) && n >= 0);
  if (!fits) {
    throw new ShapeError(
      `Cannot expand a tensor of shape ${formatShape(x.shape)} to ${
        formatShape(shape)
      }: only axes ` +
        `of size 1 grow, and new ones stand in front`,
    );
  }
  if (lead === 0 && wanted.every((n, k) => n === x.shape[k])) return x;
  const from = x.shape;
  return derived("expand", x, { kind: "expand" }, wanted, x.dtype, (g) => [unbroadcast(g, from)]);
}

/** What `slice` takes for one axis: an index, a range [start, stop, step], or all of it. */
export type Range = number | readonly [number | null, (number | null)?, number?] | null;

/** Picks and slices, NumPy's basic indexing. */
export function slice(x: Tensor, ranges: readonly Range[]): Tensor {
  const { starts, steps, lengths } = geometryOf(x, ranges);
  const kept = lengths.filter((_, axis) => typeof ranges[axis] !== "number");
  return reshape(strided(x, starts, steps, lengths), kept);
}

/** Where each axis of a slice begins, how it steps, how long it is. */
function geometryOf(
  x: Tensor,
  ranges: readonly Range[],
): { starts: number[]; steps: number[]; lengths: number[] } {
  if (ranges.length > x.ndim) {
    throw new ShapeError(
      `Cannot slice a tensor of shape ${formatShape(x.shape)} by ${ranges.length} ranges: it has ` +
        `${x.ndim} axes; give one index or range for each, at most`,
    );
  }
  const parts = x.shape.map((n, axis) => rangeOf(x, ranges[axis] ?? null, n, axis));
  return {
    starts: parts.map(([start]) => start),
    steps: parts.map(([, step]) => step),
    lengths: parts.map(([, , length]) => length),
  };
}

/** A copy of `x` in which `value`, broadcast, stands in a slice. */
export function sliceAssign(x: Tensor, ranges: readonly Range[], value: Tensor | number): Tensor {
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

function rangeOf(x: Tensor, range: Range, n: number, axis: number): [number, number, number] {
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
    const ranges: Range[] = shape.map((m, k) => k === axis ? [0, m - step + 1] : null);
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
    throw new ShapeError(
      `Cannot pad a tensor of shape ${formatShape(x.shape)} by ${
        JSON.stringify(widths)
      }: pass [before, after] for each axis, and cut off no more than there is`,
    );
  }
  if (widths.some(([before, after]) => before < 0 || after < 0)) {
    const ranges = widths.map((
      [before, after],
      k,
    ): Range => [Math.max(0, -before), x.shape[k]! - Math.max(0, -after)]);
    return pad(slice(x, ranges), widths.map(([b, a]) => [Math.max(0, b), Math.max(0, a)]), value);
  }
  if (widths.every(([before, after]) => before === 0 && after === 0)) return x;
  const from = x.shape;
  const filler = elementOf("pad", value, x.dtype);
  const shape = from.map((n, k) => n + widths[k]![0] + widths[k]![1]);
  const before = widths.map((w) => w[0]);
  return derived("pad", x, { kind: "pad", before, value: filler }, shape, x.dtype, (g) => [
    g.slice(...from.map((n, k): Range => [before[k]!, before[k]! + n])),
  ]);
}

/** Throws where a caller without types passes no array. */
export function requireTensors(op: string, tensors: readonly Tensor[]): void {
  if (Array.isArray(tensors)) return;
  throw new TypeError(`Cannot ${op} ${tensors}: pass an array of tensors`);
}

/** Tensors one behind the other along an axis. */
export function concat(tensors: readonly Tensor[], axis = 0): Tensor {
  requireTensors("concat", tensors);
  const first = tensors[0];
  if (!first) throw new ShapeError("Cannot concat no tensors: pass at least one");
  sameDevice("concat", tensors);
  const at = normalizeAxis("concat", axis, first.shape);
  for (const t of tensors) {
    const fits = t.ndim === first.ndim && t.shape.every((n, k) => k === at || n === first.shape[k]);
    if (fits) continue;
    throw new ShapeError(
      `Cannot concat tensors of shapes ${formatShape(first.shape)} and ${
        formatShape(t.shape)
      } along axis ${axis}`,
    );
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
  const neutral = dtypes[dtype].kind === "float" ? -0 : 0;
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
  if (!first) throw new ShapeError("Cannot stack no tensors: pass at least one");
  sameDevice("stack", tensors);
  for (const t of tensors) {
    if (formatShape(t.shape) === formatShape(first.shape)) continue;
    throw new ShapeError(
      `Cannot stack tensors of shapes ${formatShape(first.shape)} and ${formatShape(t.shape)}`,
    );
  }
  const at = normalizeAxis("stack", axis, first.shape, first.ndim + 1);
  return concat(tensors.map((t) => t.unsqueeze(at)), at);
}

/** The diagonal of the last two axes, of any sizes, as a view: every element `n + 1` of the square. */
export function diagonalView(x: Tensor): Tensor {
  const lead = x.shape.slice(0, -2), n = Math.min(...x.shape.slice(-2));
  const all = lead.map((): Range => null);
  const square = slice(x, [...all, [0, n], [0, n]]);
  const flat = reshape(square, [...lead, n * n]);
  const extended = pad(flat, [...lead.map((): [number, number] => [0, 0]), [0, n]]);
  return slice(reshape(extended, [...lead, n, n + 1]), [...all, null, 0]);
}

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
