/** Reductions, extremes' places, softmax, running sums. */
import { isFloat, sizeOf } from "../../../../backend/internal.ts";
import type { Tensor } from "../../../core/mod.ts";
import { type Call, type Operator, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import { castTo } from "./elementwise.ts";
import { reads } from "../core/value.ts";
import { typeNamed } from "../format/types.ts";

type Reduction = (x: Tensor, axes: number[], keepDims: boolean) => Tensor;

function reduce(fn: Reduction, each: (x: Tensor) => Tensor = (x) => x): Operator {
  return (call) => {
    const x = call.tensor(0), { type } = call.value(0), given = call.intsOf("axes", 1);
    const isEmpty = given === undefined || given.length === 0;
    if (isEmpty && call.int("noop_with_empty_axes", 0) === 1) return each(x);
    const axes = isEmpty ? x.shape.map((_, axis) => axis) : given.slice();
    return typed(fn(x, axes, call.int("keepdims", 1) === 1).cast(type.dtype), type);
  };
}

function sum(x: Tensor, axes: number[], keepDims: boolean): Tensor {
  return x.sum(axes, { keepDims });
}

/** Extremes of nothing are the ends of the type; those of truth values are all and any. */
function extreme(name: "max" | "min"): Reduction {
  const isMax = name === "max";
  return (x, axes, keepDims) => {
    if (x.dtype === "bool") return isMax ? x.any(axes, { keepDims }) : x.all(axes, { keepDims });
    if (x.size > 0) return x[name](axes, { keepDims });
    const ends: Partial<Record<string, number>> = { int32: 2 ** 31 - 1, uint8: 255 };
    const end = ends[x.dtype] ?? Infinity;
    return sum(x, axes, keepDims).fullLike(isMax ? -end : end);
  };
}

function extremePlace(name: "argmax" | "argmin"): Operator {
  return (call) => {
    const x = call.tensor(0), axis = call.int("axis", 0), keepDims = call.int("keepdims", 1) === 1;
    if (call.int("select_last_index", 0) === 0) return place(x[name](axis, { keepDims }));
    const last = x.flip(axis)[name](axis, { keepDims });
    return place(last.neg().add(x.shape.at(axis)! - 1));
  };
}

function place(x: Tensor) {
  return typed(x.cast("int64"), "int64");
}

/** Before version 13 all axes from `axis` on are one. */
function alongAxis(fn: (x: Tensor, axis: number) => Tensor): Operator {
  return (call) => {
    const x = call.tensor(0), isOld = call.opset < 13, axis = call.int("axis", isOld ? 1 : -1);
    if (!isOld) return fn(x, axis);
    const from = fromFront(axis, x.ndim);
    return fn(x.reshape([sizeOf(x.shape.slice(0, from)), -1]), 1).reshape(x.shape);
  };
}

function running(fn: (x: Tensor, axis: number) => Tensor, start: number): Operator {
  return (call) => {
    const x = call.tensor(0), { type } = call.value(0), axis = call.number(1, 0);
    const isReverse = call.int("reverse", 0) === 1;
    const turned = isReverse ? x.flip(axis) : x;
    const done = fn(call.int("exclusive", 0) === 1 ? shifted(turned, axis, start) : turned, axis);
    return typed((isReverse ? done.flip(axis) : done).cast(type.dtype), type);
  };
}

/** One element later: the first is `start`, the last falls out. */
function shifted(x: Tensor, axis: number, start: number): Tensor {
  const at = fromFront(axis, x.ndim), n = x.shape[at]!;
  const widths = x.shape.map((_, k): [number, number] => [k === at ? 1 : 0, 0]);
  return x.pad(widths, start).slice(...x.shape.map((_, k) => k === at ? [0, n] as const : null));
}

function hardmax(x: Tensor, axis: number): Tensor {
  const n = x.shape.at(axis)!, at = fromFront(axis, x.ndim);
  return x.argmax(at).oneHot(n).cast(x.dtype).permute(moved(x.ndim, at));
}

/** The order that brings a new last axis to a place. */
function moved(ndim: number, to: number): number[] {
  const order = Array.from({ length: ndim - 1 }, (_, k) => k);
  order.splice(to, 0, ndim - 1);
  return order;
}

/** Reductions and the like, by their kinds. */
export const reductions: Operators = {
  ReduceSum: reduce(sum),
  ReduceMean: reduce((x, axes, keepDims) => x.mean(axes, { keepDims })),
  ReduceProd: reduce((x, axes, keepDims) => x.prod(axes, { keepDims })),
  ReduceMax: reduce(extreme("max")),
  ReduceMin: reduce(extreme("min")),
  ReduceL1: reduce((x, ...rest) => sum(x.abs(), ...rest), (x) => x.abs()),
  ReduceL2: reduce((x, ...rest) => sum(x.square(), ...rest).sqrt(), (x) => x.abs()),
  ReduceSumSquare: reduce((x, ...rest) => sum(x.square(), ...rest), (x) => x.square()),
  ReduceLogSum: reduce((x, ...rest) => sum(x, ...rest).log(), (x) => x.log()),
  ReduceLogSumExp: reduce((x, axes, keepDims) =>
    x.size === 0 ? sum(x.exp(), axes, keepDims).log() : x.logSumExp(axes, { keepDims })
  ),
  ArgMax: extremePlace("argmax"),
  ArgMin: extremePlace("argmin"),
  Softmax: alongAxis((x, axis) => x.softmax(axis)),
  LogSoftmax: alongAxis((x, axis) => x.logSoftmax(axis)),
  Hardmax: alongAxis(hardmax),
  CumSum: running((x, axis) => x.cumsum(axis), 0),
  CumProd: running((x, axis) => x.cumprod(axis), 1),
  TopK: (call: Call) => {
    const k = call.opset < 10 ? call.int("k", 1) : call.number(1, 1);
    const axis = call.int("axis", -1), isLargest = call.int("largest", 1) === 1;
    const { type } = call.value(0);
    const { values, indices } = call.tensor(0).topk(k, axis, { largest: isLargest });
    return [typed(values, type), place(indices)];
  },
  NonZero: (call) => {
    // How many there are is read.
    reads.count++;
    const x = call.tensor(0), found = (isFloat(x.dtype) ? x.ne(0) : x).nonzeroSync();
    return castTo(
      typed(found.transpose(), found.dtype === "int64" ? "int64" : "int32"),
      typeNamed("int64"),
    );
  },
};
