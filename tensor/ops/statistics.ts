/** Statistics: order statistics by sorting, sums that leave NaN out, how rows of observations vary together. */
import { type DType, isFloat } from "../../backend/internal.ts";
import type {
  Axes,
  CovarianceOptions,
  DiffOptions,
  NanToNumOptions,
  QuantileOptions,
  ReduceOptions,
  TrapezoidOptions,
} from "../core/arguments.ts";
import { aTensor, sameDevice } from "../core/apply.ts";
import { isTensor } from "../core/internals.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { variant } from "../core/operations.ts";
import type { Tensor } from "../core/mod.ts";
import { concat, stack } from "./shaping/joining.ts";
import { normalizeAxis } from "./shaping/axes.ts";

const reduceRules: Rules<ReduceOptions> = { keepDims: takes.bool };
export const quantileRules: Rules<QuantileOptions> = {
  ...reduceRules,
  interpolation: takes.oneOf("linear", "lower", "higher", "midpoint", "nearest"),
};
const covarianceRules: Rules<CovarianceOptions> = { correction: takes.finite };
const nanRules: Rules<NanToNumOptions> = {
  nan: takes.number,
  posinf: takes.number,
  neginf: takes.number,
};
const diffRules: Rules<DiffOptions> = { n: takes.whole, axis: takes.integer };
const trapezoidRules: Rules<TrapezoidOptions> = {
  x: aTensor(),
  dx: takes.finite,
  axis: takes.integer,
};

function requireFloat(op: string, x: Tensor): void {
  if (isFloat(x.dtype)) return;
  throw dtypeError(op)`Cannot take the ${op} of ${x.dtype}: cast it with .cast("float32")`;
}

/** The axis that an operation goes along; all elements as one where none is named. */
function along(op: string, x: Tensor, axis: number | undefined): { line: Tensor; at: number } {
  const line = axis === undefined || x.ndim === 0 ? x.reshape([x.size]) : x;
  const at = axis === undefined ? 0 : normalizeAxis(op, axis, line.shape);
  if (line.shape[at]! > 0) return { line, at };
  throw shapeError(op, at)`
    Cannot take the ${op} over an empty axis of a tensor of shape ${x.shape}`;
}

/** A result whose axis still has one element, in the shape that is asked for. */
function finished(
  kept: Tensor,
  x: Tensor,
  at: number,
  axis: number | undefined,
  options?: ReduceOptions,
): Tensor {
  if (axis !== undefined && x.ndim > 0) return options?.keepDims ? kept : kept.squeeze(at);
  return kept.reshape(options?.keepDims ? x.shape.map(() => 1) : []);
}

/** The element in the middle of an axis; `omitsNaN` says what becomes of NaN, which sort as the largest. */
function medianOf(
  omitsNaN: boolean,
  x: Tensor,
  axis?: number,
  options?: ReduceOptions,
): Tensor {
  const op = omitsNaN ? "nanmedian" : "median";
  checkOptions(`take the ${op}`, options, reduceRules);
  const { line, at } = along(op, x, axis), n = line.shape[at]!;
  const place = withoutGrad(() => {
    const seen = line.detach(), order = seen.argsort(at), keepDims = true;
    const missing = seen.isNaN().cast("int32").sum(at, { keepDims });
    // Of an even number the lower one, as in PyTorch.
    const middle = omitsNaN
      ? missing.neg().add(n - 1).floorDivide(2).clamp(0)
      : missing.gt(0).where(n - 1, missing.fullLike((n - 1) >> 1));
    return order.gather(at, middle.cast("int32")).contiguous();
  });
  return finished(line.gather(at, place), x, at, axis, options);
}

export const median = variant("median", medianOf, false);
export const nanmedian = variant("nanmedian", medianOf, true);

