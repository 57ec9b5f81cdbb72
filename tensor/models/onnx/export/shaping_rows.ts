/** The forms of operations that move elements: views, parts, joined and repeated tensors. */
import type { SliceRange } from "../../../core/arguments.ts";
import { fromFront } from "../core/places.ts";
import type { Used } from "./recording.ts";
import { input, type Row, shapesOfResult, typeOfResult, type Written } from "./row.ts";

/** Any view that only changes the shape. */
const reshape: Row = (w) => {
  const shape = w.graph.shape(...shapesOfResult(w), true);
  return w.graph.emit("Reshape", [w.graph.name(input(w)), shape]);
};

const permute: Row = (w) => {
  const x = input(w),
    order = (w.call.args[1] as number[]).map((k) => fromFront(k, x.tensor.ndim));
  return w.graph.emit("Transpose", [w.graph.name(x)], { perm: order });
};

const transpose: Row = (w) => {
  const x = input(w), { ndim } = x.tensor, perm = Array.from({ length: ndim }, (_, k) => k);
  if (ndim < 2) return w.graph.emit("Identity", [w.graph.name(x)]);
  const [a, b] = [w.call.args[1] ?? -2, w.call.args[2] ?? -1].map((k) =>
    fromFront(k as number, ndim)
  );
  [perm[a!], perm[b!]] = [b!, a!];
  return w.graph.emit("Transpose", [w.graph.name(x)], { perm });
};

/** The end of an axis, however long it is. */
const END = 2 ** 62;

/** The bounds of a range; one that ends with its axis does so for any length. */
function bounds(
  range: SliceRange | undefined,
  length: number,
): [from: number, to: number, step: number] {
  if (typeof range === "number") return [range, range === -1 ? END : range + 1, 1];
  const [from, to, step = 1] = range ?? [];
  return [from ?? 0, to === undefined || to === null || to === length ? END : to, step];
}

const slice: Row = (w) => {
  const x = input(w), ranges = w.call.args[1] as SliceRange[];
  const axes = ranges.flatMap((range, axis) => range === null || range === undefined ? [] : [axis]);
  if (axes.length === 0) return w.graph.emit("Identity", [w.graph.name(x)]);
  const [own, others] = [w.call, w.other].map(({ args }) => {
    const { shape } = (args[0] as Used).tensor;
    return axes.map((axis) => bounds((args[1] as SliceRange[])[axis], shape[axis]!));
  });
  const along = (k: number) =>
    w.graph.shape(own!.map((b) => b[k]!), others!.map((b) => b[k]!), false);
  const steps = w.graph.ints(own!.map(([, , step]) => step));
  const cut = w.graph.emit("Slice", [
    w.graph.name(x),
    along(0),
    along(1),
    w.graph.ints(axes),
    steps,
  ]);
  const gone = axes.filter((axis) => typeof ranges[axis] === "number");
  return gone.length === 0 ? cut : w.graph.emit("Squeeze", [cut, w.graph.ints(gone)]);
};

const pad: Row = (w) => {
  const x = input(w), widths = w.call.args[1] as [number, number][];
  const pads = [...widths.map(([before]) => before), ...widths.map(([, after]) => after)];
  const value = w.graph.scalar(Number(w.call.args[2] ?? 0), x.tensor.dtype);
  return w.graph.emit("Pad", [w.graph.name(x), w.graph.ints(pads), value]);
};

const flip: Row = (w) => {
  const { ndim } = input(w).tensor;
  const axes = [w.call.args[1] as number | number[]].flat().map((k) => fromFront(k, ndim));
  // From the last element back to the first, however many there are.
  const lists = [-1, -END, -1].map((n) => w.graph.ints(axes.map(() => n)));
  const [from, to, step] = lists as [string, string, string];
  return w.graph.emit("Slice", [w.graph.name(input(w)), from, to, w.graph.ints(axes), step]);
};

const expand: Row = (w) =>
  w.graph.emit("Expand", [w.graph.name(input(w)), w.graph.shape(...shapesOfResult(w), false)]);

function joined(w: Written): string {
  const parts = w.call.args[0] as Used[], dtype = typeOfResult(w);
  const axis = (w.call.args[1] ?? 0) as number;
  return w.graph.emit("Concat", parts.map((part) => w.graph.operand(part, dtype)), { axis });
}

const stacked: Row = (w) => {
  const parts = w.call.args[0] as Used[], dtype = typeOfResult(w);
  const given = (w.call.args[1] ?? 0) as number, { ndim } = (w.call.output as Used).tensor;
  const axis = fromFront(given, ndim);
  const own = parts.map((part) =>
    w.graph.emit("Unsqueeze", [w.graph.operand(part, dtype), w.graph.ints([axis])])
  );
  return w.graph.emit("Concat", own, { axis });
};

