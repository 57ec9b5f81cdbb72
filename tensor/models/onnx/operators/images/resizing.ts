/** Images in another size. */
import { isFloat } from "../../../../../backend/internal.ts";
import { Tensor } from "../../../../class/tensor.ts";
import { type Call, type Operators, typed } from "../../core/call.ts";
import { fromFront } from "../../core/places.ts";
import type { Value } from "../../core/value.ts";

/** Lengths and scale of a resized axis. */
interface AxisPlan {
  readonly from: number;
  readonly to: number;
  readonly scale: number;
  readonly roi: readonly [start: number, end: number];
}

/** An output's place in the inputs. */
function sourceOf(mode: string, k: number, { from, to, scale, roi }: AxisPlan): number {
  switch (mode) {
    case "align_corners":
      return to === 1 ? 0 : k * (from - 1) / (to - 1);
    case "asymmetric":
      return k / scale;
    case "pytorch_half_pixel":
      return to > 1 ? (k + 0.5) / scale - 0.5 : 0;
    case "half_pixel_symmetric": {
      const shift = from / 2 * (1 - to / (scale * from));
      return shift + (k + 0.5) / scale - 0.5;
    }
    case "tf_crop_and_resize": {
      const [start, end] = roi;
      if (to === 1) return 0.5 * (start + end) * (from - 1);
      return start * (from - 1) + k * (end - start) * (from - 1) / (to - 1);
    }
    default:
      return (k + 0.5) / scale - 0.5;
  }
}

const roundings: Readonly<Record<string, (x: number) => number>> = {
  round_prefer_floor: (x) => Math.ceil(x - 0.5),
  round_prefer_ceil: (x) => Math.floor(x + 0.5),
  floor: Math.floor,
  ceil: Math.ceil,
};

/** The share of an input at a distance. */
type Kernel = (distance: number) => number;

const linear: Kernel = (d) => Math.max(0, 1 - Math.abs(d));

/** R. Keys, Cubic convolution interpolation, 1981. */
function cubic(a: number): Kernel {
  return (distance) => {
    const d = Math.abs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  };
}

/** For each output the inputs that it is made of, and their shares. */
interface Taps {
  readonly places: number[];
  readonly shares: number[];
}

interface Sampling {
  readonly kernel: Kernel;
  /** Half the width of the kernel. */
  readonly reach: number;
  readonly isAntialiased: boolean;
  readonly excludesOutside: boolean;
}

function tapsOf(source: number, { from, scale }: AxisPlan, sampling: Sampling): Taps {
  const stretch = sampling.isAntialiased ? Math.min(1, scale) : 1;
  const reach = sampling.reach / stretch, places: number[] = [], shares: number[] = [];
  // As many for each output, whatever its place.
  const first = sampling.isAntialiased ? Math.ceil(source - reach) : Math.floor(source) - reach + 1;
  const count = sampling.isAntialiased ? Math.ceil(2 * reach) + 1 : 2 * reach;
  for (let k = 0; k < count; k++) {
    const at = first + k, isInside = at >= 0 && at < from;
    const share = sampling.kernel((at - source) * stretch);
    places.push(Math.max(0, Math.min(from - 1, at)));
    shares.push(sampling.excludesOutside && !isInside ? 0 : share);
  }
  const sum = shares.reduce((a, b) => a + b, 0);
  return { places, shares: shares.map((share) => share / sum) };
}

/** One axis, as a sum of elements of the input that are the same distance from each output. */
function resampled(x: Tensor, axis: number, all: readonly Taps[]): Tensor {
  const shape = x.shape.map((_, k) => k === axis ? all.length : 1);
  const parts = all[0]!.places.map((_, tap) => {
    const at = Tensor.fromHost(Int32Array.from(all, ({ places }) => places[tap]!));
    const share = Tensor.fromHost(Float32Array.from(all, ({ shares }) => shares[tap]!), { shape });
    return x.indexSelect(axis, at).mul(share.cast(x.dtype));
  });
  return parts.reduce((a, b) => a.add(b));
}

