/**
 * Attention of some queries to all keys as a small graph of ordinary operations: products, a softmax, masks.
 * It is planned as any other graph, so the fastest kernels of the backend compute it.
 */
import type { DType } from "../../graph/dtype.ts";
import { Node } from "../../graph/node.ts";
import type { Op, ReduceFn } from "../../graph/op.ts";
import type { PrimitiveName } from "../../graph/primitives.ts";
import type { Shape } from "../../graph/shape.ts";
import type { AttentionKernel, HeadMatrix } from "../../kernel/attention.ts";
import { type Schedule, schedule } from "../../schedule/schedule.ts";

/** Unit of computation: all heads with all queries, or some queries of one head. */
export interface Tile {
  /** Leading axes: those of the kernel, or none. */
  readonly lead: readonly number[];
  /** The head, where it is one. */
  readonly head: number;
  /** The first query, and how many there are. */
  readonly row: number;
  readonly rows: number;
  /** True when gradients of keys and values begin here; else they are added to earlier tiles'. */
  readonly isFirst: boolean;
}

/** A matrix that a tile reads or writes, by its name. */
export type Operand =
  | "query"
  | "key"
  | "value"
  | "mask"
  | "gradient"
  | "logSums"
  | "products"
  | "keyBefore"
  | "valueBefore";

/** Plan of a tile's computation. */
export interface TilePlan {
  readonly plan: Schedule;
  /** Operands behind the plan's buffers, by their number. */
  readonly operands: ReadonlyMap<number, Operand>;
  /** The buffer of each result that is stored, by the number of the call's output. */
  readonly results: ReadonlyMap<number, number>;
}

/** Makes nodes. */
class Graph {
  readonly operands = new Map<Operand, Node>();

  node(op: Op, inputs: readonly Node[], shape: Shape, dtype: DType): Node {
    return new Node(op, inputs, shape, dtype);
  }

  /** A value in memory, as a number of single precision. */
  operand(name: Operand, shape: Shape, dtype: DType): Node {
    const stored = this.node({ kind: "data", bytes: new Uint8Array(0) }, [], shape, dtype);
    this.operands.set(name, stored);
    return dtype === "bool" ? stored : this.cast(stored, "float32");
  }

  cast(x: Node, dtype: DType): Node {
    return x.dtype === dtype ? x : this.node({ kind: "cast" }, [x], x.shape, dtype);
  }

  constant(value: number): Node {
    return this.node({ kind: "constant", value }, [], [], "float32");
  }

  /** An elementwise function; the first operand that is no constant has the shape of the result. */
  apply(fn: PrimitiveName, shape: Shape, inputs: readonly Node[], dtype: DType = "float32"): Node {
    return this.node({ kind: "elementwise", fn }, inputs, shape, dtype);
  }

  reduce(fn: ReduceFn, x: Node): Node {
    const shape = x.shape.slice(0, -1);
    const reduced = this.node(
      { kind: "reduce", fn, axes: [shape.length] },
      [x],
      shape,
      x.dtype,
    );
    return this.reshape(reduced, [...shape, 1]);
  }

  reshape(x: Node, shape: Shape): Node {
    return this.node({ kind: "reshape" }, [x], shape, x.dtype);
  }

  transpose(x: Node): Node {
    const rank = x.shape.length;
    const axes = [...x.shape.keys()].slice(0, -2).concat(rank - 1, rank - 2);
    return this.node({ kind: "permute", axes }, [x], axes.map((k) => x.shape[k]!), x.dtype);
  }

  /** The products of the matrices of two batches. */
  matmul(a: Node, b: Node): Node {
    const shape = [...a.shape.slice(0, -1), b.shape.at(-1)!];
    const op: Op = { kind: "contract", batch: shape.length - 2, m: 1, n: 1 };
    return this.node(op, [a, b], shape, "float32");
  }
}

/** Plans a tile. */
export function planTile(kernel: AttentionKernel, tile: Tile): TilePlan {
  const graph = new Graph();
  const made = kernel.backward ? backward(graph, kernel, tile) : forward(graph, kernel, tile);
  const plan = schedule(kernel.stored.map((output) => made[output]!));
  const operands = new Map<number, Operand>();
  for (const [name, node] of graph.operands) {
    if (plan.order[node.position] === node) operands.set(node.position, name);
  }
  const results = new Map(kernel.stored.map((output, k) => [output, plan.results[k]!.at]));
  return { plan, operands, results };
}

/** The shape of a matrix of each head, of which `rows` are in the tile. */
function shapeOf({ lead }: Tile, rows: number, columns: number): Shape {
  return [...lead, rows, columns];
}

/** Scores with -Infinity where a query may not look. */
function scoresOf(graph: Graph, kernel: AttentionKernel, tile: Tile, query: Node, key: Node): Node {
  const { keys, mask, isCausal, scale } = kernel;
  const shape = shapeOf(tile, tile.rows, keys);
  const never = graph.constant(-Infinity);
  const products = graph.matmul(query, graph.transpose(key));
  let scores = graph.apply("mul", shape, [products, graph.constant(scale)]);
  if (mask) {
    const held = graph.operand("mask", maskShape(kernel, tile, mask.at), mask.at.dtype);
    scores = mask.kind === "bool"
      ? graph.apply("where", shape, [held, scores, never])
      : graph.apply("add", shape, [scores, held]);
  }
  if (!isCausal) return scores;
  const columns = graph.node({ kind: "iota" }, [], [keys], "float32");
  const rows = graph.node({ kind: "iota" }, [], [tile.rows, 1], "float32");
  const places = graph.apply("add", [tile.rows, 1], [rows, graph.constant(tile.row)]);
  const isOpen = graph.apply("le", [tile.rows, keys], [columns, places], "bool");
  return graph.apply("where", shape, [isOpen, scores, never]);
}

