/** The form of recurrent layers in ONNX: one direction of one layer is a node. */
import type { DirectionInputs } from "../../../nn/recurrent/recurrent.ts";
import type { GraphWriter } from "./graph_writer.ts";
import type { Used } from "./recording.ts";
import { type Attributes, type Row, shapesOfResult, typeOfResult } from "./row.ts";

interface Kind {
  readonly node: string;
  /** Blocks of rows of the weights in the order of ONNX. */
  readonly order: readonly number[];
  readonly attributes?: Attributes;
}

const kinds: Readonly<Record<DirectionInputs["kind"], Kind>> = {
  // Here input, forget, cell, output; there input, output, forget, cell.
  lstm: { node: "LSTM", order: [0, 3, 1, 2] },
  // Here reset, update, new; there update, reset, new.
  gru: { node: "GRU", order: [1, 0, 2], attributes: { linear_before_reset: 1 } },
  tanh: { node: "RNN", order: [0], attributes: { activations: ["Tanh"] } },
  relu: { node: "RNN", order: [0], attributes: { activations: ["Relu"] } },
};

/** Weights in the order of ONNX. */
function reordered(graph: GraphWriter, name: string, order: readonly number[]): string {
  if (order.length === 1) return name;
  const parts = graph.node("Split", [name], { axis: 0 }, order.length);
  return graph.emit("Concat", order.map((k) => parts[k]!), { axis: 0 });
}

/** A direction over all steps: gives the states after each, (states, T, N, H). */
const direction: Row = (w) => {
  const { graph } = w, dtype = typeOfResult(w);
  const given = w.call.args[0] as Record<string, Used>;
  const { kind, reverse } = w.call.args[0] as Pick<DirectionInputs, "kind" | "reverse">;
  const { node, order, attributes = {} } = kinds[kind];
  const names = (key: string) => graph.operand(given[key], dtype);
  const lead = (name: string) => graph.emit("Unsqueeze", [name, graph.ints([0])]);
  const weights = ["weightIh", "weightHh"].map((key) => lead(reordered(graph, names(key), order)));
  const biases = given.biasIh
    ? ["biasIh", "biasHh"].map((key) => reordered(graph, names(key), order))
    : null;
  const bias = biases ? lead(graph.emit("Concat", biases, { axis: 0 })) : "";
  const first = (given.state as unknown as Used[]).map((state) =>
    lead(graph.operand(state, dtype))
  );
  const [steps, , cell] = graph.node(
    node,
    [names("x"), ...weights, bias, "", ...first],
    {
      hidden_size: given.weightHh!.tensor.shape[1]!,
      direction: reverse ? "reverse" : "forward",
      ...attributes,
    },
    1 + first.length,
  );
  // (T, 1, N, H)
  const outputs = graph.emit("Transpose", [steps!], { perm: [1, 0, 2, 3] });
  if (cell === undefined) return outputs;
  // The layer reads c after the last step only: no node gives the others.
  const [one, other] = shapesOfResult(w), of = (shape: readonly number[]) => [1, ...shape.slice(1)];
  const last = graph.emit("Unsqueeze", [cell, graph.ints([1])]);
  const cells = graph.emit("Expand", [last, graph.shape(of(one), of(other), false)]);
  return graph.emit("Concat", [outputs, cells], { axis: 0 });
};

/** Recurrent layers, by the operations that they are. */
export const recurrentRows: Readonly<Record<string, Row>> = { directionStates: direction };