/** The most frequent element of an axis, the smallest of several, and where it is last. */
export function mode(
  x: Tensor,
  axis = -1,
  options?: ReduceOptions,
): { values: Tensor; indices: Tensor } {
  checkOptions("take the mode", options, reduceRules);
  const { line, at } = along("mode", x, axis), n = line.shape[at]!;
  const place = withoutGrad(() => {
    const seen = line.detach(), order = seen.argsort(at).contiguous();
    const sorted = seen.gather(at, order), { before, after } = neighbours(sorted, at);
    const first = before.shape.with(at, 1);
    const isNew = concat([sorted.zerosLike(first).cast("bool"), after.ne(before)], at);
    const places = order.indexLike([n]).reshape(line.shape.map((_, k) => k === at ? n : 1));
    // How many equal ones stand before an element: those of its run.
    const start = isNew.where(places, 0).cummax(at).values;
    const most = places.sub(start).argmax(at, { keepDims: true });
    return order.gather(at, most).contiguous();
  });
  return {
    values: finished(line.gather(at, place), x, at, axis, options),
    indices: finished(place, x, at, axis, options),
  };
}

/** Shares of a quantile: one, a list, or a vector that the device has. */
type Shares = number | readonly number[] | Tensor;

function quantileOf(
  omitsNaN: boolean,
  x: Tensor,
  q: Shares,
  axis?: number,
  options?: QuantileOptions,
): Tensor {
  const op = omitsNaN ? "nanquantile" : "quantile";
  checkOptions(`take the ${op}`, options, quantileRules);
  requireFloat(op, x);
  if (isTensor(q)) {
    sameDevice(op, [x, q]);
    if (q.ndim > 1) {
      throw shapeError(op)`
        Cannot take the ${op} at shares of shape ${q.shape}: pass one number, or a vector of some`;
    }
    return omitsNaN ? presentQuantiles(x, q, axis, options) : quantilesOf(x, q, axis, options);
  }
  const list = typeof q === "number" ? [q] : q;
  requireValue(`take the ${op}`, "q", list, takes.list);
  for (const share of list) requireValue(`take the ${op}`, "q", share, takes.share);
  if (list.length === 0) {
    throw new RangeError(`Cannot take the ${op} of no shares: pass a number, or a list of some`);
  }
  if (omitsNaN) return presentQuantiles(x, q, axis, options);
  const { sorted, broken, at, n } = sortedLine(x, axis);
  const found = list.map((share) => {
    const place = placeOf(share * (n - 1), options?.interpolation ?? "linear");
    const element = (k: number) =>
      sorted.slice(...sorted.shape.map((_, axis) => axis === at ? [k, k + 1] as const : null));
    const low = element(Math.floor(place)), rest = place % 1;
    const value = rest === 0 ? low : low.lerp(element(Math.ceil(place)), rest);
    return finished(broken.where(NaN, value), x, at, axis, options);
  });
  return typeof q === "number" ? found[0]! : stack(found);
}

export const quantile = variant("quantile", quantileOf, false);
export const nanquantile = variant("nanquantile", quantileOf, true);

/** Quantiles of what is not NaN, of which each line has a number of its own. */
function presentQuantiles(
  x: Tensor,
  q: Shares,
  axis: number | undefined,
  options: QuantileOptions = {},
): Tensor {
  const { sorted, at, n } = sortedLine(x, axis);
  const present = withoutGrad(() => {
    return sorted.detach().isNaN().logicalNot().cast("int32").sum(at, { keepDims: true });
  });
  const one = (share: number | Tensor): Tensor => {
    const { low, rest, isOut } = withoutGrad(() => {
      const places = present.sub(1).clamp(0).cast(x.dtype).mul(share);
      const { low, rest } = placesOf(places, options.interpolation ?? "linear");
      const isOut = places.lt(0).logicalOr(low.ge(present.clamp(1)));
      return {
        low: low.clamp(0, n - 1).cast("int32"),
        rest,
        isOut: isOut.logicalOr(present.eq(0)),
      };
    });
    const from = sorted.gather(at, low);
    const value = rest.eq(0).where(
      from,
      from.lerp(sorted.gather(at, low.add(1).minimum(n - 1)), rest),
    );
    return finished(isOut.where(NaN, value), x, at, axis, options);
  };
  if (typeof q === "number") return one(q);
  if (!isTensor(q)) return stack(q.map(one));
  const shares = q.detach().cast(x.dtype);
  if (q.ndim === 0) return one(shares);
  return stack(Array.from({ length: q.size }, (_, k) => one(shares.slice(k))));
}

