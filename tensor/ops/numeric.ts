/** Functions of NumPy and SciPy that PyTorch has not: interpolation, polynomials, histograms of points. */
import { isFloat } from "../../backend/internal.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import type { QuantileOptions, TensorLike } from "../core/arguments.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { compute } from "../core/operations.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { isTensor } from "../core/internals.ts";
import { concat } from "./shaping/joining.ts";
import { normalizeAxis } from "./shaping/axes.ts";
import { bincount } from "./indexing/counting.ts";
import { indexSelect } from "./indexing/indexing.ts";
import { searchsorted } from "./indexing/searching.ts";
import { quantile, quantileRules } from "./statistics.ts";

/** Options of {@linkcode percentile}. */
export interface PercentileOptions extends QuantileOptions {
  /** Along which axis; of all elements by default. */
  axis?: number;
}

const percentileRules: Rules<PercentileOptions> = { ...quantileRules, axis: takes.integer };

/**
 * The number below which a percentage of the elements lies: `quantile` of `q / 100`.
 *
 * @param x Floating point numbers.
 * @param q From 0 to 100; a list gives a new first axis.
 * @param options Along which axis, and what is taken between two elements.
 * @throws {RangeError} When a percentage is not from 0 to 100.
 *
 * @example The middle, and the middle of each row
 * ```ts
 * import { percentile, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([[1, 2, 3], [4, 5, 6]]);
 * assertEquals(await percentile(x, 50).item(), 3.5);
 * assertEquals(await percentile(x, 50, { axis: 1 }).toArray(), [2, 5]);
 * ```
 */
export function percentile(
  x: Tensor,
  q: number | readonly number[],
  options: PercentileOptions = {},
): Tensor {
  requireTensor("take the percentile", x);
  checkOptions("take the percentile", options, percentileRules);
  const list = typeof q === "number" ? [q] : q;
  requireValue("take the percentile", "q", list, takes.list);
  const isPercentage = (v: unknown) => typeof v === "number" && v >= 0 && v <= 100;
  for (const value of list) {
    requireValue("take the percentile", "q", value, {
      takes: "a number from 0 to 100",
      accepts: isPercentage,
    });
  }
  const shares = typeof q === "number" ? q / 100 : q.map((value) => value / 100);
  const { axis, ...others } = options;
  return compute(quantile, x, shares, axis, others);
}

/**
 * Linear interpolation between points, as NumPy's; beyond the first and the last place their values.
 * Gradients go to `x` and to the values.
 *
 * @param x Where.
 * @param places Ascending, a vector.
 * @param values At the places, a vector.
 * @example
 * ```ts
 * import { interp, Tensor } from "@netcl/netcl";
 *
 * const [places, values] = [Tensor.fromHost([0, 1, 3]), Tensor.fromHost([0, 10, 30])];
 * console.assert(await interp(Tensor.fromHost(2), places, values).item() === 20);
 * ```
 */
export function interp(x: Tensor, places: Tensor, values: Tensor): Tensor {
  sameDevice("interp", [x, places, values]);
  if (places.ndim === 1 && values.ndim === 1 && places.size === values.size && places.size > 1) {
    return compute(interpOf, x, places, values);
  }
  throw shapeError("interp")`
    Cannot interp between places of shape ${places.shape} and values of shape ${values.shape}:
    pass two vectors of as many elements, two at least`;
}

function interpOf(x: Tensor, places: Tensor, values: Tensor): Tensor {
  const n = places.size;
  const at = withoutGrad(() =>
    searchsorted(places.detach(), x.detach().reshape([x.size]), { right: true }).sub(1)
      .clamp(0, n - 2).contiguous()
  );
  const [low, high] = [at, at.add(1)].map((k) => ({
    place: indexSelect(places, 0, k).reshape(x.shape),
    value: indexSelect(values, 0, k).reshape(x.shape),
  }));
  const width = high!.place.sub(low!.place), isStep = width.eq(0);
  const share = x.sub(low!.place).div(isStep.where(1, width)).clamp(0, 1);
  return low!.value.add(high!.value.sub(low!.value).mul(share));
}

/**
 * A polynomial by the scheme of Horner, as NumPy's: the first coefficient is that of the highest power.
 *
 * @param coefficients A vector, or numbers.
 * @param x The places at which it is computed.
 *
 * @example `2 x ** 2 + 1`
 * ```ts
 * import { polyval, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(await polyval([2, 0, 1], Tensor.fromHost([0, 3])).toArray(), [1, 19]);
 * ```
 */
