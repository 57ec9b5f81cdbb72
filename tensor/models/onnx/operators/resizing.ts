/** Images in another size, and at other places. */
import { isFloat, sizeOf } from "../../../../backend/internal.ts";
import { Tensor } from "../../../class/tensor.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import type { Value } from "../core/value.ts";

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
      // The length before it was rounded down.
      return from * scale === 1 ? 0 : k * (from - 1) / (from * scale - 1);
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
    const scale = common ?? given?.[k] ?? ratios![k]!;
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

/** Elements at places between them, for each image: (N, C, spatial...) and (N, spatial..., axes). */
function gridSample(call: Call): Tensor {
  const x = call.tensor(0), grid = call.tensor(1), lengths = x.shape.slice(2);
  const mode = call.text("mode", "linear").replace(/^bi/, "");
  const edges = call.text("padding_mode", "zeros"), isAligned = call.int("align_corners", 0) === 1;
  const axes = lengths.length, front = grid.shape.slice(0, -1).map(() => null);
  // The grid names the last axis first.
  const sources = lengths.map((n, k) => {
    const place = grid.slice(...front, axes - 1 - k).add(1).div(2);
    return isAligned ? place.mul(n - 1) : place.mul(n).sub(0.5);
  });
  const options = { x, lengths, edges, isAligned };
  if (mode === "nearest") return picked(options, sources.map((s) => s.round()));
  const isCubic = mode === "cubic", offsets = isCubic ? [-1, 0, 1, 2] : [0, 1];
  const floors = sources.map((s) => s.floor());
  const shares = sources.map((s, k) =>
    offsets.map((o) => shareAt(s.sub(floors[k]!).sub(o), isCubic))
  );
  let sum: Tensor | null = null;
  for (let k = 0; k < offsets.length ** axes; k++) {
    const digits = lengths.map((_, axis) =>
      Math.floor(k / offsets.length ** axis) % offsets.length
    );
    const values = picked(options, floors.map((f, axis) => f.add(offsets[digits[axis]!]!)));
    const share = digits.map((d, axis) => shares[axis]![d]!).reduce((a, b) => a.mul(b));
    const part = values.mul(share.unsqueeze(1));
    sum = sum ? sum.add(part) : part;
  }
  return sum!;
}

function shareAt(distance: Tensor, isCubic: boolean): Tensor {
  const d = distance.abs(), a = -0.75;
  if (!isCubic) return d.neg().add(1);
  const near = d.mul(a + 2).sub(a + 3).mul(d).mul(d).add(1);
  const far = d.mul(a).sub(5 * a).mul(d).add(8 * a).mul(d).sub(4 * a);
  return d.le(1).where(near, far);
}

interface Sampled {
  readonly x: Tensor;
  readonly lengths: readonly number[];
  readonly edges: string;
  readonly isAligned: boolean;
}

/** The elements at whole places, with what stands for those outside. */
function picked({ x, lengths, edges, isAligned }: Sampled, places: readonly Tensor[]): Tensor {
  const [n, c] = x.shape as [number, number], shape = places[0]!.shape;
  let flat: Tensor | null = null, inside: Tensor | null = null;
  places.forEach((place, k) => {
    const length = lengths[k]!;
    const own = edges === "reflection" ? reflected(place, length, isAligned) : place;
    const hit = own.ge(0).logicalAnd(own.lt(length));
    inside = inside ? (inside as Tensor).logicalAnd(hit) : hit;
    const at = own.clamp(0, length - 1).cast("int32");
    flat = flat ? (flat as Tensor).mul(length).add(at) : at;
  });
  const all = x.reshape([n, c, -1]), count = sizeOf(shape.slice(1));
  const at = flat!.reshape([n, 1, count]).expand([n, c, count]);
  const values = all.gather(2, at).reshape([n, c, ...shape.slice(1)]);
  return edges === "zeros" ? inside!.unsqueeze(1).where(values, 0) : values;
}

function reflected(place: Tensor, length: number, isAligned: boolean): Tensor {
  if (isAligned && length === 1) return place.mul(0);
  const low = isAligned ? 0 : -0.5, span = isAligned ? length - 1 : length;
  const turned = place.sub(low).abs().remainder(2 * span);
  return turned.gt(span).where(turned.neg().add(2 * span), turned).add(low);
}

/** The places that matrices give to the pixels of an image. */
function affineGrid(call: Call): Tensor {
  const theta = call.tensor(0), size = call.numbers(1)!.slice(2);
  const isAligned = call.int("align_corners", 0) === 1, dims = size.length;
  const lines = size.map((n, axis) => {
    const places = Float32Array.from(
      { length: n },
      (_, k) => isAligned ? n === 1 ? 0 : -1 + 2 * k / (n - 1) : (2 * k + 1) / n - 1,
    );
    const shape = size.map((_, k) => k === axis ? n : 1);
    return Tensor.fromHost(places, { shape }).cast(theta.dtype).expand(size);
  });
  const points = Tensor.stack([...lines.reverse(), lines[0]!.onesLike()], dims).reshape([
    -1,
    dims + 1,
  ]);
  const out = points.matmul(theta.transpose());
  return out.reshape([theta.shape[0]!, ...size, dims]);
}

/** The sums of windows that overlap. */
function col2im(call: Call): Tensor {
  const x = call.tensor(0), size = call.numbers(1)!, block = call.numbers(2)!, axes = size.length;
  const strides = call.ints("strides") ?? block.map(() => 1);
  const dilations = call.ints("dilations") ?? block.map(() => 1);
  const pads = call.ints("pads") ?? [...block, ...block].map(() => 0);
  const whole = size.map((n, k) => n + pads[k]! + pads[k + axes]!);
  const counts = whole.map((n, k) =>
    Math.floor((n - (block[k]! - 1) * dilations[k]! - 1) / strides[k]!) + 1
  );
  const taps = sizeOf(block), positions = sizeOf(counts);
  const places = Int32Array.from({ length: taps * positions }, (_, k) => {
    let tap = Math.floor(k / positions), position = k % positions, place = 0, step = 1;
    for (let axis = axes - 1; axis >= 0; axis--) {
      const at = (tap % block[axis]!) * dilations[axis]! +
        (position % counts[axis]!) * strides[axis]!;
      place += at * step;
      step *= whole[axis]!;
      tap = Math.floor(tap / block[axis]!);
      position = Math.floor(position / counts[axis]!);
    }
    return place;
  });
  const n = x.shape[0]!, c = x.shape[1]! / taps, all = sizeOf(whole);
  const at = Tensor.fromHost(places).reshape([1, 1, -1]).expand([n, c, taps * positions]);
  const sums = x.zerosLike([n, c, all]).scatterAdd(2, at, x.reshape([n, c, -1]));
  const bounds = size.map((length, k) => [pads[k]!, pads[k]! + length] as const);
  return sums.reshape([n, c, ...whole]).slice(null, null, ...bounds);
}

/** Images in another size, by their kinds. */
export const resizing: Operators = {
  Resize: resize,
  Upsample: resize,
  GridSample: gridSample,
  AffineGrid: affineGrid,
  Col2Im: col2im,
};