/** A mask's shape in a tile: 1 where it is the same along an axis. */
function maskShape({ keys }: AttentionKernel, tile: Tile, at: HeadMatrix): Shape {
  const lead = tile.lead.map((n, k) => at.lead[k] === 0 ? 1 : n);
  return [...lead, at.row === 0 ? 1 : tile.rows, at.column === 0 ? 1 : keys];
}

/** Weights after dropout; `weights` themselves where there is none. */
function kept(graph: Graph, kernel: AttentionKernel, tile: Tile, weights: Node): Node {
  const { dropout, queries, keys } = kernel;
  if (!dropout) return weights;
  const { probability, seed, stream } = dropout;
  const heads = kernel.lead.reduce((a, b) => a * b, 1);
  const { shape } = weights;
  const all = graph.node(
    { kind: "random", seed, stream },
    [],
    [heads, queries, keys],
    "float32",
  );
  const own: Shape = tile.lead.length > 0 ? all.shape : [1, tile.rows, keys];
  const starts = tile.lead.length > 0 ? [0, 0, 0] : [tile.head, tile.row, 0];
  const cut = graph.node({ kind: "slice", starts, steps: [1, 1, 1] }, [all], own, "float32");
  const isKept = graph.apply(
    "ge",
    shape,
    [graph.reshape(cut, shape), graph.constant(Math.fround(probability))],
    "bool",
  );
  const scaled = graph.apply("mul", shape, [weights, graph.constant(1 / (1 - probability))]);
  return graph.apply("where", shape, [isKept, scaled, graph.constant(0)]);
}

function operandsOf(graph: Graph, kernel: AttentionKernel, tile: Tile): [Node, Node, Node] {
  const { query, key, value, keys, features, valueFeatures } = kernel;
  return [
    graph.operand("query", shapeOf(tile, tile.rows, features), query.dtype),
    graph.operand("key", shapeOf(tile, keys, features), key.dtype),
    graph.operand("value", shapeOf(tile, keys, valueFeatures), value.dtype),
  ];
}

function forward(graph: Graph, kernel: AttentionKernel, tile: Tile): Node[] {
  const [query, key, value] = operandsOf(graph, kernel, tile);
  const scores = scoresOf(graph, kernel, tile, query, key);
  const { shape } = scores, row = [...shape.slice(0, -1), 1];
  const largest = graph.reduce("max", scores);
  const isDead = graph.apply("eq", row, [largest, graph.constant(-Infinity)], "bool");
  const finite = graph.apply("where", row, [isDead, graph.constant(0), largest]);
  const exponentials = graph.apply("exp", shape, [graph.apply("sub", shape, [scores, finite])]);
  const sum = graph.reduce("sum", exponentials);
  const divisor = graph.apply("where", row, [isDead, graph.constant(1), sum]);
  const logSums = graph.apply("where", row, [
    isDead,
    graph.constant(Infinity),
    graph.apply("add", row, [largest, graph.apply("log", row, [sum])]),
  ]);
  const weights = kept(graph, kernel, tile, graph.apply("div", shape, [exponentials, divisor]));
  const output = graph.matmul(weights, value);
  const inType = (number: number): Node => graph.cast(output, storedType(kernel, number));
  return [inType(0), logSums, inType(2)];
}

function backward(graph: Graph, kernel: AttentionKernel, tile: Tile): Node[] {
  const { keys, features, valueFeatures, scale } = kernel;
  const [query, key, value] = operandsOf(graph, kernel, tile);
  const { gradient, logSums, products } = kernel.backward!;
  const g = graph.operand("gradient", shapeOf(tile, tile.rows, valueFeatures), gradient.dtype);
  const sums = graph.operand("logSums", shapeOf(tile, tile.rows, 1), logSums.dtype);
  const product = graph.operand("products", shapeOf(tile, tile.rows, 1), products.dtype);
  const scores = scoresOf(graph, kernel, tile, query, key);
  const { shape } = scores;
  const weights = graph.apply("exp", shape, [graph.apply("sub", shape, [scores, sums])]);
  const used = kept(graph, kernel, tile, weights);
  const ofWeights = kept(graph, kernel, tile, graph.matmul(g, graph.transpose(value)));
  const apart = graph.apply("sub", shape, [ofWeights, product]);
  const ofScores = graph.apply("mul", shape, [
    graph.apply("mul", shape, [weights, apart]),
    graph.constant(scale),
  ]);
  const summed = (name: "keyBefore" | "valueBefore", columns: number, added: Node): Node => {
    if (tile.isFirst) return added;
    const before = graph.operand(name, shapeOf(tile, keys, columns), "float32");
    return graph.apply("add", before.shape, [before, added]);
  };
  return [
    graph.cast(graph.matmul(ofScores, key), storedType(kernel, 0)),
    summed("keyBefore", features, graph.matmul(graph.transpose(ofScores), query)),
    summed("valueBefore", valueFeatures, graph.matmul(graph.transpose(used), g)),
  ];
}

/** The type of one of the call's outputs; that of the queries where nobody reads it. */
function storedType({ stored, outputs, query }: AttentionKernel, output: number): DType {
  return outputs[stored.indexOf(output)]?.dtype ?? query.dtype;
}
