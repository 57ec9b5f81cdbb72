/**
 * Rules by which the expression of one sample becomes that of all samples of a batch, an axis in front.
 * What does not depend on the sample stays as it is, computed once.
 *
 * This folder (`func/`) has transforms of functions of tensors. It imports `core/`, `autograd/`,
 * `nn/module/`, a few of `ops/`, and nodes of `backend/`.
 */
import {
  type AttentionCall,
  type CustomCall,
  Node,
  type Op,
  type Shape,
} from "../../backend/internal.ts";

/** An operation that has no rule here: its function is called sample by sample. */
export class NoBatchingRule extends Error {
  constructor(readonly op: string) {
    super(`${op} has no batching rule`);
  }
}

/** Nodes of a sample, with those of all samples. */
export type Lifted = Map<Node, Node>;

/** Nodes below others that are yet to be computed, and depend on one of `leaves`; inputs before their users. */
export function dependents(roots: readonly Node[], leaves: { has(node: Node): boolean }): Node[] {
  const found = new Set(roots);
  for (const node of found) {
    if (node.storage === null) { for (const input of node.inputs) found.add(input); }
  }
  const depends = new Set<Node>();
  const depend = (node: Node): boolean => leaves.has(node) || depends.has(node);
  return [...found].sort((a, b) => a.id - b.id).filter((node) => {
    const does = leaves.has(node) || node.storage === null && node.inputs.some(depend);
    if (does) depends.add(node);
    return does;
  });
}

/**
 * The nodes of all samples for those of one, which are added to `lifted`.
 *
 * @param roots What a sample gives.
 * @param lifted What is known; it has the leaves.
 * @param size The number of samples.
 * @throws {NoBatchingRule} Where one depends on the sample and has no rule.
 */
export function liftNodes(roots: readonly Node[], lifted: Lifted, size: number): Node[] {
  for (const node of dependents(roots, lifted)) {
    if (!lifted.has(node)) lifted.set(node, lift(node, lifted, size));
  }
  return roots.map((root) => lifted.get(root) ?? repeated(root, size));
}

/**
 * Adds random numbers of each sample to `lifted`, for those that one draws.
 *
 * @param first The id of the first node that the function made.
 */
export function liftRandom(
  roots: readonly Node[],
  first: number,
  size: number,
  lifted: Lifted,
): void {
  const found = new Set(roots);
  for (const node of found) {
    if (node.id < first) continue;
    const { op, inputs, shape, dtype } = node;
    if (op.kind === "random" && !lifted.has(node)) {
      lifted.set(node, new Node(op, [], [size, ...shape], dtype));
    }
    for (const input of inputs) found.add(input);
  }
}

/** A call of a kernel, for all samples. */
interface LiftedCall {
  readonly op: (output: number) => Op;
  readonly outputs: readonly { readonly shape: Shape }[];
  readonly inputs: readonly Node[];
}

/** Calls that gave several nodes: what is made of these shares a call, and its inputs. */
const calls = new WeakMap<object, LiftedCall>();

/** Kernels that treat leading axes alike: attention, and those of matrices. */
function liftCall(
  { inputs, dtype }: Node,
  op: Op & { kind: "custom" | "attention" },
  lifted: Lifted,
  size: number,
): Node {
  let all = calls.get(op.call);
  // Within another trace the call has other inputs.
  const isKnown = all?.inputs.every((input, k) => {
    return (lifted.get(inputs[k]!) ?? input) === input && all!.outputs[0]!.shape[0] === size;
  });
  if (!isKnown) {
    all = op.kind === "custom"
      ? callOfMatrices(op.call, inputs, lifted, size)
      : callOfAttention(op.call, inputs, lifted, size);
    calls.set(op.call, all);
  }
  return new Node(all!.op(op.output), all!.inputs, all!.outputs[op.output]!.shape, dtype);
}

function withSamples<O extends { readonly shape: Shape }>(
  outputs: readonly O[],
  size: number,
): O[] {
  return outputs.map((output) => ({ ...output, shape: [size, ...output.shape] }));
}

function callOfMatrices(
  call: CustomCall,
  inputs: readonly Node[],
  lifted: Lifted,
  size: number,
): LiftedCall {
  const { batched } = call.kernel;
  if (batched === null || inputs.some((input, k) => !batched[k] && lifted.has(input))) {
    throw new NoBatchingRule(`the kernel ${call.kernel.name}`);
  }
  const [groups, ...rest] = call.global;
  const outputs = withSamples(call.outputs, size);
  const all = { ...call, outputs, global: [groups! * size, ...rest] };
  return {
    op: (output) => ({ kind: "custom", call: all, output }),
    outputs,
    inputs: inputs.map((x, k) => batched[k] ? lifted.get(x) ?? repeated(x, size) : x),
  };
}

function callOfAttention(
  call: AttentionCall,
  inputs: readonly Node[],
  lifted: Lifted,
  size: number,
): LiftedCall {
  // All samples get the same random numbers, which here depend on the place of a weight among all.
  if (call.dropout !== null) throw new NoBatchingRule("attention with dropout");
  const outputs = withSamples(call.outputs, size), all = { ...call, outputs };
  return {
    op: (output) => ({ kind: "attention", call: all, output }),
    outputs,
    inputs: inputs.map((input) => lifted.get(input) ?? repeated(input, size)),
  };
}

