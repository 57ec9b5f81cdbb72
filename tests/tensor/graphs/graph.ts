/** Random graphs: how they are made, and what their values and gradients are in each way to compute. */
import fc from "fast-check";
import type { Backend } from "../../../backend/execution/backend.ts";
import { type DType, dtypes, isFloat } from "../../../backend/graph/dtype.ts";
import { realize } from "../../../backend/execution/realize.ts";
import { DTypeError, grad, manualSeed, Tensor } from "../../../mod.ts";
import type { Node } from "../../../backend/mod.ts";
import { bytesOn } from "../../backend/evaluate.ts";
import { begin, type Operation, operations } from "./operations.ts";
import { planned } from "./planned_operations.ts";
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
  readonly dtype: DType;
  readonly steps: readonly Step[];
  /** First derivatives, or derivatives of their squares. */
  readonly derivatives: 1 | 2;
}

/** The shapes of leaves. */
const shapes = {
  small: fc.array(fc.constantFrom(1, 2, 3, 4, 5, 5, 0), { maxLength: 3 }),
  /** Long enough for vectors with a rest, tiles with a rest, reductions in parts. */
  large: fc.tuple(fc.constantFrom(1, 3, 16, 33, 70), fc.constantFrom(1, 7, 32, 65, 129)),
  /** Beyond what a test could compute: tiles and groups of every kind. */
  huge: fc.tuple(fc.constantFrom(1, 3), fc.constantFrom(64, 130, 192), fc.constantFrom(64, 96, 256))
    .map(([heads, ...rest]) => heads === 1 ? rest : [heads, ...rest]),
  "any rank": fc.array(fc.constantFrom(1, 2, 3, 4, 5, 8, 17, 64), { maxLength: 5 }),
} satisfies Record<string, fc.Arbitrary<number[]>>;

const elements: Readonly<Record<keyof typeof shapes, number>> = {
  small: 400,
  large: 10_000,
  huge: 300_000,
  "any rank": 3000,
};

const everyOperation = { ...operations, ...planned };
/** All that do arithmetic. */
const leafTypes = (Object.keys(dtypes) as DType[]).filter((dtype) => dtype !== "bool");
const number = fc.integer({ min: 0, max: 99 });

/** The graphs that are wanted. */
export interface GraphOptions {
  /** The shapes of leaves; default "small". */
  readonly sizes?: keyof typeof shapes;
  /** Leaves and steps of all element types; else what can be compared number by number. */
  readonly isOfAllTypes?: boolean;
}

/** Graphs of up to `size` steps. */
export function graphs(
  size: number,
  { sizes = "small", isOfAllTypes = false }: GraphOptions = {},
): fc.Arbitrary<Graph> {
  const step: fc.Arbitrary<Step> = fc.record({
    op: fc.constantFrom(...Object.keys(isOfAllTypes ? everyOperation : operations)),
    of: fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 })),
    numbers: fc.tuple(number, number, number),
  });
  return fc.record({
    shapes: fc.array(shapes[sizes] as fc.Arbitrary<number[]>, { minLength: 1, maxLength: 3 }),
    most: fc.constant(elements[sizes]),
    dtype: isOfAllTypes
      ? fc.constantFrom(...leafTypes)
      : fc.constantFrom<DType>("float64", "float64", "float64", "float32"),
    steps: fc.array(step, { minLength: 1, maxLength: size, size: "max" }),
    derivatives: fc.constantFrom(1, 1, 1, 2),
  });
}

function leafOf(shape: readonly number[], k: number, dtype: DType): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  // Multiples of 1/32: sums and products of few of them are exact.
  const values = Float64Array.from({ length: size }, (_, i) => ((i * 37 + k * 11) % 97 - 48) / 32);
  const leaf = Tensor.fromHost(values, { shape }).cast(dtype).realize();
  leaf.requiresGrad = isFloat(dtype);
  return leaf;
}

/** The inputs of a graph; other numbers in each round. */
export function leavesOf(graph: Graph, round = 0): Tensor[] {
  return graph.shapes.map((shape, k) => leafOf(shape, k + 3 * round, graph.dtype));
}

/** Takes a step; with floats of one type where the operation takes no others. */
function apply(operation: Operation, a: Tensor, b: Tensor, numbers: Step["numbers"]): Tensor {
  try {
    return operation(a, b, numbers);
  } catch (error) {
    if (!(error instanceof DTypeError)) throw error;
    const dtype = [a, b].find((t) => isFloat(t.dtype))?.dtype ?? "float32";
    return operation(a.cast(dtype), b.cast(dtype), numbers);
  }
}

/** Results to look at: the values, the loss, and its derivatives. */
export function follow(graph: Graph, leaves: readonly Tensor[]): Tensor[] {
  begin(graph.most);
  const values = [...leaves];
  for (const { op, of: [i, j], numbers } of graph.steps) {
    const at = (back: number): Tensor => values[values.length - 1 - back % values.length]!;
    values.push(apply(everyOperation[op]!, at(i), at(j), numbers));
  }
  const made = values.slice(leaves.length);
  const loss = made.map((t) => t.cast("float64").sin().sum()).reduce((a, b) => a.add(b));
  if (!loss.requiresGrad || !isFloat(graph.dtype)) return [...made, loss];
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