/** The elements in order along the axis, and where NaN is among them. */
function sortedLine(
  x: Tensor,
  axis: number | undefined,
): { sorted: Tensor; broken: Tensor; at: number; n: number } {
  const { line, at } = along("quantile", x, axis);
  const order = withoutGrad(() => line.detach().argsort(at).contiguous());
  const broken = withoutGrad(() => line.detach().isNaN().any(at, { keepDims: true }));
  return { sorted: line.gather(at, order), broken, at, n: line.shape[at]! };
}

/** The quantiles at shares that the device has: none is read. */
function quantilesOf(
  x: Tensor,
  q: Tensor,
  axis: number | undefined,
  options: QuantileOptions = {},
): Tensor {
  const { sorted, broken, at, n } = sortedLine(x, axis);
  const along = sorted.shape.map((_, k) => k === at ? q.size : 1);
  const { low, rest, isOut } = withoutGrad(() => {
    const shares = q.detach().cast(x.dtype === "float64" ? "float64" : "float32").flatten();
    const { low, rest } = placesOf(shares.mul(n - 1), options.interpolation ?? "linear");
    const isOut = shares.ge(0).logicalAnd(shares.le(1)).logicalNot();
    return { low: isOut.where(0, low).cast("int32"), rest, isOut: isOut.reshape(along) };
  });
  const [from, to] = [low, low.add(1).minimum(n - 1)].map((places) =>
    sorted.indexSelect(at, places)
  ) as [Tensor, Tensor];
  const weight = rest.reshape(along).cast(x.dtype);
  // Between two infinities there is nothing, and a place may be one of them.
  const value = weight.eq(0).where(from, from.lerp(to, weight));
  const found = broken.logicalOr(isOut).where(NaN, value).unsqueeze(0).transpose(0, at + 1);
  const shape = finished(broken, x, at, axis, options).shape;
  return found.reshape([...q.shape, ...shape]);
}

/** Between which elements quantiles lie, and where there, as tensors: see `placeOf`. */
function placesOf(
  places: Tensor,
  how: NonNullable<QuantileOptions["interpolation"]>,
): { low: Tensor; rest: Tensor } {
  const low = places.floor(), rest = places.sub(low), isBetween = rest.ne(0);
  switch (how) {
    case "linear":
      return { low, rest };
    case "lower":
      return { low, rest: rest.mul(0) };
    case "higher":
      return { low: places.ceil(), rest: rest.mul(0) };
    case "midpoint":
      return { low, rest: isBetween.where(0.5, rest) };
    case "nearest":
      return { low: places.round(), rest: rest.mul(0) };
  }
}

/** Between which elements a quantile lies, and where there. */
function placeOf(place: number, how: NonNullable<QuantileOptions["interpolation"]>): number {
  const low = Math.floor(place), rest = place - low;
  switch (how) {
    case "linear":
      return place;
    case "lower":
      return low;
    case "higher":
      return Math.ceil(place);
    case "midpoint":
      return rest === 0 ? place : low + 0.5;
    case "nearest":
      // Ties go to the even one.
      return rest === 0.5 ? low + low % 2 : Math.round(place);
  }
}

/** See `Tensor.nanToNum`. */
export function nanToNum(x: Tensor, options: NanToNumOptions = {}): Tensor {
  checkOptions("replace NaN", options, nanRules);
  if (!isFloat(x.dtype)) return x;
  const largest = LARGEST[x.dtype]!;
  const { nan = 0, posinf = largest, neginf = -largest } = options;
  const finite = x.eq(Infinity).where(posinf, x.eq(-Infinity).where(neginf, x));
  return x.isNaN().where(nan, finite);
}

