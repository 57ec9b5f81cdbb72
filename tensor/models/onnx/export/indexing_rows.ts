/** The forms of operations by indices: what is gathered, stored, put in order. */
import { fromFront } from "../core/places.ts";
import type { Used } from "./recording.ts";
import { input, type Row, typeOfResult, type Written } from "./row.ts";

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

/** Values that are stored at places along an axis, or added to what is there. */
function scattered(reduction: "none" | "add", isOneList = false): Row {
  return (w) => {
    const [x, given, at, values] = w.call.args as [Used, number, Used, Used];
    const dtype = typeOfResult(w), axis = fromFront(given, x.tensor.ndim);
    let places = w.graph.operand(at, "int64");
    if (isOneList) {
      const lined = w.graph.ints(x.tensor.shape.map((_, k) => k === axis ? -1 : 1));
      const wanted = [w.call, w.other].map(({ args }) => (args[3] as Used).tensor.shape);
      const shape = w.graph.shape(wanted[0]!, wanted[1]!, false);
      places = w.graph.emit("Expand", [w.graph.emit("Reshape", [places, lined]), shape]);
    }
    const inputs = [w.graph.operand(x, dtype), places, w.graph.operand(values, dtype)];
    return w.graph.emit("ScatterElements", inputs, { axis, reduction });
  };
}

function gathered(axisAt: number, indicesAt: number): Row {
  return (w) => {
    const axis = axisAt < 0 ? 0 : w.call.args[axisAt] as number;
    const indices = w.graph.operand(w.call.args[indicesAt], "int64");
    return w.graph.emit("Gather", [w.graph.name(input(w)), indices], { axis });
  };
}

const oneHot: Row = (w) => {
  const depth = w.graph.ints([w.call.args[1] as number], []), dtype = typeOfResult(w);
  const values = w.graph.constant({ data: Float32Array.of(0, 1), shape: [2], dtype: "float32" });
  const places = w.graph.operand(input(w), "int64");
  return w.graph.cast(w.graph.emit("OneHot", [places, depth, values], { axis: -1 }), dtype);
};

/** Operations by indices, by their names. */
export const indexingRows: Readonly<Record<string, Row>> = {
  sort: sorted,
  argsort: (w) => sorted(w)[1]!,
  topk,
  oneHot,
  scatter: scattered("none"),
  scatterAdd: scattered("add"),
  indexAdd: scattered("add", true),
  embedding: gathered(-1, 1),
  indexSelect: gathered(1, 2),
  gather: (w) => {
    const axis = w.call.args[1] as number, indices = w.graph.operand(w.call.args[2], "int64");
    return w.graph.emit("GatherElements", [w.graph.name(input(w)), indices], { axis });
  },
};