/** Parts of equal or given sizes. */
const split: Row = (w) => {
  const outputs = w.call.output as Used[], x = input(w), axis = (w.call.args[2] ?? 0) as number;
  const at = fromFront(axis, x.tensor.ndim);
  const sizes = outputs.map(({ tensor }) => tensor.shape[at]!);
  return w.graph.node(
    "Split",
    [w.graph.name(x), w.graph.ints(sizes)],
    { axis: at },
    outputs.length,
  );
};

const unbind: Row = (w) => {
  const outputs = w.call.output as Used[], x = input(w), axis = (w.call.args[1] ?? 0) as number;
  const at = fromFront(axis, x.tensor.ndim), sizes = outputs.map(() => 1);
  const parts = w.graph.node(
    "Split",
    [w.graph.name(x), w.graph.ints(sizes)],
    { axis: at },
    outputs.length,
  );
  return parts.map((part) => w.graph.emit("Squeeze", [part, w.graph.ints([at])]));
};

/** Each element so many times: a new axis behind its own, which becomes part of it. */
const repeatInterleave: Row = (w) => {
  const [x, count, given] = w.call.args as [Used, unknown, number | undefined];
  if (typeof count !== "number") {
    throw new TypeError("Cannot save repeatInterleave by a tensor of counts");
  }
  const shapeOf = ({ args, output }: typeof w.call): number[] => {
    const { shape } = (output as Used).tensor, own = (args[0] as Used).tensor.shape;
    const axis = given === undefined ? 0 : fromFront(given, own.length),
      length = shape[axis]! / count;
    return [...shape.slice(0, axis), length, count, ...shape.slice(axis + 1)];
  };
  const axis = given === undefined ? 0 : fromFront(given, x.tensor.ndim), name = w.graph.name(x);
  const flat = given === undefined ? w.graph.emit("Reshape", [name, w.graph.ints([-1])]) : name;
  const apart = w.graph.emit("Unsqueeze", [flat, w.graph.ints([axis + 1])]);
  const repeated = w.graph.emit("Expand", [
    apart,
    w.graph.shape(shapeOf(w.call), shapeOf(w.other), false),
  ]);
  return w.graph.emit("Reshape", [repeated, w.graph.shape(...shapesOfResult(w), true)]);
};

function triangle(upper: number): Row {
  return (w) => {
    const k = w.graph.ints([(w.call.args[1] ?? 0) as number], []);
    return w.graph.emit("Trilu", [w.graph.name(input(w)), k], { upper });
  };
}

/** Elements that leave an axis at its end come in at its begin. */
const roll: Row = (w) => {
  const [x, shift, given] = w.call.args as [Used, number, number | undefined];
  const name = w.graph.name(x), [first, second] = shapesOfResult(w);
  const axis = given === undefined ? 0 : fromFront(given, x.tensor.ndim);
  const own = given === undefined ? w.graph.emit("Reshape", [name, w.graph.ints([-1])]) : name;
  const n = given === undefined ? x.tensor.size : x.tensor.shape[axis]!;
  const open = given === undefined ? `${first}` !== `${second}` : first[axis] !== second[axis];
  // In an axis of any length the shift is not cut to it.
  const by = open ? shift : n === 0 ? 0 : ((shift % n) + n) % n;
  if (by === 0) return w.graph.emit("Identity", [name]);
  const part = (from: number, to: number) =>
    w.graph.emit("Slice", [own, ...[from, to, axis].map((k) => w.graph.ints([k]))]);
  const joined = w.graph.emit("Concat", [part(-by, END), part(0, -by)], { axis });
  return given === undefined
    ? w.graph.emit("Reshape", [joined, w.graph.shape(first, second, true)])
    : joined;
};

const repeat: Row = (w) => {
  const [x, times] = w.call.args as [Used, number[]], name = w.graph.name(x);
  const lead = times.length - x.tensor.ndim;
  const axes = Array.from({ length: lead }, (_, k) => k);
  const own = lead > 0 ? w.graph.emit("Unsqueeze", [name, w.graph.ints(axes)]) : name;
  return w.graph.emit("Tile", [own, w.graph.ints(times)]);
};

/** Operations that move elements, by their names. */
export const shapingRows: Readonly<Record<string, Row>> = {
  reshape,
  flatten: reshape,
  squeeze: reshape,
  unsqueeze: reshape,
  permute,
  transpose,
  expand,
  slice,
  pad,
  flip,
  split,
  chunk: split,
  unbind,
  concat: joined,
  stack: stacked,
  tril: triangle(0),
  triu: triangle(1),
  roll,
  repeat,
  tile: repeat,
  repeatInterleave,
};
