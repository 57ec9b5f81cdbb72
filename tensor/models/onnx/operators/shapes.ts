/** Operators on shapes: views, joins, parts, and what is made from shapes alone. */
import { sizeOf } from "../../../../backend/internal.ts";
import { Tensor } from "../../../class/tensor.ts";
import { type Call, int64s, type Operator, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import { type OnnxData, Value } from "../core/value.ts";
import { typeByNumber, typeNamed } from "../format/types.ts";
import { broadcast } from "./host.ts";

/** The same elements in another shape, on the host where they are there. */
export function reshaped(value: Value, shape: readonly number[]): Value {
  const size = sizeOf(shape);
  if (value.isOnHost && value.size === size && size <= 64) return value.reshaped(shape);
  return typed(value.tensor.reshape(shape), value.type);
}

function normalized(axes: readonly number[], ndim: number): number[] {
  return axes.map((axis) => fromFront(axis, ndim));
}

function reshape(call: Call): Value {
  const data = call.value(0), wanted = call.intsOf("shape", 1)!;
  const keepsZeros = call.int("allowzero", 0) === 1;
  return inferred(data, wanted.map((n, k) => n === 0 && !keepsZeros ? data.shape[k]! : n));
}

/** With one axis that follows from the others. */
function inferred(data: Value, shape: number[]): Value {
  const open = shape.indexOf(-1);
  if (open < 0) return reshaped(data, shape);
  const rest = shape.reduce((product, n, k) => k === open ? product : product * n, 1);
  return reshaped(data, shape.with(open, rest === 0 ? 0 : data.size / rest));
}

function squeeze(call: Call): Value {
  const data = call.value(0), axes = call.intsOf("axes", 1);
  const gone = axes && normalized(axes, data.shape.length);
  return reshaped(data, data.shape.filter((n, k) => gone ? !gone.includes(k) : n !== 1));
}

function unsqueeze(call: Call): Value {
  const data = call.value(0), axes = call.intsOf("axes", 1) ?? [];
  const added = normalized(axes, data.shape.length + axes.length), rest = data.shape.slice();
  const shape = Array.from(
    { length: data.shape.length + axes.length },
    (_, k) => added.includes(k) ? 1 : rest.shift()!,
  );
  return reshaped(data, shape);
}

function flatten(call: Call): Value {
  const data = call.value(0), [axis] = normalized([call.int("axis", 1)], data.shape.length);
  return reshaped(data, [sizeOf(data.shape.slice(0, axis)), sizeOf(data.shape.slice(axis))]);
}

function transpose(call: Call): Tensor {
  const x = call.tensor(0);
  return x.permute(call.ints("perm") ?? x.shape.map((_, k) => x.ndim - 1 - k));
}

function slice(call: Call): Value {
  const { type, shape } = call.value(0), x = call.tensor(0);
  const starts = call.intsOf("starts", 1)!, ends = call.intsOf("ends", 2)!;
  const axes = normalized(call.intsOf("axes", 3) ?? starts.map((_, k) => k), shape.length);
  const steps = call.numbers(4) ?? starts.map(() => 1);
  let out = x;
  axes.forEach((axis, k) => {
    out = cut(out, axis, starts[k]!, ends[k]!, steps[k]!);
  });
  return typed(out, type);
}

/** One axis as NumPy cuts it. */
function cut(x: Tensor, axis: number, start: number, end: number, step: number): Tensor {
  const n = x.shape[axis]!, isBack = step < 0;
  const place = (k: number) =>
    Math.max(isBack ? -1 : 0, Math.min(isBack ? n - 1 : n, fromFront(k, n)));
  const [from, to] = [place(start), place(end)];
  const ranges = (range: readonly [number, number, number]) =>
    x.shape.map((_, k) => k === axis ? range : null);
  if (!isBack) return x.slice(...ranges([from, Math.max(from, to), step]));
  // Backwards: the last element that is taken comes first.
  const count = Math.max(0, Math.ceil((to - from) / step));
  const first = from + (count - 1) * step;
  return x.slice(...ranges(count === 0 ? [0, 0, 1] : [first, from + 1, -step])).flip(axis);
}

function split(call: Call): OnnxData[] {
  const { type, shape } = call.value(0), [axis] = normalized([call.int("axis", 0)], shape.length);
  const sizes = call.intsOf("split", 1) ??
    evenly(shape[axis!]!, call.int("num_outputs", call.outputs));
  let at = 0;
  return sizes.map((size) => {
    const ranges = shape.map((_, k) => k === axis ? [at, at + size] as const : null);
    at += size;
    const isFew = call.value(0).isOnHost && shape.length === 1;
    if (isFew) return Value.ofNumbers(type, [size], call.value(0).numbers().slice(at - size, at));
    return typed(call.tensor(0).slice(...ranges), type);
  });
}

function evenly(length: number, count: number): number[] {
  const size = Math.ceil(length / count);
  return Array.from({ length: count }, (_, k) => Math.max(0, Math.min(size, length - k * size)));
}

function expand(call: Call): Value {
  const { type } = call.value(0), x = call.tensor(0), wanted = call.value(1).numbers();
  const shape = broadcast(x.shape, wanted);
  if (!shape) throw new RangeError(`[${x.shape}] does not broadcast to [${wanted}]`);
  return typed(x.expand(shape), type);
}

function pad(call: Call): Value {
  const { type } = call.value(0), x = call.tensor(0), pads = call.intsOf("pads", 1)!;
  const half = pads.length / 2;
  const axes = normalized(call.numbers(3) ?? pads.slice(half).map((_, k) => k), x.ndim);
  const widths = x.shape.map((_, k): [number, number] => {
    const at = axes.indexOf(k);
    return at < 0 ? [0, 0] : [pads[at]!, pads[at + half]!];
  });
  const mode = call.text("mode", "constant");
  const value = call.opset < 11 ? call.float("value", 0) : call.number(2, 0);
  return typed(paddedBy(x, widths, mode, value), type);
}

/** Negative widths cut. */
function paddedBy(
  x: Tensor,
  widths: readonly (readonly [number, number])[],
  mode: string,
  value: number,
): Tensor {
  const isCut = widths.some(([a, b]) => a < 0 || b < 0);
  const kept = isCut
    ? x.slice(
      ...widths.map(([a, b], k) => [Math.max(0, -a), x.shape[k]! + Math.min(0, b)] as const),
    )
    : x;
  const grown = widths.map(([a, b]): [number, number] => [Math.max(0, a), Math.max(0, b)]);
  if (mode === "constant") {
    return x.dtype === "bool"
      ? kept.cast("uint8").pad(grown, value).cast("bool")
      : kept.pad(grown, value);
  }
  return grown.reduce((out, [before, after], axis) => {
    if (before === 0 && after === 0) return out;
    const at = edgePlaces(out.shape[axis]!, before, after, mode);
    return out.indexSelect(axis, Tensor.fromHost(Int32Array.from(at)));
  }, kept);
}

function edgePlaces(n: number, before: number, after: number, mode: string): number[] {
  const period = 2 * (n - 1) || 1;
  return Array.from({ length: before + n + after }, (_, k) => {
    const at = k - before;
    if (mode === "edge") return Math.max(0, Math.min(n - 1, at));
    if (mode === "wrap") return (at % n + n) % n;
    const turned = (at % period + period) % period;
    return turned < n ? turned : period - turned;
  });
}

function constantOfShape(call: Call): Value {
  const shape = call.value(0).numbers(), given = call.array("value");
  const type = given?.type ?? typeNamed("float32"), value = Number(given?.data[0] ?? 0);
  const size = sizeOf(shape);
  if (size <= 64) return Value.ofNumbers(type, shape, new Array(size).fill(value));
  return typed(Tensor.full(shape, value, { dtype: type.dtype }), type);
}

/** A constant in any of its forms. */
function constant(call: Call): Value {
  const array = call.array("value");
  if (array) return Value.ofArray(array, array.type);
  const floats = call.floats("value_floats"), ints = call.ints("value_ints");
  if (floats) return Value.ofNumbers(typeNamed("float32"), [floats.length], floats);
  if (ints) return int64s(ints);
  if (call.says("value_int")) return int64s([call.int("value_int", 0)], []);
  if (call.says("value_float")) {
    return Value.ofNumbers(typeNamed("float32"), [], [call.float("value_float", 0)]);
  }
  throw new TypeError("its value is a text or a sparse tensor, which are not read");
}

function shapeOf(call: Call): Value {
  const { shape } = call.value(0);
  return int64s(
    shape.slice(call.int("start", 0), call.says("end") ? call.int("end", 0) : undefined),
  );
}

function range(call: Call): Value {
  const { type } = call.value(0);
  const [start, limit, delta] = [0, 1, 2].map((k) => call.number(k, 0)) as [number, number, number];
  const count = Math.max(0, Math.ceil((limit - start) / delta));
  const numbers = Array.from({ length: count }, (_, k) => start + k * delta);
  return Value.ofNumbers(type, [count], numbers);
}

function eyeLike(call: Call): Value {
  const { type, shape: [rows, columns] } = call.value(0), k = call.int("k", 0);
  const wanted = call.says("dtype") ? typeByNumber(call.int("dtype", 1)) : type;
  const size = Math.max(rows!, columns!) + Math.abs(k);
  const [top, left] = [Math.max(0, -k), Math.max(0, k)];
  const whole = Tensor.eye(size + Math.abs(k)).slice([left, left + rows!], [top, top + columns!]);
  return typed(whole.cast(wanted.dtype), wanted);
}

/** Blocks of the image become channels, or the other way. */
const depthToSpace: Operator = (call) => {
  const x = call.tensor(0), b = call.int("blocksize", 1), [n, c, h, w] = x.shape as number[];
  const isByColumns = call.text("mode", "DCR") === "CRD", out = c! / (b * b);
  const split = isByColumns ? [n!, out, b, b, h!, w!] : [n!, b, b, out, h!, w!];
  const order = isByColumns ? [0, 1, 4, 2, 5, 3] : [0, 3, 4, 1, 5, 2];
  return x.reshape(split).permute(order).reshape([n!, out, h! * b, w! * b]);
};

const spaceToDepth: Operator = (call) => {
  const x = call.tensor(0), b = call.int("blocksize", 1), [n, c, h, w] = x.shape as number[];
  const split = x.reshape([n!, c!, h! / b, b, w! / b, b]);
  return split.permute([0, 3, 5, 1, 2, 4]).reshape([n!, c! * b * b, h! / b, w! / b]);
};

function centerCropPad(call: Call): Tensor {
  const x = call.tensor(0), wanted = call.value(1).numbers();
  const axes = normalized(call.ints("axes") ?? x.shape.map((_, k) => k), x.ndim);
  const widths = x.shape.map((n, k): [number, number] => {
    const at = axes.indexOf(k), more = at < 0 ? 0 : wanted[at]! - n;
    const before = more < 0 ? -Math.floor(-more / 2) : Math.floor(more / 2);
    return [before, more - before];
  });
  return paddedBy(x, widths, "constant", 0);
}

/** Operators on shapes, by their kinds. */
export const shapes: Operators = {
  Reshape: reshape,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Flatten: flatten,
  Transpose: transpose,
  Slice: slice,
  Split: split,
  Expand: expand,
  Pad: pad,
  Concat: (call) => {
    const { type } = call.value(0), parts = call.tensors();
    return typed(Tensor.concat(parts, call.int("axis", 0)), type);
  },
  Tile: (call) => typed(call.tensor(0).repeat(call.value(1).numbers()), call.value(0).type),
  Shape: shapeOf,
  Size: (call) => int64s([call.value(0).size], []),
  Constant: constant,
  ConstantOfShape: constantOfShape,
  Range: range,
  EyeLike: eyeLike,
  DepthToSpace: depthToSpace,
  SpaceToDepth: spaceToDepth,
  CenterCropPad: centerCropPad,
  Trilu: (call) => {
    const x = call.tensor(0), k = call.number(1, 0), { type } = call.value(0);
    const wide = x.dtype === "bool" ? x.cast("uint8") : x;
    const part = call.int("upper", 1) === 1 ? wide.triu(k) : wide.tril(k);
    return typed(part.cast(x.dtype), type);
  },
};
