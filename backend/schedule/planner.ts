/**
 * Divides a graph into kernels: which nodes are computed in the same loops, which ones get a buffer.
 * Linear in the number of nodes, no recursion.
 */
import type { CustomCall } from "../graph/custom.ts";
import type { DType } from "../graph/dtype.ts";
import type { Launchable, SpecialKernel, SpecialOp } from "../kernel/kernel.ts";
import { type FusionRules, lower } from "./lower.ts";
import type { Node, Op } from "../graph/node.ts";
import { costOf, derivationOf, type NodeInfo } from "./node_info.ts";
import { inGoodOrder } from "./order.ts";
import { type Shape, sizeOf, stridesOf } from "../graph/shape.ts";
import { isView } from "../kernel/view.ts";

/** One launch: a kernel and the nodes whose buffers it reads and writes. */
export interface ScheduledKernel {
  readonly kernel: Launchable;
  readonly inputs: readonly Node[];
  readonly outputs: readonly Node[];
}

/** The kernels that compute the `wanted` nodes of a graph, which is in topological order. */
export function planKernels(
  order: readonly Node[],
  wanted: ReadonlySet<Node>,
  rules: FusionRules,
): readonly ScheduledKernel[] {
  const infos = analyse(order);
  for (const info of infos) if (wanted.has(info.node)) info.materialized = true;
  return inGoodOrder(lowerAll(infos, rules), wanted);
}

/** What fusion must know about each node. */
function analyse(order: readonly Node[]): NodeInfo[] {
  const known = new Map<Node, NodeInfo>(), operands = operandsOf(order);
  return order.map((node, index) => {
    const info = infoOf(node, index, known, operands);
    known.set(node, info);
    return info;
  });
}

/** The values that kernels read from memory only, since no loop takes them in: operands of products. */
function operandsOf(order: readonly Node[]): ReadonlySet<Node> {
  const found = new Set<Node>();
  for (const { op, inputs } of order) {
    if (op.kind !== "contract" && !isSpecial(op)) continue;
    for (let input of inputs) {
      while (isView(input.op) && input.op.kind !== "pad") input = input.inputs[0]!;
      found.add(input);
    }
  }
  return found;
}

function isSpecial({ kind }: Op): boolean {
  return kind === "scatter" || kind === "scan" || kind === "argsort" || kind === "fold" ||
    kind === "custom";
}

function infoOf(
  node: Node,
  index: number,
  known: ReadonlyMap<Node, NodeInfo>,
  operands: ReadonlySet<Node>,
): NodeInfo {
  if (node.storage || node.inputs.length === 0) {
    return {
      node,
      index,
      inputs: [],
      consumers: 0,
      accounted: 0,
      materialized: false,
      weight: node.storage ? 0 : costOf(node),
      reduces: false,
      derivation: { origin: node.storage ? node : null, cost: node.storage ? 0 : costOf(node) },
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
  const isStored = operands.has(node) || costOf(node) === Infinity;
  const derivation = derivationOf(node, inputs, isStored);
  return {
    node,
    index,
    inputs,
    consumers: 0,
    accounted: 0,
    materialized: false,
    weight,
    reduces,
    derivation,
  };
}

/** From the last node to the first; the kernels depend on each other in the opposite order. */
function lowerAll(
  infos: readonly NodeInfo[],
  rules: FusionRules,
): ScheduledKernel[] {
  const kernels: ScheduledKernel[] = [];
  const produced = new Set<NodeInfo>();
  const calls = callsOf(infos);
  for (let k = infos.length - 1; k >= 0; k--) {
    const info = infos[k]!;
    if (info.node.op.kind !== "custom" && !info.materialized) continue;
    if (produced.has(info) || info.node.isLeaf) continue;
    const { op } = info.node;
    if (op.kind === "custom") {
      const scheduled = customKernel(info, op.call, calls.get(op.call)!);
      if (scheduled) kernels.push(scheduled);
      continue;
    }
    if (info.node.size === 0) continue;
    const scheduled = specialKernel(info) ?? lowered(info, produced, rules);
    kernels.push(scheduled);
  }
  return kernels.reverse();
}

function lowered(
  info: NodeInfo,
  produced: Set<NodeInfo>,
  rules: FusionRules,
): ScheduledKernel {
  const { kernel, inputs, outputs } = lower(info, rules);
  for (const output of outputs) produced.add(output);
  return { kernel, inputs: inputs.map((i) => i.node), outputs: outputs.map((o) => o.node) };
}

/** The outputs of each call of a user's kernel, in topological order. */
function callsOf(infos: readonly NodeInfo[]): ReadonlyMap<CustomCall, readonly NodeInfo[]> {
  const calls = new Map<CustomCall, NodeInfo[]>();
  for (const info of infos) {
    const { op } = info.node;
    if (op.kind !== "custom" || info.node.isLeaf) continue;
    const known = calls.get(op.call);
    if (known) known.push(info);
    else calls.set(op.call, [info]);
  }
  return calls;
}

/**
 * The launch of a user's kernel, when the walk is at the first of its outputs: by then it is known
 * which of them are read.
 */
function customKernel(
  info: NodeInfo,
  call: CustomCall,
  outputs: readonly NodeInfo[],
): ScheduledKernel | null {
  const stored = outputs.filter(({ materialized, node }) => materialized && node.size > 0);
  if (info !== outputs[0] || stored.length === 0) return null;
  storeInputs(info);
  const { inputs } = info.node;
  return {
    kernel: {
      kind: "custom",
      inputs: inputs.map((input): DType => input.dtype),
      stored: stored.map(({ node: { op } }) => op.kind === "custom" ? op.output : -1),
      call,
      label: call.kernel.name,
    },
    inputs,
    outputs: stored.map(({ node }) => node),
  };
}

/** What a kernel reads that takes no loop in must be in memory. */
function storeInputs(info: NodeInfo): void {
  for (const input of info.inputs) {
    if (!input.node.isLeaf) input.materialized = true;
    input.accounted++;
  }
}

/** The kernel of an operation that does not fuse; its inputs must be in memory. */
function specialKernel(info: NodeInfo): ScheduledKernel | null {
  const special = specialOp(info.node);
  if (!special) return null;
  const { node } = info;
  storeInputs(info);
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
        ? { op: "scan", fn: op.fn, rows, length }
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