/** The largest finite number of a type. */
const LARGEST: Readonly<Partial<Record<DType, number>>> = {
  float64: Number.MAX_VALUE,
  float32: (2 - 2 ** -23) * 2 ** 127,
  float16: 65504,
  bfloat16: (2 - 2 ** -7) * 2 ** 127,
};

/** The sum of what is not NaN. */
export function nansum(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  return x.isNaN().where(0, x).sum(axes, options);
}

/** The mean of what is not NaN. */
export function nanmean(x: Tensor, axes?: Axes, options?: ReduceOptions): Tensor {
  requireFloat("nanmean", x);
  const isMissing = x.isNaN();
  const count = isMissing.where(0, x.onesLike().cast("float32")).sum(axes, options);
  return nansum(x, axes, options).div(count).cast(x.dtype);
}

/** Two parts of an axis, each without some elements at one end. */
function neighbours(x: Tensor, at: number): { before: Tensor; after: Tensor } {
  const n = x.shape[at]!;
  const part = (from: number, to: number) =>
    x.slice(...x.shape.map((_, axis) => axis === at ? [from, to] as const : null));
  return { before: part(0, Math.max(0, n - 1)), after: part(Math.min(1, n), n) };
}

/** See `Tensor.diff`. */
export function diff(x: Tensor, options: DiffOptions = {}): Tensor {
  checkOptions("diff", options, diffRules);
  const { n = 1, axis = -1 } = options, at = normalizeAxis("diff", axis, x.shape);
  let out = x;
  for (let k = 0; k < n; k++) {
    const { before, after } = neighbours(out, at);
    out = x.dtype === "bool" ? after.ne(before) : after.sub(before);
  }
  return out;
}

/** See `Tensor.trapezoid`. */
export function trapezoid(y: Tensor, options: TrapezoidOptions = {}): Tensor {
  checkOptions("integrate", options, trapezoidRules);
  const { x, dx, axis = -1 } = options, at = normalizeAxis("trapezoid", axis, y.shape);
  if (x && dx !== undefined) {
    throw new TypeError("Cannot integrate with x and dx: pass one of them");
  }
  const { before, after } = neighbours(y, at), pairs = before.add(after);
  if (!x) return pairs.sum(at).mul((dx ?? 1) / 2);
  if (x.ndim === y.ndim) return pairs.mul(diff(x, { axis: at })).sum(at).mul(0.5);
  if (x.ndim !== 1 || x.size !== y.shape[at]) {
    throw shapeError("trapezoid", at)`
      Cannot integrate ${y.shape} along axis ${at} at places of shape ${x.shape}: pass a vector of
      as many, or one of the shape of the values`;
  }
  const widths = diff(x).reshape(y.shape.slice(at).map((_, k) => k === 0 ? x.size - 1 : 1));
  return pairs.mul(widths).sum(at).mul(0.5);
}

/** See `Tensor.cov`. */
export function cov(x: Tensor, options: CovarianceOptions = {}): Tensor {
  checkOptions("take the covariance", options, covarianceRules);
  requireFloat("covariance", x);
  if (x.ndim > 2) {
    throw shapeError("cov")`
      Cannot take the covariance of shape ${x.shape}: pass (variables, observations)`;
  }
  const rows = x.ndim === 2 ? x : x.reshape([1, x.size]), n = rows.shape[1]!;
  const centred = rows.sub(rows.mean(1, { keepDims: true }));
  const share = Math.max(0, n - (options.correction ?? 1));
  const out = centred.matmul(centred.transpose()).div(share);
  return x.ndim === 2 ? out : out.reshape([]);
}

/** See `Tensor.corrcoef`. */
export function corrcoef(x: Tensor): Tensor {
  const c = cov(x);
  if (c.ndim === 0) return c.div(c);
  const deviations = c.diagonal().sqrt();
  return c.div(deviations.unsqueeze(1)).div(deviations.unsqueeze(0)).clamp(-1, 1);
}
