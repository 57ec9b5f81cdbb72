/**
 * Turns the nodes that somebody asks for into a list of kernels and a plan of buffers: which value
 * lives in which buffer, from which kernel to which. Linear in the number of nodes, no recursion.
 */
import type { DType } from "./dtype.ts";
import type { Kernel, LoopKernel, SpecialKernel, SpecialOp } from "./kernel.ts";
import { costOf, lower, type NodeInfo } from "./lower.ts";
import type { Node, RandomStream } from "./node.ts";
import { inGoodOrder } from "./order.ts";
import { type Shape, sizeOf, stridesOf } from "./shape.ts";
import { signatureOf } from "./signature.ts";
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

/** What was planned for a graph, by the positions of its nodes: it holds for every graph like it. */
export interface Template {
  readonly kernels: readonly {
    readonly kernel: Kernel;
    readonly inputs: readonly number[];
    readonly outputs: readonly number[];
  }[];
  /** Where the kernels find the places of random nodes in their sequence. */
  readonly streams: readonly { readonly node: number; readonly stream: { value: number } }[];
}

/** Templates by the signature of their graph. */
export interface TemplateCache {
  get(signature: string): Template | undefined;
  set(signature: string, template: Template): void;
}

/** A node that is computed as well if the schedule contains one of its partners. */
export interface Companion {
  readonly root: Node;
  readonly with: readonly Node[];
}

/** Beyond this a graph is too large to be worth remembering. */
const MAX_REMEMBERED = 4096;

/**
 * Plans the computation of `roots`; those that are stored already need nothing.
 *
 * @param roots What is asked for.
 * @param cache Where plans of equal graphs are kept, if they are.
 * @param companions What is computed as well, if its partners are.
 */
export function schedule(
  roots: readonly Node[],
  cache: TemplateCache | null = null,
  companions: readonly Companion[] = [],
): Schedule & { readonly template: Template | null } {
  const results: { node: Node; of: Node }[] = [];
  const wanted = new Set<Node>();
  for (const root of roots) {
    if (root.storage) continue;
    const base = baseOf(root);
    results.push({ node: root, of: base });
    if (!base.storage) wanted.add(base);
  }
  const collected = collect([...wanted]);
  for (const { root, with: partners } of companions) {
    const base = baseOf(root);
    if (root.storage || base.storage || !partners.some((node) => collected.index.has(node))) {
      continue;
    }
    results.push({ node: root, of: base });
    wanted.add(base);
    collect([base], collected);
  }
  const { order, index } = collected;
  const remembers = cache !== null && order.length <= MAX_REMEMBERED;
  const template = remembers ? recall(cache, order, index, wanted) : null;
  const kernels = template
    ? template.kernels.map(({ kernel, inputs, outputs }) => ({
      kernel,
      inputs: inputs.map((k) => order[k]!),
      outputs: outputs.map((k) => order[k]!),
    }))
    : plan(order, wanted);
  const computed = order.filter((node) => !node.storage);
  return {
    kernels,
    kept: order.filter((node) => wanted.has(node)),
    results,
    computed: [...computed, ...results.map((r) => r.node)],
    template,
  };
}

/** The template of a graph, made now if there is none; its random places are those of this graph. */
function recall(
  cache: TemplateCache,
  order: readonly Node[],
  index: ReadonlyMap<Node, number>,
  wanted: ReadonlySet<Node>,
): Template {
  const signature = signatureOf(order, index, wanted);
  let template = cache.get(signature);
  if (!template) {
    template = templateOf(plan(order, wanted), index);
    cache.set(signature, template);
  }
  for (const { node, stream } of template.streams) {
    const { op } = order[node]!;
    if (op.kind === "random") stream.value = op.stream.value;
  }
  return template;
}

/** A plan by positions, with random places of its own: the graph that it was made for lives on. */
function templateOf(
  kernels: readonly ScheduledKernel[],
  index: ReadonlyMap<Node, number>,
): Template {
  const own = new Map<RandomStream, { value: number }>();
  for (const node of index.keys()) {
    if (node.op.kind === "random") own.set(node.op.stream, { value: node.op.stream.value });
  }
  const streams = [...index].flatMap(([node, k]) =>
    node.op.kind === "random" ? [{ node: k, stream: own.get(node.op.stream)! }] : []
  );
  const at = (node: Node): number => index.get(node)!;
  return {
    streams,
    kernels: kernels.map(({ kernel, inputs, outputs }) => ({
      kernel: kernel.kind === "loop" && own.size > 0 ? withStreams(kernel, own) : kernel,
      inputs: inputs.map(at),
      outputs: outputs.map(at),
    })),
  };
}

function withStreams(
  kernel: LoopKernel,
  own: ReadonlyMap<RandomStream, RandomStream>,
): LoopKernel {
  const exprs = kernel.exprs.map((e) =>
    e.op === "random" ? { ...e, stream: own.get(e.stream)! } : e
  );
  return { ...kernel, exprs };
}

function plan(order: readonly Node[], wanted: ReadonlySet<Node>): ScheduledKernel[] {
  const infos = analyse(order);
  for (const info of infos) if (wanted.has(info.node)) info.materialized = true;
  return inGoodOrder(lowerAll(infos), wanted);
}

/** The node whose stored bytes a reshape can share. */
function baseOf(root: Node): Node {
  let node = root;
  while (!node.storage && node.op.kind === "reshape") node = node.inputs[0]!;
  return node;
}

interface Collected {
  readonly order: Node[];
  readonly index: Map<Node, number>;
}

/** The nodes below `roots` in topological order. */
function collect(
  roots: readonly Node[],
  into: Collected = { order: [], index: new Map() },
): Collected {
  const { order, index } = into;
  const stack: Node[] = roots.toReversed();
  while (stack.length > 0) {
    const node = stack[stack.length - 1]!;
    if (index.has(node)) {
      stack.pop();
      continue;
    }
    const before = stack.length;
    if (!node.storage) {
      for (let k = node.inputs.length - 1; k >= 0; k--) {
        if (!index.has(node.inputs[k]!)) stack.push(node.inputs[k]!);
      }
    }
    if (stack.length > before) continue;
    if (node.op.kind === "buffer" && !node.storage) throw new GoneError(node);
    stack.pop();
    index.set(node, order.push(node) - 1);
  }
  return { order, index };
}

/** What fusion must know about each node. */
function analyse(order: readonly Node[]): NodeInfo[] {
  const known = new Map<Node, NodeInfo>();
  return order.map((node, index) => {
    const info = infoOf(node, index, known);
    known.set(node, info);
    return info;
  });
}

function infoOf(node: Node, index: number, known: ReadonlyMap<Node, NodeInfo>): NodeInfo {
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

/** From the last node to the first; the kernels depend on each other in the opposite order. */
function lowerAll(infos: readonly NodeInfo[]): ScheduledKernel[] {
  const kernels: ScheduledKernel[] = [];
  const produced = new Set<NodeInfo>();
  for (let k = infos.length - 1; k >= 0; k--) {
    const info = infos[k]!;
    if (!info.materialized || produced.has(info) || info.node.isLeaf) continue;
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
    if (!input.node.isLeaf) input.materialized = true;
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
