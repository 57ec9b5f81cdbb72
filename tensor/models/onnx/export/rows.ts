/** The form of each operation in ONNX, version 17. */
import { type DType, isFloat } from "../../../../backend/internal.ts";
import { promote } from "../../../core/rules/promotion.ts";
import { fromFront } from "../core/places.ts";
import { indexingRows } from "./indexing_rows.ts";
import { layerRows } from "./layer_rows.ts";
import { recurrentRows } from "./recurrent_rows.ts";
import { isUsed, type Used } from "./recording.ts";
import { shapingRows } from "./shaping_rows.ts";
import { type Attributes, input, type Row, typeOfResult, type Written } from "./row.ts";

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

const clamp: Row = (w) => {
  const dtype = typeOfResult(w),
    bound = (k: number) =>
      w.call.args[k] === undefined || w.call.args[k] === null
        ? ""
        : w.graph.operand(w.call.args[k], dtype);
  return w.graph.emit("Clip", [w.graph.operand(input(w), dtype), bound(1), bound(2)]);
};

/** Sums of squares of what is left without the mean, divided by the count less the correction. */
const variance: Row = (w) => {
  const { correction = 1 } = (w.call.args[2] ?? {}) as { correction?: number };
  const x = w.graph.operand(input(w), typeOfResult(w)), axes = axesOf(w), keepdims = keeps(w);
  const rest = w.graph.emit("Sub", [x, w.graph.emit("ReduceMean", [x], { axes, keepdims: 1 })]);
  const square = w.graph.emit("Mul", [rest, rest]);
  const mean = w.graph.emit("ReduceMean", [square], { axes, keepdims });
  if (correction === 0) return mean;
  const [own, others] = [w.call, w.other].map(({ args }) =>
    axes.map((axis) => (args[0] as Used).tensor.shape[axis]!)
  );
  const lengths = w.graph.cast(w.graph.shape(own!, others!, false), typeOfResult(w));
  const count = w.graph.emit("ReduceProd", [lengths], { keepdims: 0 });
  const less = w.graph.emit("Sub", [count, w.graph.scalar(correction, typeOfResult(w))]);
  return w.graph.emit("Mul", [mean, w.graph.emit("Div", [count, less])]);
};

/** Truth of some elements, or of all: the largest one, or the least, of numbers. */
function truth(kind: "ReduceMax" | "ReduceMin"): Row {
  return (w) => {
    const x = w.graph.cast(w.graph.operand(input(w), "bool"), "int32");
    const found = w.graph.emit(kind, [x], { axes: axesOf(w), keepdims: keeps(w) });
    return w.graph.cast(found, "bool");
  };
}

/** The quotient rounded down; whole numbers go through doubles, which hold those of 53 bits. */
function dividedDown(w: Written, dtype: DType): string {
  const [a, b] = w.call.args.slice(0, 2).map((arg) => w.graph.operand(arg, dtype)) as [
    string,
    string,
  ];
  return w.graph.emit("Floor", [w.graph.emit("Div", [a, b])]);
}

const floorDivide: Row = (w) => {
  const dtype = typeOfResult(w);
  return isFloat(dtype) ? dividedDown(w, dtype) : w.graph.cast(dividedDown(w, "float64"), dtype);
};

/** The rest with the sign of the divisor. */
const remainder: Row = (w) => {
  const dtype = typeOfResult(w);
  const [a, b] = w.call.args.slice(0, 2).map((arg) => w.graph.operand(arg, dtype)) as [
    string,
    string,
  ];
  if (!isFloat(dtype)) return w.graph.emit("Mod", [a, b]);
  return w.graph.emit("Sub", [a, w.graph.emit("Mul", [dividedDown(w, dtype), b])]);
};

/** Cut towards 0. */
const trunc: Row = (w) => {
  const x = w.graph.operand(input(w), typeOfResult(w));
  const size = w.graph.emit("Floor", [w.graph.emit("Abs", [x])]);
  return w.graph.emit("Mul", [w.graph.emit("Sign", [x]), size]);
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
  isInf: (w) => w.graph.emit("IsInf", [w.graph.operand(input(w), "float32")]),
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
  variance,
  std: (w) => w.graph.emit("Sqrt", [variance(w) as string]),
  any: truth("ReduceMax"),
  all: truth("ReduceMin"),
  floorDivide,
  remainder,
  trunc,
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
  matmul: binary("MatMul"),
  bmm: binary("MatMul"),
  einsum: (w) => {
    const [equation, ...operands] = w.call.args, dtype = typeOfResult(w);
    const names = operands.map((operand) => w.graph.operand(operand, dtype));
    return w.graph.emit("Einsum", names, { equation: equation as string });
  },
  ...shapingRows,
  ...indexingRows,
  ...layerRows,
  ...recurrentRows,
};
