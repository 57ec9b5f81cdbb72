/** Functions of NumPy and SciPy that PyTorch has not: interpolation, polynomials, histograms of points. */
import { isFloat } from "../../backend/internal.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import type { QuantileOptions, TensorLike } from "../core/arguments.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { compute } from "../core/operations.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
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
 * @param x Where.
 */
export function polyval(coefficients: Tensor | readonly number[], x: Tensor): Tensor {
  requireTensor("polyval", x);
  if (Array.isArray(coefficients)) return compute(horner, coefficients, x);
  const vector = coefficients as Tensor;
  sameDevice("polyval", [vector, x]);
  if (vector.ndim === 1) {
    return compute(horner, Array.from({ length: vector.size }, (_, k) => vector.slice(k)), x);
  }
  throw shapeError("polyval")`
    Cannot polyval with coefficients of shape ${vector.shape}: pass a vector`;
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
  return withoutGrad(() => boxes(points.detach(), bins, options));
}

function boxes(
  points: Tensor,
  bins: readonly number[],
  { ranges }: HistogramddOptions,
): { counts: Tensor; edges: Tensor[] } {
  const columns = bins.map((count, k) => {
    const column = points.slice(null, k);
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
