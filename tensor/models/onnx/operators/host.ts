/**
 * Operators on values that are on the host: shapes, and what is computed from them. A kind that is not
 * here runs on the device.
 *
 * This folder (`operators/`) is what the kinds of nodes do, a row a kind. It imports `core/` and
 * `format/` beside it, and the operations of tensors.
 */
import { isFloat as hasFractions, sizeOf } from "../../../../backend/internal.ts";
import { type Call, int64s } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import { Value } from "../core/value.ts";
import { boundsOf, type OnnxType, typeByNumber, typeNamed } from "../format/types.ts";

/** More elements than these are computed on the device. */
export const MAX_HOST_SIZE = 2048;

type Binary = (a: number, b: number) => number;

/** The place of each element of a shape in one that broadcasts to it. */
function places(from: readonly number[], to: readonly number[]): number[] {
  const size = sizeOf(to), lead = to.length - from.length;
  return Array.from({ length: size }, (_, k) => {
    let place = 0, step = 1;
    for (let axis = to.length - 1; axis >= 0; axis--) {
      const at = k % to[axis]!;
      k = Math.floor(k / to[axis]!);
      const n = from[axis - lead] ?? 1;
      if (n > 1) place += at * step;
      step *= n;
    }
    return place;
  });
}

/** The shape that shapes broadcast to; null where they do not. */
export function broadcast(...shapes: readonly (readonly number[])[]): number[] | null {
  const axes = Math.max(...shapes.map((shape) => shape.length)), out: number[] = [];
  for (let axis = 1; axis <= axes; axis++) {
    const lengths = new Set(shapes.map((shape) => shape.at(-axis) ?? 1).filter((n) => n !== 1));
    if (axis <= axes && lengths.size > 1) return null;
    out.unshift([...lengths][0] ?? 1);
  }
  return out;
}

/** Rounding to the numbers of a type, so that a length is what the device would have made it. */
function roundingOf({ dtype }: OnnxType): (n: number) => number {
  if (dtype === "float32") return Math.fround;
  return dtype === "float16" ? Math.f16round : (n) => n;
}

function elementwise(fn: (...numbers: number[]) => number, isBool = false) {
  return ({ inputs }: Call): Value | null => {
    const values = inputs as Value[], shape = broadcast(...values.map((value) => value.shape));
    if (!shape) return null;
    const of = values.map((v) => ({ numbers: v.numbers(), at: places(v.shape, shape) }));
    const size = sizeOf(shape);
    const type = isBool ? typeNamed("bool") : values.at(-1)!.type;
    const round = roundingOf(type);
    const numbers = Array.from(
      { length: size },
      (_, k) => round(Number(fn(...of.map(({ numbers, at }) => numbers[at[k]!]!)))),
    );
    return numbers.every((n) => fits(n, type)) ? Value.ofNumbers(type, shape, numbers) : null;
  };
}

/** Whole numbers that doubles hold; others wrap, or are rounded, as on the device. */
function fits(value: number, type: OnnxType): boolean {
  if (hasFractions(type.dtype)) return true;
  const [low, high] = boundsOf(type);
  return Number.isSafeInteger(value) && value >= low && value <= high;
}

function arithmetic(ofFloats: Binary, ofInts: Binary = ofFloats) {
  const floats = elementwise(ofFloats), ints = elementwise(ofInts);
  return (call: Call) => (isFloat(call) ? floats : ints)(call);
}

function isFloat(call: Call): boolean {
  return hasFractions(call.value(0).type.dtype);
}

/** Elements of the input in the places that a view gives them. */
function picked(value: Value, shape: readonly number[], at: readonly number[]): Value {
  const numbers = value.numbers();
  return Value.ofNumbers(value.type, shape, at.map((k) => numbers[k]!));
}

/** Elements from one to the next along each axis. */
function stepsOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
}

/** The places of an array of this shape, along each axis the listed ones, in row-major order. */
function crossed(shape: readonly number[], along: readonly (readonly number[])[]): number[] {
  const steps = stepsOf(shape);
  return along.reduce<number[]>(
    (all, list, axis) => all.flatMap((at) => list.map((k) => at + k * steps[axis]!)),
    [0],
  );
}

function counted(n: number): number[] {
  return Array.from({ length: n }, (_, k) => k);
}

function gather(call: Call): Value | null {
  const data = call.value(0), indices = call.value(1), { shape } = data;
  const axis = fromFront(call.int("axis", 0), shape.length), n = shape[axis]!;
  const at = indices.numbers().map((k) => fromFront(k, n));
  const rest = sizeOf(shape) / n * at.length;
  if (!at.every((k) => k >= 0 && k < n) || !(rest <= MAX_HOST_SIZE)) return null;
  const along = shape.map((length, k) => k === axis ? at : counted(length));
  const out = [...shape.slice(0, axis), ...indices.shape, ...shape.slice(axis + 1)];
  return picked(data, out, crossed(shape, along));
}