export function polyval(coefficients: Tensor | readonly number[], x: Tensor): Tensor {
  requireTensor("polyval", x);
  if (Array.isArray(coefficients)) return compute(horner, coefficients, x);
  const vector = coefficients as Tensor;
  sameDevice("polyval", [vector, x]);
  if (vector.ndim === 1) {
    return compute(ofVector, vector, x);
  }
  throw shapeError("polyval")`
    Cannot polyval with coefficients of shape ${vector.shape}: pass a vector`;
}

function ofVector(vector: Tensor, x: Tensor): Tensor {
  return horner(Array.from({ length: vector.size }, (_, k) => vector.slice(k)), x);
}

function horner(coefficients: readonly TensorLike[], x: Tensor): Tensor {
  const [first = 0, ...rest] = coefficients;
  const start = x.zerosLike().add(first);
  return rest.reduce<Tensor>((sum, c) => sum.mul(x).add(c), start);
}

/** Options of {@linkcode histogramdd}. */
export interface HistogramddOptions {
  /** The outer edges of each dimension; those of the points by default. */
  readonly ranges?: readonly (readonly [low: number, high: number])[];
}

const histogramRules: Rules<HistogramddOptions> = { ranges: takes.list };

/**
 * The number of points in boxes of equal size.
 *
 * @param points Points as rows, (points, dimensions), of floating point numbers.
 * @param bins How many in each dimension.
 * @returns Counts, an axis a dimension, and the edges of each dimension.
 *
 * @example Points in four boxes
 * ```ts
 * import { histogramdd, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const points = Tensor.fromHost([[0, 0], [0.2, 0.9], [1, 1]]);
 * const { counts, edges } = histogramdd(points, [2, 2]);
 * assertEquals(await counts.toArray(), [[1, 1], [0, 1]]);
 * assertEquals(await Promise.all(edges.map((e) => e.toArray())), [[0, 0.5, 1], [0, 0.5, 1]]);
 * ```
 */
export function histogramdd(
  points: Tensor,
  bins: readonly number[],
  options: HistogramddOptions = {},
): { counts: Tensor; edges: Tensor[] } {
  const op = "histogramdd";
  requireTensor(op, points);
  checkOptions(op, options, histogramRules);
  requireValue(op, "bins", bins, takes.list);
  for (const count of bins) requireValue(op, "bins", count, takes.count);
  if (!isFloat(points.dtype)) {
    throw dtypeError(op)`Cannot ${op} ${points.dtype}: cast it with .cast("float32")`;
  }
  if (points.ndim !== 2 || points.shape[1] !== bins.length || points.size === 0) {
    throw shapeError(op)`
      Cannot ${op} a tensor of shape ${points.shape} into ${bins.length} dimensions:
      pass points as rows, and a number of bins for each column`;
  }
  return withoutGrad(() => compute(boxes, points, bins, options));
}

function boxes(
  points: Tensor,
  bins: readonly number[],
  { ranges }: HistogramddOptions,
): { counts: Tensor; edges: Tensor[] } {
  const columns = bins.map((count, k) => {
    const column = points.detach().slice(null, k);
    return { column, count, edges: column.histogram(count, ranges && { range: ranges[k]! }).edges };
  });
  let box = points.zerosLike([points.shape[0]!]).cast("int32");
  let isInside = box.eq(0);
  for (const { column, count, edges } of columns) {
    const place = searchsorted(edges, column.contiguous(), { right: true }).sub(1);
    isInside = isInside.logicalAnd(column.ge(edges.slice(0)))
      .logicalAnd(column.le(edges.slice(count)));
    box = box.mul(count).add(place.clamp(0, count - 1));
  }
  const total = bins.reduce((a, b) => a * b, 1);
  // What lies outside is counted in a box of its own.
  const all = bincount(isInside.where(box, total), { minLength: total + 1 });
  const counts = all.slice([0, total]).reshape([...bins]).cast(points.dtype);
  return { counts, edges: columns.map(({ edges }) => edges) };
}

/** Options of {@linkcode gradient}. */
export interface GradientOptions {
  /** The distance of neighbours (1 by default) or their places, a vector; a list has one for each axis. */
  spacing?: number | Tensor | readonly (number | Tensor)[];
  /** The axes; all by default. */
  axes?: readonly number[];
  /** 1 (default): ends have the slope to their neighbour; 2: that of a parabola through three elements. */
  edgeOrder?: 1 | 2;
}

