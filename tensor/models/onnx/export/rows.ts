/** The form of each operation in ONNX, version 17. */
import { type DType, isFloat } from "../../../../backend/internal.ts";
import { promote } from "../../../core/rules/promotion.ts";
import type { SliceRange } from "../../../core/arguments.ts";
import { fromFront } from "../core/places.ts";
import { layerRows } from "./layer_rows.ts";
import { recurrentRows } from "./recurrent_rows.ts";
import { isUsed, type Used } from "./recording.ts";
import {
  type Attributes,
  input,
  type Row,
  shapesOfResult,
  typeOfResult,
  type Written,
} from "./row.ts";

function unary(kind: string, attributes: Attributes = {}): Row {
  return (w) => w.graph.emit(kind, [w.graph.operand(input(w), typeOfResult(w))], attributes);
}

function binary(kind: string): Row {
  return (w) => {
    const dtype = typeOfResult(w);
    return w.graph.emit(kind, w.call.args.slice(0, 2).map((arg) => w.graph.operand(arg, dtype)));
  };
}

/** The type in which operands are compared. */
function commonType(args: readonly unknown[]): DType {
  const types = args.filter(isUsed).map(({ tensor }) => tensor.dtype);
  const common = types.reduce(promote);
  const hasFraction = args.some((arg) => typeof arg === "number" && !Number.isInteger(arg));
  return hasFraction && !isFloat(common) ? "float32" : common;
}

function comparison(kind: string, isNegated = false): Row {
  return (w) => {
    const args = w.call.args.slice(0, 2), dtype = commonType(args);
    // ONNX compares no truth values.
    const own = dtype === "bool" ? "int32" : dtype;
    const out = w.graph.emit(kind, args.map((arg) => w.graph.operand(arg, own)));
    return isNegated ? w.graph.emit("Not", [out]) : out;
  };
}

function logical(kind: string): Row {
  return (w) =>
    w.graph.emit(kind, w.call.args.slice(0, 2).map((arg) => w.graph.operand(arg, "bool")));
}

/** The axes of a reduction; all where none are named. */
function axesOf(w: Written): number[] {
  const [, axes] = w.call.args, { ndim } = input(w).tensor;
  const list = axes === undefined || axes === null
    ? Array.from({ length: ndim }, (_, k) => k)
    : [axes as number | number[]].flat();
  return list.map((axis) => fromFront(axis, ndim));
}

function keeps(w: Written): number {
  return Number((w.call.args[2] as { keepDims?: boolean } | undefined)?.keepDims ?? false);
}

function reduction(kind: string, asInput = false): Row {
  return (w) => {
    const x = w.graph.operand(input(w), typeOfResult(w)), axes = axesOf(w), keepdims = keeps(w);
    return asInput
      ? w.graph.emit(kind, [x, w.graph.ints(axes)], { keepdims })
      : w.graph.emit(kind, [x], { axes, keepdims });
  };
}

function place(kind: string): Row {
  return (w) => {
    const { ndim } = input(w).tensor, [, given] = w.call.args;
    const x = w.graph.name(input(w)), isAll = given === undefined || given === null;
    const flat = isAll && ndim > 1 ? w.graph.emit("Reshape", [x, w.graph.ints([-1])]) : x;
    const axis = isAll ? 0 : given as number;
    return w.graph.cast(w.graph.emit(kind, [flat], { axis, keepdims: keeps(w) }), typeOfResult(w));
  };
}

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

