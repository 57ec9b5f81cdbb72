/** Distinct values, and how often values occur. */
import { formatShape, isFloat } from "../../../backend/internal.ts";
import { aTensor, requireTensor, sameDevice } from "../../core/apply.ts";
import { atLeastSingle } from "../../core/autocast.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../../core/rules/options.ts";
import { requireInteger } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { indexSelect, scatterNode } from "./indexing.ts";
import { searchsorted } from "./searching.ts";
import { counted } from "./selection.ts";
import { readSize, type Sized, sizedLater, sizedNow } from "./sized.ts";
import { concat } from "../shaping/joining.ts";
import type { BincountOptions, HistogramOptions, Unique } from "../../core/arguments.ts";

/** The distinct values in ascending order. */
function uniqueOf(x: Tensor): Sized<Unique> {
  const flat = x.reshape([x.size]), { shape, size: n } = x;
  const { order, isFirst } = withoutGrad(() => {
    const sortable = x.dtype === "bool" ? flat.detach().cast("uint8") : flat.detach();
    const order = sortable.argsort(0).realize();
    const sorted = indexSelect(flat.detach(), 0, order).contiguous();
    const isFirst = n === 0 ? sorted.cast("bool") : concat([
      sorted.slice([0, 1]).fullLike(1).cast("bool"),
      sorted.slice([1]).ne(sorted.slice([0, n - 1])),
    ]);
    return { order, isFirst };
  });
  const remedy = "sort() gives the values, equal ones too";
  return counted("unique", remedy, isFirst, ({ positions: firsts, counts: running }) => ({
    values: indexSelect(flat, 0, withoutGrad(() => indexSelect(order, 0, firsts))),
    ...withoutGrad(() => {
      const group = running.sub(1).reshape([n, 1]), places = order.reshape([n, 1]);
      const ends = concat([firsts.slice([1]), firsts.fullLike(n, [firsts.size && 1])]);
      return {
        inverse: scatterNode("unique", "set", group.zerosLike(), 0, places, group).reshape(shape),
        counts: ends.sub(firsts),
      };
    }),
  }));
}

export const unique = sizedLater(uniqueOf), uniqueSync = sizedNow(uniqueOf);

const binRules: Rules<BincountOptions> = { weights: aTensor(), minLength: takes.whole };

/** Counts of 0, 1, 2, ... in a vector. */
export function bincount(x: Tensor, options: BincountOptions = {}): Tensor {
  checkOptions("bincount", options, binRules);
  const { weights, minLength = 0 } = options;
  requireInteger("bincount", "the elements", x.dtype);
  if (x.ndim !== 1) {
    throw shapeError("bincount")`
      Cannot bincount a tensor of shape ${x.shape}: pass a vector; flatten() makes one`;
  }
  requireWeights("bincount", x, weights);
  const remedy = "add into Tensor.zeros([length]) with scatterAdd()";
  const most = x.size === 0 ? -1 : readSize("bincount", x.detach().max(), remedy);
  return added("bincount", Math.max(most + 1, minLength), x, weights ?? ones(x));
}

function ones(x: Tensor): Tensor {
  return x.onesLike().cast("int32");
}

function requireWeights(op: string, x: Tensor, weights?: Tensor): void {
  if (!weights) return;
  sameDevice(op, [x, weights]);
  if (formatShape(weights.shape) === formatShape(x.shape)) return;
  throw shapeError(op)`
    Cannot ${op} a tensor of shape ${x.shape} with weights of shape ${weights.shape}: pass one for
    each element`;
}

/** Zeros with the weights added at their places. */
function added(op: string, length: number, places: Tensor, weights: Tensor): Tensor {
  const base = weights.zerosLike([length, 1]), n = places.size;
  const column = weights.reshape([n, 1]);
  return scatterNode(op, "add", base, 0, places.detach().reshape([n, 1]), column).reshape([length]);
}

const histogramRules: Rules<HistogramOptions> = {
  range: {
    takes: "two numbers, the first at most the second",
    accepts: (value) =>
      Array.isArray(value) && value.length === 2 && value.every(Number.isFinite) &&
      value[0] <= value[1],
  },
  weights: aTensor(),
  density: takes.bool,
};

/** Number of elements between edges. */
export function histogram(
  x: Tensor,
  bins: number | Tensor,
  options: HistogramOptions = {},
): { counts: Tensor; edges: Tensor } {
  const op = "histogram";
  checkOptions(op, options, histogramRules);
  requireWeights(op, x, options.weights);
  const dtype = isFloat(x.dtype) ? x.dtype : "float32";
  const values = x.detach().reshape([x.size]).cast(dtype);
  const edges = withoutGrad(() => edgesOf(values, bins, options).contiguous());
  const count = edges.size - 1;
  const isInside = withoutGrad(() =>
    values.ge(edges.slice(0)).logicalAnd(values.le(edges.slice(count)))
  );
  const places = withoutGrad(() =>
    searchsorted(edges, values, { right: true }).sub(1).clamp(0, count - 1)
  );
  // Ones are added up as integers: floats stop counting where 1 is less than their last digit.
  const weights = options.weights?.reshape([x.size]) ?? ones(values);
  const sums = added(op, count, places, isInside.where(weights, 0));
  const counts = options.weights ? sums : sums.cast(dtype);
  if (!options.density) return { counts, edges };
  const wide = atLeastSingle(
    options.weights ? sums : sums.cast(dtype === "float64" ? dtype : "float32"),
  );
  const widths = edges.slice([1]).sub(edges.slice([0, count]));
  const density = wide.div(widths).div(wide.sum());
  return { counts: isFloat(counts.dtype) ? density.cast(counts.dtype) : density, edges };
}

/** Elements, and `value` for those that are NaN or infinite. */
function finiteOr(x: Tensor, value: number): Tensor {
  return x.isFinite().where(x, value);
}

/** The edges of the bins: those that are given, or bins of equal width. */
function edgesOf(x: Tensor, bins: number | Tensor, { range }: HistogramOptions): Tensor {
  if (typeof bins !== "number") {
    requireTensor("histogram", bins, " of edges, or a number of bins");
    sameDevice("histogram", [x, bins]);
    if (bins.ndim === 1 && bins.size >= 2) return bins.detach().cast(x.dtype);
    throw shapeError("histogram")`
      Cannot histogram with edges of shape ${bins.shape}: pass a vector of two or more`;
  }
  requireValue("histogram", "bins", bins, takes.count);
  if (!range && x.size === 0) {
    throw new RangeError(
      `Cannot compute histogram of no elements in ${shown(bins)} bins: pass { range }`,
    );
  }
  const [low, high] = range
    ? [x.fullLike(range[0], []), x.fullLike(range[1], [])]
    : [finiteOr(x, Infinity).min(), finiteOr(x, -Infinity).max()];
  // Where all elements are equal, bins lie around them.
  const isEmpty = low.eq(high);
  const from = isEmpty.where(low.sub(0.5), low), to = isEmpty.where(high.add(0.5), high);
  const index = x.indexLike([bins + 1]).cast(x.dtype);
  const step = to.sub(from).div(bins);
  // From the nearer end, so that both are exact.
  return index.lt((bins + 1) / 2)
    .where(index.mul(step).add(from), to.sub(index.neg().add(bins).mul(step)));
}