const isSpacing = (v: unknown): boolean => typeof v === "number" && v !== 0 || isTensor(v);
const gradientRules: Rules<GradientOptions> = {
  spacing: {
    takes: "a number, a vector of places, or a list of them",
    accepts: (v) => isSpacing(v) || Array.isArray(v) && v.every(isSpacing),
  },
  axes: takes.list,
  edgeOrder: { takes: "1 or 2", accepts: (v) => v === 1 || v === 2 },
};

/**
 * Slopes by differences of neighbours, one tensor an axis: `torch.gradient`, `numpy.gradient`.
 *
 * @param x Floating point numbers at points of a grid.
 * @param options How far the points are from each other, along which axes, and what is done at the ends.
 * @throws {ShapeError} When an axis is too short, or places do not fit it.
 * @example The slope of a square
 * ```ts
 * import { gradient, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const [slope] = gradient(Tensor.fromHost([0, 1, 4, 9]));
 * assertEquals(await slope!.toArray(), [1, 2, 4, 5]);
 * ```
 */
export function gradient(x: Tensor, options: GradientOptions = {}): Tensor[] {
  requireTensor("take the gradient", x);
  checkOptions("take the gradient", options, gradientRules);
  if (isFloat(x.dtype)) return compute(slopes, x, options);
  throw dtypeError("gradient")`
    Cannot take the gradient of ${x.dtype}: cast it with .cast("float32")`;
}

function slopes(x: Tensor, options: GradientOptions): Tensor[] {
  const { spacing = 1, edgeOrder = 1, axes = x.shape.map((_, k) => k) } = options;
  const widths: readonly (number | Tensor)[] = Array.isArray(spacing)
    ? spacing
    : axes.map(() => spacing as number | Tensor);
  if (widths.length !== axes.length) {
    throw new RangeError(
      `Cannot take the gradient along ${axes.length} axes with ${widths.length} spacings: pass one for each`,
    );
  }
  return axes.map((axis, k) =>
    slope(x, normalizeAxis("gradient", axis, x.shape), widths[k]!, edgeOrder)
  );
}

/** Slopes along an axis: of an element the mean of those to both neighbours, where the nearer counts for more. */
function slope(x: Tensor, at: number, spacing: number | Tensor, edgeOrder: 1 | 2): Tensor {
  const n = x.shape[at]!;
  const part = (y: Tensor, from: number, to: number) =>
    y.slice(...y.shape.map((_, k) => k === at ? [from, to] as const : null));
  if (n <= edgeOrder) {
    throw shapeError("gradient", at)`
      Cannot take the gradient of shape ${x.shape} along axis ${at}: it takes ${edgeOrder + 1}
      elements`;
  }
  const widths = typeof spacing === "number" ? null : widthsOf(spacing, x, at);
  const plain = x.diff({ axis: at }).div(widths ?? spacing);
  // Of the widths of steps and of those behind them the share of one.
  const share = (from: number, to: number, which: 0 | 1): Tensor | number => {
    if (widths === null) return 0.5;
    const pair = [part(widths, from, to), part(widths, from + 1, to + 1)] as const;
    return pair[which].div(pair[0].add(pair[1]));
  };
  const [first, last] = [part(plain, 0, 1), part(plain, n - 2, n - 1)];
  if (n === 2) return concat([first, last], at);
  const [left, right] = [part(plain, 0, n - 2), part(plain, 1, n - 1)];
  const inside = left.add(right.sub(left).mul(share(0, n - 2, 0)));
  if (edgeOrder === 1) return concat([first, inside, last], at);
  const [second, before] = [part(plain, 1, 2), part(plain, n - 3, n - 2)];
  const start = first.add(first.sub(second).mul(share(0, 1, 0)));
  return concat([start, inside, last.add(last.sub(before).mul(share(n - 3, n - 2, 1)))], at);
}

/** Distances of places, as a tensor along an axis of `x`. */
function widthsOf(places: Tensor, x: Tensor, at: number): Tensor {
  sameDevice("gradient", [x, places]);
  const n = x.shape[at]!;
  if (places.ndim !== 1 || places.size !== n) {
    throw shapeError("gradient", at)`
      Cannot take the gradient of shape ${x.shape} along axis ${at} at places of shape
      ${places.shape}: pass a vector of ${n}`;
  }
  return places.cast(x.dtype).diff().reshape(x.shape.map((_, k) => k === at ? n - 1 : 1));
}
