/** Operators by indices: gathering, scattering, what is chosen and in which order. */
import { Tensor } from "../../../class/tensor.ts";
import { type Call, int64s, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import { Value } from "../core/value.ts";

function axisOf(call: Call, fallback: number, ndim: number): number {
  return fromFront(call.int("axis", fallback), ndim);
}

/** Negative indices count from the end; constants are seen to on the host. */
function positive(indices: Value, length: number): Tensor {
  if (!indices.isOnHost) {
    return indices.tensor.lt(0).where(indices.tensor.add(length), indices.tensor);
  }
  const numbers = indices.numbers();
  if (numbers.every((k) => k >= 0)) return indices.tensor;
  const data = Int32Array.from(numbers, (k) => fromFront(k, length));
  return Tensor.fromHost(data, { shape: indices.shape });
}

function gather(call: Call): Value {
  const { type } = call.value(0), x = call.tensor(0), indices = call.value(1);
  const axis = axisOf(call, 0, x.ndim), at = positive(indices, x.shape[axis]!);
  const picked = x.indexSelect(axis, at.flatten());
  const shape = [...x.shape.slice(0, axis), ...indices.shape, ...x.shape.slice(axis + 1)];
  return typed(picked.reshape(shape), type);
}

function gatherElements(call: Call): Value {
  const x = call.tensor(0), axis = axisOf(call, 0, x.ndim);
  const at = positive(call.value(1), x.shape[axis]!);
  // Along the other axes as many as there are indices.
  const part = x.slice(
    ...x.shape.map((n, k) => k === axis ? [0, n] as const : [0, at.shape[k]!] as const),
  );
  return typed(part.gather(axis, at), call.value(0).type);
}

/** The places of tuples of indices in an array whose indexed axes are one. */
function flatPlaces(indices: Value, lengths: readonly number[]): Tensor {
  const depth = indices.shape.at(-1)!, all = indices.tensor;
  const front = indices.shape.slice(0, -1).map(() => null);
  let places: Tensor | null = null;
  for (let k = 0; k < depth; k++) {
    const index = all.slice(...front, k), n = lengths[k]!;
    const own = index.lt(0).where(index.add(n), index);
    places = places ? places.mul(n).add(own) : own;
  }
  return places!;
}

function product(shape: readonly number[]): number {
  return shape.reduce((size, n) => size * n, 1);
}

function gatherND(call: Call): Value {
  const x = call.tensor(0), indices = call.value(1), batch = call.int("batch_dims", 0);
  const depth = indices.shape.at(-1)!, front = x.shape.slice(0, batch), count = product(front);
  const lengths = x.shape.slice(batch, batch + depth), rest = x.shape.slice(batch + depth);
  const places = flatPlaces(indices, lengths).reshape([count, -1]);
  const offsets = places.indexLike([count]).cast(places.dtype).mul(product(lengths)).unsqueeze(1);
  const flat = x.reshape([count * product(lengths), product(rest)]);
  const picked = flat.indexSelect(0, places.add(offsets).flatten());
  return typed(picked.reshape([...indices.shape.slice(0, -1), ...rest]), call.value(0).type);
}

/** Stores values at places along an axis, or joins them with what is there. */
function scatterBy(x: Tensor, axis: number, at: Tensor, values: Tensor, reduction: string): Tensor {
  if (reduction === "none") return x.scatter(axis, at, values);
  if (reduction === "add") return x.scatterAdd(axis, at, values);
  // One after the other: equal places are joined, too.
  const fn = ({ mul: "mul", max: "maximum", min: "minimum" } as const)[reduction];
  if (fn === undefined) throw new TypeError(`its reduction "${reduction}" is none`);
  let out = x;
  for (let k = 0; k < at.shape[axis]!; k++) {
    const one = at.shape.map((_, i) => i === axis ? [k, k + 1] as const : null);
    const place = at.slice(...one);
    const whole = out.slice(
      ...x.shape.map((n, i) => i === axis ? [0, n] as const : [0, at.shape[i]!] as const),
    );
    out = out.scatter(axis, place, whole.gather(axis, place)[fn](values.slice(...one)));
  }
  return out;
}

function scatterElements(call: Call): Value {
  const x = call.tensor(0), axis = axisOf(call, 0, x.ndim);
  const at = positive(call.value(1), x.shape[axis]!);
  const out = scatterBy(x, axis, at, call.tensor(2), call.text("reduction", "none"));
  return typed(out, call.value(0).type);
}

function scatterND(call: Call): Value {
  const x = call.tensor(0), indices = call.value(1), depth = indices.shape.at(-1)!;
  const lengths = x.shape.slice(0, depth), width = product(x.shape.slice(depth));
  const places = flatPlaces(indices, lengths).flatten().unsqueeze(1).expand([-1, width]);
  const flat = x.reshape([product(lengths), width]);
  const values = call.tensor(2).reshape([places.shape[0]!, width]);
  const out = scatterBy(flat, 0, places, values, call.text("reduction", "none"));
  return typed(out.reshape(x.shape), call.value(0).type);
}

function oneHot(call: Call): Value {
  const indices = call.tensor(0), depth = call.number(1, 0), { type } = call.value(2);
  const axis = axisOf(call, -1, indices.ndim + 1);
  const values = call.tensor(2), at = indices.cast("int64");
  const own = at.lt(0).where(at.add(depth), at).unsqueeze(axis);
  const shape = Array.from({ length: indices.ndim + 1 }, (_, k) => k === axis ? depth : 1);
  const hits = own.eq(own.indexLike([depth]).reshape(shape));
  return typed(hits.where(values.slice(1), values.slice(0)), type);
}

function compress(call: Call): Value {
  const { type } = call.value(0),
    hits = call.value(1).numbers().flatMap((hit, k) => hit ? [k] : []);
  const at = Tensor.fromHost(Int32Array.from(hits)), isFlat = !call.says("axis");
  const x = isFlat ? call.tensor(0).flatten() : call.tensor(0);
  return typed(x.indexSelect(isFlat ? 0 : axisOf(call, 0, x.ndim), at), type);
}

/** Slices along an axis, or elements, that are not the same: how many there are is known after. */
function unique(call: Call): Value[] {
  const { type } = call.value(0), given = call.tensor(0), isFlat = !call.says("axis");
  const x = isFlat ? given.flatten() : given, axis = isFlat ? 0 : axisOf(call, 0, x.ndim);
  const rows = x.transpose(0, axis), count = rows.shape[0]!, width = rows.size / Math.max(1, count);
  const numbers = Value.of(rows.contiguous()).numbers();
  const rowAt = (k: number) => numbers.slice(k * width, (k + 1) * width);
  const firsts: number[] = [], counts: number[] = [], known = new Map<string, number>();
  const found = Array.from({ length: count }, (_, k) => {
    const key = rowAt(k).join(), place = known.get(key) ?? firsts.length;
    if (place === firsts.length) {
      known.set(key, place);
      firsts.push(k);
      counts.push(0);
    }
    counts[place]!++;
    return place;
  });
  const order = firsts.map((_, k) => k);
  if (call.int("sorted", 1) === 1) {
    const values = firsts.map(rowAt);
    order.sort((a, b) => compared(values[a]!, values[b]!));
  }
  const places = new Map(order.map((from, to) => [from, to])), kept = order.map((k) => firsts[k]!);
  const values = x.indexSelect(axis, Tensor.fromHost(BigInt64Array.from(kept, BigInt)));
  const inverse = found.map((place) => places.get(place)!);
  return [
    typed(values, type),
    ...[kept, inverse, order.map((k) => counts[k]!)].map((list) => int64s(list)),
  ].slice(0, Math.max(1, call.outputs));
}

/** Compares lists by their first numbers that differ. */
function compared(a: readonly number[], b: readonly number[]): number {
  const k = a.findIndex((value, at) => value !== b[at]);
  return k < 0 ? 0 : a[k]! - b[k]!;
}

/** The first elements of each sequence in reverse. */
function reverseSequence(call: Call): Value {
  const x = call.tensor(0), time = call.int("time_axis", 0), batch = call.int("batch_axis", 1);
  const n = x.shape[time]!, lengths = call.tensor(1).cast("int32");
  const shape = (axis: number, length: number) => x.shape.map((_, k) => k === axis ? length : 1);
  const step = x.indexLike([n]).reshape(shape(time, n));
  const end = lengths.reshape(shape(batch, x.shape[batch]!));
  const at = step.lt(end).where(end.sub(1).sub(step), step).expand(x.shape);
  return typed(x.gather(time, at), call.value(0).type);
}

interface Box {
  readonly at: number;
  readonly score: number;
  readonly corners: readonly [number, number, number, number];
}

function overlap({ corners: a }: Box, { corners: b }: Box): number {
  const height = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const width = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1])), both = height * width;
  const area = (c: readonly number[]) => (c[2]! - c[0]!) * (c[3]! - c[1]!);
  const all = area(a) + area(b) - both;
  return all > 0 ? both / all : 0;
}