function slice(call: Call): Value | null {
  const data = call.value(0), { shape } = data, ndim = shape.length;
  const starts = call.intsOf("starts", 1)!, ends = call.intsOf("ends", 2)!;
  const axes = call.intsOf("axes", 3) ?? counted(starts.length), steps = call.numbers(4);
  const along = shape.map(counted);
  axes.forEach((given, k) => {
    const axis = fromFront(given, ndim), n = shape[axis]!, step = steps?.[k] ?? 1;
    // Backwards from the last element to the one before the first.
    const [low, high] = step < 0 ? [-1, n - 1] : [0, n];
    const bound = (place: number) => Math.max(low, Math.min(high, fromFront(place, n)));
    const from = bound(starts[k]!), to = bound(ends[k]!);
    const count = Math.max(0, Math.ceil((to - from) / step));
    along[axis] = Array.from({ length: count }, (_, j) => from + j * step);
  });
  return picked(data, along.map((list) => list.length), crossed(shape, along));
}

function transpose(call: Call): Value {
  const data = call.value(0), { shape } = data;
  const order = call.ints("perm") ?? counted(shape.length).reverse(), steps = stepsOf(shape);
  const at = order.reduce<number[]>(
    (all, axis) => all.flatMap((k) => counted(shape[axis]!).map((j) => k + j * steps[axis]!)),
    [0],
  );
  return picked(data, order.map((axis) => shape[axis]!), at);
}

function concat(call: Call): Value | null {
  const values = call.inputs as Value[];
  if (values.some((value) => value.shape.length !== 1)) return null;
  const numbers = values.flatMap((value) => value.numbers());
  return Value.ofNumbers(values[0]!.type, [numbers.length], numbers);
}

function reduce(fn: Binary, start?: number) {
  return (call: Call): Value | null => {
    const data = call.value(0), numbers = data.numbers();
    const axes = call.intsOf("axes", 1);
    const isWhole = data.shape.length === 1 && (axes === undefined || axes.length === 1);
    if (!isWhole || numbers.length === 0 && start === undefined) return null;
    // A reducer gets the place and the list besides, which Math.min would take for numbers.
    const [first, rest] = start === undefined ? [numbers[0]!, numbers.slice(1)] : [start, numbers];
    const value = roundingOf(data.type)(rest.reduce((a, b) => fn(a, b), first));
    if (!fits(value, data.type)) return null;
    return Value.ofNumbers(data.type, call.int("keepdims", 1) === 1 ? [1] : [], [value]);
  };
}

function cast(call: Call): Value | null {
  const type = typeByNumber(call.int("to", 0)), data = call.value(0);
  const isWhole = ["int32", "int64"].includes(type.name), isWide = type.name === "float32";
  if (!isWhole && !isWide && type.name !== "bool") return null;
  const round = isWhole ? Math.trunc : isWide ? Math.fround : (n: number) => Number(n !== 0);
  const numbers = data.numbers().map(round);
  return numbers.every((n) => fits(n, type)) ? Value.ofNumbers(type, data.shape, numbers) : null;
}

function expand(call: Call): Value | null {
  const data = call.value(0), shape = broadcast(data.shape, call.value(1).numbers());
  if (!shape || sizeOf(shape) > MAX_HOST_SIZE) return null;
  return picked(data, shape, places(data.shape, shape));
}

const floorModulo = elementwise((a, b) => b === 0 ? NaN : a - b * Math.floor(a / b));

/** The result of each kind, or null where that is left to the device. */
export const hostOperators: Readonly<Record<string, (call: Call) => Value | null>> = {
  Add: arithmetic((a, b) => a + b),
  Sub: arithmetic((a, b) => a - b),
  Mul: arithmetic((a, b) => a * b),
  Div: arithmetic((a, b) => a / b, (a, b) => b === 0 ? 0 : Math.trunc(a / b)),
  Mod: (call) => call.int("fmod", 0) === 1 ? null : floorModulo(call),
  Min: elementwise(Math.min),
  Max: elementwise(Math.max),
  Neg: elementwise((a) => -a),
  Abs: elementwise(Math.abs),
  Sign: elementwise(Math.sign),
  Sqrt: elementwise(Math.sqrt),
  Reciprocal: elementwise((a) => 1 / a),
  Floor: elementwise(Math.floor),
  Ceil: elementwise(Math.ceil),
  Equal: elementwise((a, b) => Number(a === b), true),
  Less: elementwise((a, b) => Number(a < b), true),
  LessOrEqual: elementwise((a, b) => Number(a <= b), true),
  Greater: elementwise((a, b) => Number(a > b), true),
  GreaterOrEqual: elementwise((a, b) => Number(a >= b), true),
  And: elementwise((a, b) => a && b, true),
  Or: elementwise((a, b) => a || b, true),
  Not: elementwise((a) => Number(!a), true),
  Where: elementwise((c, a, b) => c ? a : b),
  Gather: gather,
  Slice: slice,
  Transpose: transpose,
  Concat: concat,
  Cast: cast,
  Expand: expand,
  ReduceProd: reduce((a, b) => a * b, 1),
  ReduceSum: reduce((a, b) => a + b, 0),
  ReduceMax: reduce(Math.max),
  ReduceMin: reduce(Math.min),
  Range: (call) => {
    const [start, limit, delta] = [0, 1, 2].map((k) => call.number(k, 0)) as [
      number,
      number,
      number,
    ];
    const count = Math.max(0, Math.ceil((limit - start) / delta));
    if (isFloat(call) || !(count <= MAX_HOST_SIZE)) return null;
    return int64s(Array.from({ length: count }, (_, k) => start + k * delta));
  },
};