const slice: Row = (w) => {
  const x = input(w),
    ranges = w.call.args[1] as SliceRange[],
    others = w.other.args[1] as SliceRange[];
  const starts: number[] = [], ends: number[] = [], axes: number[] = [], steps: number[] = [];
  const gone: number[] = [];
  ranges.forEach((range, axis) => {
    if (range === null || range === undefined) return;
    if (typeof range === "number") gone.push(axis);
    const [from, to, step = 1] = typeof range === "number"
      ? [range, range === -1 ? END : range + 1]
      : [range[0] ?? 0, range[1] ?? END, range[2]];
    const other = others[axis], same = typeof other === "number" ? other : other?.[0] ?? 0;
    const end = typeof other === "object" ? other?.[1] ?? END : to;
    const isEnd = to === x.tensor.shape[axis];
    if (same !== from || end !== to && !isEnd) {
      throw new TypeError(
        `Cannot save slice: its range [${range}] depends on the length of an axis`,
      );
    }
    starts.push(from);
    ends.push(isEnd ? END : to);
    axes.push(axis);
    steps.push(step);
  });
  if (axes.length === 0) return w.graph.emit("Identity", [w.graph.name(x)]);
  const lists = [starts, ends, axes, steps].map((list) => w.graph.ints(list));
  const cut = w.graph.emit("Slice", [w.graph.name(x), ...lists]);
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

/** The first elements of an axis in order, and their places. */
function ordered(w: Written, k: string, isLargest: boolean): string[] {
  const x = input(w), given = (w.call.name === "topk" ? w.call.args[2] : w.call.args[1]) ?? -1;
  const axis = fromFront(given as number, x.tensor.ndim);
  const attributes = { axis, largest: Number(isLargest), sorted: 1 };
  const [values, places] = w.graph.node("TopK", [w.graph.name(x), k], attributes, 2);
  return [values!, w.graph.cast(places!, "int32")];
}

/** All elements in order; equal ones keep theirs in both programs. */
function sorted(w: Written): string[] {
  const axis = (w.call.args[1] ?? -1) as number, at = fromFront(axis, input(w).tensor.ndim);
  const [one, other] = [w.call, w.other].map(({ args }) => [(args[0] as Used).tensor.shape[at]!]);
  const { descending = false } = (w.call.args[2] ?? {}) as { descending?: boolean };
  return ordered(w, w.graph.shape(one!, other!, false), descending);
}

const topk: Row = (w) => {
  const { largest = true } = (w.call.args[3] ?? {}) as { largest?: boolean };
  return ordered(w, w.graph.ints([w.call.args[1] as number]), largest);
};

const expand: Row = (w) =>
  w.graph.emit("Expand", [w.graph.name(input(w)), w.graph.shape(...shapesOfResult(w), false)]);

const select: Row = (w) => {
  const dtype = typeOfResult(w), [condition, a, b] = w.call.args;
  const hit = w.graph.operand(condition, "bool");
  return w.graph.emit("Where", [hit, w.graph.operand(a, dtype), w.graph.operand(b, dtype)]);
};

const maskedFill: Row = (w) => {
  const dtype = typeOfResult(w), [x, mask, value] = w.call.args;
  return w.graph.emit("Where", [
    w.graph.operand(mask, "bool"),
    w.graph.operand(value, dtype),
    w.graph.operand(x, dtype),
  ]);
};

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

function gathered(axisAt: number, indicesAt: number): Row {
  return (w) => {
    const axis = axisAt < 0 ? 0 : w.call.args[axisAt] as number;
    const indices = w.graph.operand(w.call.args[indicesAt], "int64");
    return w.graph.emit("Gather", [w.graph.name(input(w)), indices], { axis });
  };
}

function triangle(upper: number): Row {
  return (w) => {
    const k = w.graph.ints([(w.call.args[1] ?? 0) as number], []);
    return w.graph.emit("Trilu", [w.graph.name(input(w)), k], { upper });
  };
}

const clamp: Row = (w) => {
  const dtype = typeOfResult(w),
    bound = (k: number) =>
      w.call.args[k] === undefined || w.call.args[k] === null
        ? ""
        : w.graph.operand(w.call.args[k], dtype);
  return w.graph.emit("Clip", [w.graph.operand(input(w), dtype), bound(1), bound(2)]);
};

/** The same value, perhaps of another type. */
const same: Row = (w) => {
  const x = input(w), dtype = typeOfResult(w), name = w.graph.name(x);
  return x.tensor.dtype === dtype ? w.graph.emit("Identity", [name]) : w.graph.cast(name, dtype);
};

/** A chain of nodes of one input, with numbers beside it. */
function chain(...steps: readonly (readonly [kind: string, value?: number, side?: "left"])[]): Row {
  return (w) => {
    const dtype = typeOfResult(w);
    return steps.reduce((x, [kind, value, side]) => {
      if (value === undefined) return w.graph.emit(kind, [x]);
      const number = w.graph.scalar(value, dtype);
      return w.graph.emit(kind, side === "left" ? [number, x] : [x, number]);
    }, w.graph.operand(input(w), dtype));
  };
}

const sameNames =
  "neg abs sign exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh \
erf floor ceil round sigmoid relu reciprocal";

function capitalized(name: string): string {
  return name[0]!.toUpperCase() + name.slice(1);
}

/** Every operation that is written as it is; others are written by their parts. */
export const rows: Readonly<Record<string, Row>> = {
  ...Object.fromEntries(sameNames.split(" ").map((name) => [name, unary(capitalized(name))])),
  isNaN: (w) => w.graph.emit("IsNaN", [w.graph.name(input(w))]),
  logicalNot: (w) => w.graph.emit("Not", [w.graph.operand(input(w), "bool")]),
  rsqrt: chain(["Sqrt"], ["Reciprocal"]),
  log1p: chain(["Add", 1], ["Log"]),
  expm1: chain(["Exp"], ["Sub", 1]),
  exp2: chain(["Pow", 2, "left"]),
  log2: chain(["Log"], ["Mul", Math.LOG2E]),
  log10: chain(["Log"], ["Mul", Math.LOG10E]),
  erfc: chain(["Erf"], ["Sub", 1, "left"]),
  softplus: unary("Softplus"),
  add: binary("Add"),
  sub: binary("Sub"),
  mul: binary("Mul"),
  div: binary("Div"),
  pow: binary("Pow"),
  maximum: binary("Max"),
  minimum: binary("Min"),
  square: (w) => {
    const x = w.graph.name(input(w));
    return w.graph.emit("Mul", [x, x]);
  },
  eq: comparison("Equal"),
  ne: comparison("Equal", true),
  lt: comparison("Less"),
  le: comparison("LessOrEqual"),
  gt: comparison("Greater"),
  ge: comparison("GreaterOrEqual"),
  logicalAnd: logical("And"),
  logicalOr: logical("Or"),
  logicalXor: logical("Xor"),
  where: select,
  select,
  maskedFill,
  clamp,
  cast: same,
  detach: same,
  clone: same,
  contiguous: same,
  sum: reduction("ReduceSum", true),
  mean: reduction("ReduceMean"),
  prod: reduction("ReduceProd"),
  max: reduction("ReduceMax"),
  min: reduction("ReduceMin"),
  logSumExp: reduction("ReduceLogSumExp"),
  argmax: place("ArgMax"),
  argmin: place("ArgMin"),
  softmax: (w) => unary("Softmax", { axis: (w.call.args[1] ?? -1) as number })(w),
  logSoftmax: (w) => unary("LogSoftmax", { axis: (w.call.args[1] ?? -1) as number })(w),
  cumsum: (w) =>
    w.graph.emit("CumSum", [
      w.graph.operand(input(w), typeOfResult(w)),
      w.graph.ints([w.call.args[1] as number], []),
    ]),
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
  sort: sorted,
  argsort: (w) => sorted(w)[1]!,
  topk,
  split,
  chunk: split,
  unbind,
  concat: joined,
  stack: stacked,
  tril: triangle(0),
  triu: triangle(1),
  embedding: gathered(-1, 1),
  indexSelect: gathered(1, 2),
  gather: (w) => {
    const axis = w.call.args[1] as number, indices = w.graph.operand(w.call.args[2], "int64");
    return w.graph.emit("GatherElements", [w.graph.name(input(w)), indices], { axis });
  },
  matmul: binary("MatMul"),
  bmm: binary("MatMul"),
  einsum: (w) => {
    const [equation, ...operands] = w.call.args, dtype = typeOfResult(w);
    const names = operands.map((operand) => w.graph.operand(operand, dtype));
    return w.graph.emit("Einsum", names, { equation: equation as string });
  },
  ...layerRows,
  ...recurrentRows,
};
