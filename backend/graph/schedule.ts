/**
 * Turns the nodes that somebody asks for into a list of kernels and a plan of buffers: which value
 * lives in which buffer, from which kernel to which. Linear in the number of nodes, no recursion.
 */
import type { DType } from "./dtype.ts";
import type { Kernel, SpecialKernel, SpecialOp } from "./kernel.ts";
import { costOf, lower, type NodeInfo } from "./lower.ts";
import type { Node } from "./node.ts";
import { type Shape, sizeOf, stridesOf } from "./shape.ts";
import { isView } from "./view.ts";

/** One launch: a kernel and the nodes whose buffers it reads and writes. */
export interface ScheduledKernel {
  readonly kernel: Kernel;
  readonly inputs: readonly Node[];
  readonly outputs: readonly Node[];
}

/** What to run, in order, for the nodes that were asked for. */
export interface Schedule {
  readonly kernels: readonly ScheduledKernel[];
  /** Nodes whose blocks stay after the run. */
  readonly kept: readonly Node[];
  /** What was asked for, and the node that has its bytes (a reshape has those of its input). */
  readonly results: readonly { readonly node: Node; readonly of: Node }[];
  /** Every node that the run computes, stored or not. */
  readonly computed: readonly Node[];
}

/** Plans the computation of `roots`; those that are stored already need nothing. */
export function schedule(roots: readonly Node[]): Schedule {
  const results: { node: Node; of: Node }[] = [];
  const wanted = new Set<Node>();
  for (const root of roots) {
    if (root.storage) continue;
    const base = baseOf(root);
    results.push({ node: root, of: base });
    if (!base.storage) wanted.add(base);
  }
  const infos = analyse([...wanted]);
  const kept: Node[] = [];
  for (const info of infos) {
    if (!wanted.has(info.node)) continue;
    info.materialized = true;
    kept.push(info.node);
  }
  const kernels = lowerAll(infos);
  const computed = infos.map((info) => info.node).filter((node) => !node.storage);
  return { kernels, kept, results, computed: [...computed, ...results.map((r) => r.node)] };
}

/** The node whose stored bytes a reshape can share. */
function baseOf(root: Node): Node {
  let node = root;
  while (!node.storage && node.op.kind === "reshape") node = node.inputs[0]!;
  return node;
}

/** The nodes below `roots` in topological order, with what fusion must know about each. */
function analyse(roots: readonly Node[]): NodeInfo[] {
  const infos: NodeInfo[] = [];
  const known = new Map<Node, NodeInfo>();
  const stack: Node[] = roots.toReversed();
  while (stack.length > 0) {
    const node = stack[stack.length - 1]!;
    if (known.has(node)) {
      stack.pop();
      continue;
    }
    const open = node.storage ? undefined : node.inputs.filter((input) => !known.has(input));
    if (open && open.length > 0) {
      for (let k = open.length - 1; k >= 0; k--) stack.push(open[k]!);
      continue;
    }
    stack.pop();
    const info = infoOf(node, infos.length, known);
    known.set(node, info);
    infos.push(info);
  }
  return infos;
}

function infoOf(node: Node, index: number, known: ReadonlyMap<Node, NodeInfo>): NodeInfo {
  if (node.storage || node.inputs.length === 0) {
    if (node.op.kind === "buffer" && !node.storage) throw new GoneError(node);
    return {
      node,
      index,
      inputs: [],
      consumers: 0,
      accounted: 0,
      materialized: false,
      weight: node.storage ? 0 : costOf(node),
      reduces: false,
    };
  }
  const inputs = [...new Set(node.inputs)].map((input) => known.get(input)!);
  let weight = costOf(node), reduces = node.op.kind === "reduce";
  const fuses = node.op.kind === "elementwise" || node.op.kind === "cast" || isView(node.op);
  for (const input of inputs) {
    input.consumers++;
    weight += input.weight;
    if (fuses && input.reduces) reduces = true;
  }
  return { node, index, inputs, consumers: 0, accounted: 0, materialized: false, weight, reduces };
}

/** A value is needed whose memory has been given back. */
export class GoneError extends Error {
  constructor(readonly node: Node) {
    super("The value has been disposed");
    this.name = "GoneError";
  }
}

/** From the last node to the first; the kernels run in the opposite order. */
function lowerAll(infos: readonly NodeInfo[]): ScheduledKernel[] {
  const kernels: ScheduledKernel[] = [];
  const produced = new Set<NodeInfo>();
  for (let k = infos.length - 1; k >= 0; k--) {
    const info = infos[k]!;
    if (!info.materialized || produced.has(info) || info.node.storage) continue;
    if (info.node.size === 0) continue;
    const scheduled = specialKernel(info) ?? lowered(info, produced);
    kernels.push(scheduled);
  }
  return kernels.reverse();
}

function lowered(info: NodeInfo, produced: Set<NodeInfo>): ScheduledKernel {
  const { kernel, inputs, outputs } = lower(info);
  for (const output of outputs) produced.add(output);
  return { kernel, inputs: inputs.map((i) => i.node), outputs: outputs.map((o) => o.node) };
}

/** The kernel of an operation that does not fuse; its inputs must be in memory. */
function specialKernel(info: NodeInfo): ScheduledKernel | null {
  const special = specialOp(info.node);
  if (!special) return null;
  const { node } = info;
  for (const input of info.inputs) {
    if (!input.node.storage) input.materialized = true;
    input.accounted++;
  }
  const kernel: SpecialKernel = {
    kind: "special",
    inputs: node.inputs.map((input): DType => input.dtype),
    output: { dtype: node.dtype, size: node.size },
    label: special.op,
    ...special,
  };
  return { kernel, inputs: node.inputs, outputs: [node] };
}

/** Strides of a shape, 0 on the axes that broadcast. */
function broadcastStrides(shape: Shape): number[] {
  return stridesOf(shape).map((stride, axis) => shape[axis] === 1 ? 0 : stride);
}

function specialOp(node: Node): SpecialOp | null {
  const { op, shape } = node;
  switch (op.kind) {
    case "scatter":
      return {
        op: "scatter",
        mode: op.mode,
        shape,
        sourceShape: node.inputs[2]!.shape,
        indexStrides: broadcastStrides(node.inputs[1]!.shape),
        axis: op.axis,
        opName: op.opName,
      };
    case "scan":
    case "argsort": {
      const length = shape[shape.length - 1]!;
      const rows = node.size / length;
      return op.kind === "scan"
        ? { op: "scan", rows, length }
        : { op: "argsort", rows, length, descending: op.descending };
    }
    case "fold": {
      const spatial = op.stride.length;
      const source = node.inputs[0]!.shape;
      const lead = source.length - 2 * spatial;
      return {
        op: "fold",
        batch: sizeOf(shape.slice(0, lead)),
        shape: shape.slice(lead),
        positions: source.slice(lead, lead + spatial),
        kernel: source.slice(lead + spatial),
        stride: op.stride,
        dilation: op.dilation,
      };
    }
    default:
      return null;
  }
}