/** The sizes that a node asks for. */
function plansOf(call: Call, x: Value): (AxisPlan | null)[] {
  const isNew = call.opset >= 11, ndim = x.shape.length;
  const axes = (call.ints("axes") ?? x.shape.map((_, k) => k)).map((k) => fromFront(k, ndim));
  const given = call.kind === "Upsample" && call.opset < 9
    ? call.floats("scales")
    : nonEmpty(call.numbers(isNew ? 2 : 1));
  const sizes = isNew ? nonEmpty(call.numbers(3)) : undefined;
  if (!given && !sizes) throw new TypeError("it has neither scales nor sizes");
  const roi = isNew ? nonEmpty(call.numbers(1)) : undefined;
  const policy = call.text("keep_aspect_ratio_policy", "stretch");
  const ratios = sizes?.map((n, k) => n / x.shape[axes[k]!]!);
  const common = policy === "not_larger"
    ? Math.min(...ratios ?? [])
    : policy === "not_smaller"
    ? Math.max(...ratios ?? [])
    : null;
  return x.shape.map((from, axis) => {
    const k = axes.indexOf(axis);
    if (k < 0) return null;
    const scale = common ?? given?.[k] ?? ratios?.[k] ?? 0;
    if (!(scale > 0 && scale < Infinity)) {
      throw new RangeError(`its axis ${axis} of length ${from} is scaled by ${scale}`);
    }
    const to = common !== null && ratios
      ? Math.floor(common * from + 0.5)
      : sizes?.[k] ?? Math.floor(from * scale + 1e-9);
    const bounds = [roi?.[k] ?? 0, roi?.[k + axes.length] ?? 1] as const;
    return { from, to, scale: common !== null ? common : sizes ? to / from : scale, roi: bounds };
  });
}

function nonEmpty<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list && list.length > 0 ? list : undefined;
}

function resize(call: Call): Value {
  const value = call.value(0), plans = plansOf(call, value), mode = call.text("mode", "nearest");
  const isOld = call.opset < 11;
  const coordinates = isOld
    ? "asymmetric"
    : call.text("coordinate_transformation_mode", "half_pixel");
  const needsAll = coordinates === "tf_crop_and_resize";
  const whole = value.tensor, isWhole = !isFloat(whole.dtype) && mode !== "nearest";
  let x = isWhole ? whole.cast("float32") : whole, outside: Tensor | null = null;
  plans.forEach((plan, axis) => {
    if (!plan || plan.to === plan.from && plan.scale === 1 && !needsAll) return;
    const sources = Array.from({ length: plan.to }, (_, k) => sourceOf(coordinates, k, plan));
    x = mode === "nearest"
      ? nearest(x, axis, plan, sources, call, isOld)
      : resampled(x, axis, sources.map((source) => tapsOf(source, plan, samplingOf(call, mode))));
    if (!needsAll) return;
    const isOut = sources.map((s) => Number(s < 0 || s > plan.from - 1));
    const shape = plans.map((_, k) => k === axis ? plan.to : 1);
    const own = Tensor.fromHost(Uint8Array.from(isOut), { shape, dtype: "bool" });
    outside = outside ? (outside as Tensor).logicalOr(own) : own;
  });
  if (outside) x = (outside as Tensor).where(call.float("extrapolation_value", 0), x).cast(x.dtype);
  return typed(isWhole ? x.round().cast(value.type.dtype) : x, value.type);
}

function samplingOf(call: Call, mode: string): Sampling {
  const isLinear = mode === "linear" || mode === "bilinear";
  return {
    kernel: isLinear ? linear : cubic(call.float("cubic_coeff_a", -0.75)),
    reach: isLinear ? 1 : 2,
    isAntialiased: call.int("antialias", 0) === 1,
    excludesOutside: call.int("exclude_outside", 0) === 1,
  };
}

function nearest(
  x: Tensor,
  axis: number,
  { from, to, scale }: AxisPlan,
  sources: readonly number[],
  call: Call,
  isOld: boolean,
): Tensor {
  const rounding = roundings[isOld ? "floor" : call.text("nearest_mode", "round_prefer_floor")]!;
  const at = sources.map((source) => Math.max(0, Math.min(from - 1, rounding(source))));
  const isRepeat = to === from * scale && at.every((k, out) => k === Math.floor(out / scale));
  if (isRepeat && Number.isInteger(scale)) return x.repeatInterleave(scale, axis);
  return x.indexSelect(axis, Tensor.fromHost(Int32Array.from(at)));
}

/** Images in another size, by their kinds. */
export const resizing: Operators = {
  Resize: resize,
  Upsample: resize,
};
