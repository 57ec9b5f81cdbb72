/** Random graphs: how they are made, and what their values and gradients are in each way to compute. */
import fc from "fast-check";
import type { Backend } from "../../../backend/execution/backend.ts";
import { dtypes } from "../../../backend/graph/dtype.ts";
import { realize } from "../../../backend/execution/realize.ts";
import { grad, manualSeed, type Node, Tensor } from "../../../mod.ts";
import { bytesOn } from "../../backend/evaluate.ts";
import { begin, operations } from "./operations.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";

/** One step of a graph: which tensors that are there already it takes, counted from the last. */
export interface Step {
  readonly op: string;
  readonly of: readonly [number, number];
  readonly numbers: readonly [number, number, number];
}

/** A graph on paper. */
export interface Graph {
  readonly shapes: readonly (readonly number[])[];
  /** More elements than this are summed up. */
  readonly most: number;
  readonly dtype: "float64" | "float32";
  readonly steps: readonly Step[];
  /** First derivatives, or derivatives of their squares. */
  readonly derivatives: 1 | 2;
}

const smallShape = fc.array(fc.constantFrom(1, 2, 3, 4, 5, 5, 0), { maxLength: 3 });
/** Long enough for vectors with a rest, tiles with a rest, reductions in parts. */
const largeShape = fc.tuple(fc.constantFrom(1, 3, 16, 33, 70), fc.constantFrom(1, 7, 32, 65, 129));
const number = fc.integer({ min: 0, max: 99 });
const step: fc.Arbitrary<Step> = fc.record({
  op: fc.constantFrom(...Object.keys(operations)),
  of: fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 })),
  numbers: fc.tuple(number, number, number),
});

/** Graphs of up to `size` steps, of small tensors or of larger ones. */
export function graphs(size: number, isLarge = false): fc.Arbitrary<Graph> {
  const shape = isLarge ? largeShape : smallShape;
  return fc.record({
    shapes: fc.array(shape as fc.Arbitrary<number[]>, { minLength: 1, maxLength: 3 }),
    most: fc.constant(isLarge ? 10_000 : 400),
    dtype: fc.constantFrom("float64", "float64", "float64", "float32"),
    steps: fc.array(step, { minLength: 1, maxLength: size, size: "max" }),
    derivatives: fc.constantFrom(1, 1, 1, 2),
  });
}

function leafOf(shape: readonly number[], k: number, dtype: Graph["dtype"]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  // Multiples of 1/32: sums and products of few of them are exact.
  const values = Float64Array.from({ length: size }, (_, i) => ((i * 37 + k * 11) % 97 - 48) / 32);
  const leaf = Tensor.fromHost(values, { shape }).cast(dtype).realize();
  leaf.requiresGrad = true;
  return leaf;
}

/** What a graph starts from; other numbers in each round. */
export function leavesOf(graph: Graph, round = 0): Tensor[] {
  return graph.shapes.map((shape, k) => leafOf(shape, k + 3 * round, graph.dtype));
}

/** What can be looked at: the values, the loss, and its derivatives. */
export function follow(graph: Graph, leaves: readonly Tensor[]): Tensor[] {
  begin(graph.most);
  const values = [...leaves];
  for (const { op, of: [i, j], numbers } of graph.steps) {
    const at = (back: number): Tensor => values[values.length - 1 - back % values.length]!;
    values.push(operations[op]!(at(i), at(j), numbers));
  }
  const made = values.slice(leaves.length);
  const loss = made.map((t) => t.cast("float64").sin().sum()).reduce((a, b) => a.add(b));
  if (!loss.requiresGrad) return [...made, loss];
  if (graph.derivatives === 1) {
    for (const leaf of leaves) leaf.grad = null;
    loss.backward();
    return [...made, loss, ...leaves.flatMap((leaf) => leaf.grad ? [leaf.grad] : [])];
  }
  const first = grad([loss], leaves, { createGraph: true });
  const squares = first.map((g) => g.cast("float64").square().sum()).reduce((a, b) => a.add(b));
  return [...made, loss, ...first, ...(squares.requiresGrad ? grad([squares], leaves) : [])];
}

/** The tensors of a graph, not computed yet. */
export function build(graph: Graph): Tensor[] {
  manualSeed(17);
  return follow(graph, leavesOf(graph));
}

/** The numbers of a tensor. */
export type Numbers = readonly number[];

function read(backend: Backend, tensor: Tensor): Numbers {
  if (tensor.size === 0) return [];
  const { buffer } = bytesOn(backend, nodeOf(tensor));
  return [...dtypes[tensor.dtype].view(buffer, 0, tensor.size) as Iterable<number | bigint>].map(
    Number,
  );
}

/** Reads each tensor; afterwards nobody needs them: schedules to come need not ask whether they do. */
function readAll(backend: Backend, tensors: readonly Tensor[]): Numbers[] {
  const numbers = tensors.map((t) => read(backend, t));
  for (const t of tensors) t.dispose();
  return numbers;
}

/** Computed in one schedule. */
export function together(backend: Backend, tensors: readonly Tensor[]): Numbers[] {
  realize(backend, tensors.map((t) => nodeOf(t)));
  return readAll(backend, tensors);
}

/** Each value computed when it is read, which forgets what is on the way. */
export function oneByOne(backend: Backend, tensors: readonly Tensor[]): Numbers[] {
  return readAll(backend, tensors);
}

/** Every operation computed by itself, as NETCL_EAGER does: nothing is fused. */
export function apart(backend: Backend, tensors: readonly Tensor[]): Numbers[] {
  for (const node of nodesBelow(tensors)) {
    if (!node.storage && node.op.kind !== "data") realize(backend, [node]);
  }
  return readAll(backend, tensors);
}

function nodesBelow(tensors: readonly Tensor[]): Node[] {
  const seen = new Set(tensors.map((t) => nodeOf(t)));
  for (const node of seen) for (const input of node.inputs) seen.add(input);
  return [...seen].sort((a, b) => a.id - b.id);
}

/** The first number that differs by more than rounding explains, or null. */
export function difference(
  found: readonly Numbers[],
  wanted: readonly Numbers[],
  graph: Graph,
): string | null {
  const single = graph.dtype === "float32" || graph.steps.some(({ op }) => op === "single");
  const tolerance = single ? 1e-3 : 1e-8;
  for (const [k, numbers] of wanted.entries()) {
    const scale = numbers.reduce((a, b) => Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a, 1);
    for (const [i, number] of numbers.entries()) {
      const other = found[k]![i]!;
      if (Object.is(other, number) || Math.abs(other - number) <= tolerance * scale) continue;
      if (other === number) continue;
      return `tensor ${k} of ${wanted.length} is ${other} instead of ${number} at ${i}`;
    }
  }
  return null;
}