/** The axis of sequences in the inputs of a recurrence, null for weights, and in its result. */
const sequences = {
  forward: { inputs: [1, null, 1, null], output: 2 },
  backward: { inputs: [2, 2, null], output: 1 },
} as const;

/** Recurrences run many sequences side by side: those of all samples are more of them. */
function liftRecurrence(
  { inputs, shape, dtype }: Node,
  op: Op & { kind: "recurrence" },
  lifted: Lifted,
  size: number,
): Node {
  const { inputs: axes, output } = sequences[op.pass];
  const operands = inputs.map((input, k) => {
    const axis = axes[k] ?? null, many = lifted.get(input);
    if (axis === null) {
      if (many) throw new NoBatchingRule("a recurrence with weights of each sample");
      return input;
    }
    const behind = moved(many ?? repeated(input, size), 0, axis), { shape } = input;
    return view({ kind: "reshape" }, behind, shape.with(axis, size * shape[axis]!));
  });
  const count = shape[output]!;
  const all = new Node(op, operands, shape.with(output, size * count), dtype);
  const apart = view({ kind: "reshape" }, all, shape.toSpliced(output, 0, size));
  return moved(apart, output, 0);
}

function view(op: Op, node: Node, shape: Shape): Node {
  return new Node(op, [node], shape, node.dtype);
}

/** The same value for each sample. */
function repeated(node: Node, size: number): Node {
  const lead = view({ kind: "reshape" }, node, [1, ...node.shape]);
  return view({ kind: "expand" }, lead, [size, ...node.shape]);
}

/** Axes of length 1 behind the first, so that the others meet those of a result of this rank. */
function aligned(node: Node, rank: number): Node {
  const missing = rank + 1 - node.shape.length;
  if (missing === 0) return node;
  const [size, ...shape] = node.shape;
  return view({ kind: "reshape" }, node, [size!, ...new Array(missing).fill(1), ...shape]);
}

/** The node with an axis at another place: that of the samples behind others, or back. */
function moved(node: Node, from: number, to: number): Node {
  if (from === to) return node;
  const axes = node.shape.map((_, axis) => axis);
  axes.splice(to, 0, ...axes.splice(from, 1));
  return view({ kind: "permute", axes }, node, axes.map((axis) => node.shape[axis]!));
}

function lift(node: Node, lifted: Lifted, size: number): Node {
  const { op, inputs, shape, dtype } = node;
  const all = [size, ...shape];
  if (op.kind === "contract") return liftProduct(node, op, lifted, size);
  if (op.kind === "recurrence") return liftRecurrence(node, op, lifted, size);
  if (op.kind === "custom" || op.kind === "attention") return liftCall(node, op, lifted, size);
  const next = shifted(op);
  if (op.kind === "elementwise" || op.kind === "expand") {
    const operands = inputs.map((input) => {
      const many = lifted.get(input);
      return many ? aligned(many, shape.length) : input;
    });
    return new Node(next, operands, all, dtype);
  }
  const operands = inputs.map((input) => lifted.get(input) ?? repeated(input, size));
  return new Node(next, operands, all, dtype);
}

/** The operation with the axis of the samples in front. */
function shifted(op: Op): Op {
  const behind = (axes: readonly number[]) => axes.map((axis) => axis + 1);
  switch (op.kind) {
    // They broadcast, or work along the last axes.
    case "elementwise":
    case "cast":
    case "copy":
    case "reshape":
    case "expand":
    case "im2col":
    case "scan":
    case "argsort":
      return op;
    case "permute":
      return { ...op, axes: [0, ...behind(op.axes)] };
    case "slice":
      return { ...op, starts: [0, ...op.starts], steps: [1, ...op.steps] };
    case "pad":
      return { ...op, before: [0, ...op.before] };
    case "reduce":
      return { ...op, axes: behind(op.axes) };
    case "gather":
    case "scatter":
      return { ...op, axis: op.axis + 1 };
    default:
      throw new NoBatchingRule(op.kind);
  }
}

/**
 * A product: where one operand is the same for all samples, as weights are, the samples are further
 * rows, or columns, of one product.
 */
function liftProduct(
  { inputs, shape, dtype }: Node,
  op: Op & { kind: "contract" },
  lifted: Lifted,
  size: number,
): Node {
  const [a, b] = [lifted.get(inputs[0]!), lifted.get(inputs[1]!)];
  if (a && b) return new Node({ ...op, batch: op.batch + 1 }, [a, b], [size, ...shape], dtype);
  const summed = inputs[0]!.shape.length - op.batch - op.m;
  const at = a ? op.batch : op.batch + op.m;
  const operands = a
    ? [moved(a, 0, op.batch), inputs[1]!]
    : [inputs[0]!, moved(b!, 0, op.batch + summed)];
  const more = a ? { m: op.m + 1 } : { n: op.n + 1 };
  const product = new Node({ ...op, ...more }, operands, shape.toSpliced(at, 0, size), dtype);
  return moved(product, at, 0);
}
