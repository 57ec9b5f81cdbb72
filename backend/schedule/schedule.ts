/**
 * Turns the nodes that somebody asks for into a list of kernels and a plan of buffers: which value
 * lives in which buffer, from which kernel to which. Linear in the number of nodes, no recursion.
 */
import { type Batching, inBatches } from "./batch.ts";
import { Collection } from "../graph/collect.ts";
import { type Part, partFor } from "./foresight.ts";
import type { Launchable } from "../kernel/kernel.ts";
import type { Node } from "../graph/node.ts";
import { defaultRules, type FusionRules } from "./lower.ts";
import { planKernels, type ScheduledKernel } from "./planner.ts";
import { type PlanCache, withOwnStreams } from "./plan_cache.ts";

/** One launch: a kernel and the positions of the nodes whose buffers it reads and writes. */
export interface PlannedKernel {
  readonly kernel: Launchable;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  /** Results on the way that nobody reads after it. */
  readonly dying: readonly number[];
}

/** What to run for a graph, by the positions of its nodes: it holds for every graph like it. */
export interface Plan {
  readonly kernels: readonly PlannedKernel[];
  /** Nodes whose blocks stay after the run. */
  readonly kept: readonly number[];
  /** Nodes whose blocks stay for what is computed later. */
  readonly saved: readonly number[];
}

/** What is planned. */
export interface Graph {
  /** All nodes in topological order, with their positions. */
  readonly order: readonly Node[];
  /** What is asked for. */
  readonly wanted: ReadonlySet<Node>;
  /** What will be asked for. */
  readonly later: ReadonlySet<Node>;
  /** How many nodes `wanted` is made from; those behind are for `later` alone. */
  readonly count: number;
}

/** What to run, in order, for the nodes that were asked for. */
export interface Schedule extends Plan {
  /** The nodes of the graph; positions are places in it. */
  readonly order: readonly Node[];
  /** What was asked for, and where the node is that has its bytes (a reshape has those of its input). */
  readonly results: readonly { readonly node: Node; readonly at: number }[];
  /** The plan that is kept for graphs like this one. */
  readonly remembered: Plan | null;
}

/** A node that is computed as well if the schedule contains one of its partners. */
export interface Companion {
  readonly root: Node;
  readonly with: readonly Node[];
}

/** Beyond this a graph is too large to be worth remembering. */
const MAX_REMEMBERED = 4096;

/** How a schedule is made. */
export interface ScheduleOptions {
  /** Where plans of equal graphs are kept, if they are. */
  readonly cache?: PlanCache | null;
  /** Which kernels may share a launch. */
  readonly batching?: Batching | null;
  /** What the device says about fusion. */
  readonly rules?: FusionRules;
  /** What is computed as well, if its partners are. */
  readonly companions?: readonly Companion[];
  /** What will be asked for: not computed, but what it needs of this schedule is saved. */
  readonly later?: readonly Node[];
}

/**
 * Plans the computation of `roots`; those that are stored already need nothing.
 *
 * @param roots What is asked for.
 * @param options Plans made before, and what to regard.
 * @throws {GoneError} When a value is needed whose memory has been given back.
 */
export function schedule(roots: readonly Node[], options: ScheduleOptions = {}): Schedule {
  const { cache = null, companions = [] } = options;
  const collection = new Collection();
  const { order } = collection;
  const wanted = new Set<Node>(), results: { node: Node; at: number }[] = [];
  const want = (root: Node): void => {
    const base = baseOf(root);
    collection.add(base);
    results.push({ node: root, at: base.position });
    if (base.storage === null) wanted.add(base);
  };
  for (const root of roots) if (root.storage === null) want(root);
  for (const { root, with: partners } of companions) {
    if (root.storage !== null || baseOf(root).storage !== null) continue;
    if (partners.some((node) => collection.has(baseOf(node)))) want(root);
  }
  const count = order.length;
  const graph = { order, wanted, later: collectLater(options.later ?? [], collection), count };
  const remembered = cache !== null && order.length <= MAX_REMEMBERED
    ? recall(cache, graph, options)
    : null;
  const { kernels, kept, saved } = remembered ?? planOf(partOf(graph, options), wanted);
  return { kernels, kept, saved, order, results, remembered };
}

const none: ReadonlySet<Node> = new Set();

function collectLater(roots: readonly Node[], collection: Collection): ReadonlySet<Node> {
  if (roots.length === 0) return none;
  const later = new Set<Node>();
  for (const root of roots) {
    const base = baseOf(root);
    collection.add(base);
    if (base.storage === null) later.add(base);
  }
  return later;
}

/** The node whose stored bytes a reshape can share. */
function baseOf(root: Node): Node {
  let node = root;
  while (node.storage === null && node.op.kind === "reshape") node = node.inputs[0]!;
  return node;
}

/** The plan for a graph, made now if there is none. */
function recall(cache: PlanCache, graph: Graph, options: ScheduleOptions): Plan {
  const known = cache.find(graph);
  if (known) return known;
  const { kernels, saved } = partOf(graph, options);
  const { kernels: own, streams } = withOwnStreams(kernels, graph.order);
  return cache.add(graph, planOf({ kernels: own, saved }, graph.wanted), streams);
}

/** The kernels to run now. */
function partOf(
  { order, wanted, later, count }: Graph,
  { batching = null, rules = defaultRules }: ScheduleOptions,
): Part {
  const all = planKernels(order, later.size === 0 ? wanted : wanted.union(later), rules);
  const { kernels, saved } = later.size === 0
    ? { kernels: all, saved: later }
    : partFor(all, wanted, (node) => node.position < count);
  return { kernels: batching === null ? kernels : inBatches(kernels, batching), saved };
}

/** A plan by positions. */
function planOf({ kernels, saved }: Part, wanted: ReadonlySet<Node>): Plan {
  const dying = lastReads(kernels, (node) => wanted.has(node) || saved.has(node));
  const position = (node: Node): number => node.position;
  return {
    kernels: kernels.map(({ kernel, inputs, outputs }, k) => ({
      kernel,
      inputs: inputs.map(position),
      outputs: outputs.map(position),
      dying: dying[k]!,
    })),
    kept: [...wanted].map(position),
    saved: [...saved].map(position),
  };
}

/** For each kernel the interior results that nobody reads after it. */
function lastReads(
  kernels: readonly ScheduledKernel[],
  stays: (node: Node) => boolean,
): number[][] {
  const last = new Map<Node, number>();
  kernels.forEach(({ inputs, outputs }, k) => {
    for (const node of outputs) if (!stays(node)) last.set(node, k);
    for (const node of inputs) if (!stays(node) && !node.storage) last.set(node, k);
  });
  const dying: number[][] = kernels.map(() => []);
  for (const [node, k] of last) dying[k]!.push(node.position);
  return dying;
}