function cornersOf(box: readonly number[], isCentered: boolean): Box["corners"] {
  const [a, b, c, d] = box as [number, number, number, number];
  if (isCentered) return [b - d / 2, a - c / 2, b + d / 2, a + c / 2];
  return [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
}

/** Boxes by falling score, without those that overlap a better one: how many there are is known after. */
function nonMaxSuppression(call: Call): Value {
  const boxes = call.value(0).numbers(), scores = call.value(1).numbers();
  const [batches, classes, count] = call.value(1).shape as [number, number, number];
  const most = call.number(2, 0), threshold = call.number(3, 0);
  const least = call.numbers(4)?.[0] ?? -Infinity;
  const isCentered = call.int("center_point_box", 0) === 1, found: number[] = [];
  for (let n = 0; n < batches; n++) {
    for (let c = 0; c < classes; c++) {
      const all = Array.from({ length: count }, (_, at): Box => ({
        at,
        score: scores[(n * classes + c) * count + at]!,
        corners: cornersOf(boxes.slice((n * count + at) * 4, (n * count + at) * 4 + 4), isCentered),
      })).filter(({ score }) => score > least).sort((a, b) => b.score - a.score);
      const kept: Box[] = [];
      for (const box of all) {
        if (kept.length >= most) break;
        if (kept.every((other) => overlap(other, box) <= threshold)) kept.push(box);
      }
      found.push(...kept.flatMap(({ at }) => [n, c, at]));
    }
  }
  return int64s(found, [found.length / 3, 3]);
}

/** Rows of a cache from some places on are replaced. */
function tensorScatter(call: Call): Value {
  const cache = call.tensor(0), update = call.tensor(1), axis = axisOf(call, -2, cache.ndim);
  const count = update.shape[axis]!, n = cache.shape[axis]!, batch = cache.shape[0]!;
  const shape = (at: number, length: number) => cache.shape.map((_, k) => k === at ? length : 1);
  const steps = cache.indexLike([count]).reshape(shape(axis, count));
  const start = call.optional(2)?.cast("int32").reshape(shape(0, batch)) ?? steps.mul(0);
  const places = start.add(steps), isCircular = call.text("mode", "linear") === "circular";
  const at = (isCircular ? places.remainder(n) : places).expand(update.shape);
  return typed(cache.scatter(axis, at, update), call.value(0).type);
}

/** Operators by indices, by their kinds. */
export const indexing: Operators = {
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherND,
  Scatter: scatterElements,
  ScatterElements: scatterElements,
  ScatterND: scatterND,
  TensorScatter: tensorScatter,
  OneHot: oneHot,
  Compress: compress,
  Unique: unique,
  ReverseSequence: reverseSequence,
  NonMaxSuppression: nonMaxSuppression,
};
