/**
 * Plans the computation of nodes: which kernels run in which order, and which value lies in which buffer
 * from which kernel to which. This folder imports the graph and the kernels' IR (backend/graph,
 * backend/kernel) and is asked by backend/execution.
 *
 * ```
 * nodes    Toposort (graph/)   topological order
 * rewrites/ expandRoutines,      nodes -> nodes: calls, and products that a program repeats
 *          joinProducts
 * fusion/  analyse, fuse         nodes -> units: groups of nodes that share loops
 *          lower                 units -> a graph of kernels and numbered buffers
 * passes/  vectorProducts, splitReductions, splitProducts, followJoins, planScratch, listSchedule,
 *          fuseHorizontally
 * savedForLater                  kernels -> what stays of them for what is computed later
 *          planMemory            kernels -> a plan that holds for every graph like this one
 * ```
 *
 * Each step is a function of its own file, and sees structure and data about the device alone: no text
 * is generated, nothing is allocated, and what a plan says of memory is exact. Linear in the number of
 * nodes, no recursion.
 */
import { Toposort } from "../graph/toposort.ts";
import type { Node } from "../graph/node.ts";
import type { PlanningDevice } from "../kernel/template.ts";
import { hostTarget } from "../kernel/target.ts";
import { expandRoutines } from "./rewrites/expand_routines.ts";
import { fuse } from "./fusion/fuse.ts";
import { followJoins } from "./passes/follow_joins.ts";
import { fuseHorizontally } from "./passes/horizontal_fusion.ts";
import { lower, type Request } from "./lower.ts";
import { joinProducts } from "./rewrites/join_products.ts";
import type { KernelGraph, Pass } from "./passes/kernel_graph.ts";
import { listSchedule } from "./passes/list_scheduling.ts";
import { type Plan, planMemory } from "./memory_plan.ts";
import { analyse } from "./fusion/node_info.ts";
import { type LaterGraph, type PlanCache, withOwnStreams } from "./plan_cache.ts";
import { orientProducts } from "./passes/orient_products.ts";
import { planScratch } from "./passes/plan_scratch.ts";
import { sharePrepared } from "./passes/share_prepared.ts";
import { savedForLater } from "./saved_for_later.ts";
import { splitProducts } from "./passes/split_k.ts";
import { splitReductions } from "./passes/split_reduction.ts";
import { vectorProducts } from "./passes/vector_products.ts";

/** Plan to run, in order, for the nodes that were asked for. */
export interface Schedule extends Plan {
  /** The nodes of the graph; positions are places in it. */
  readonly order: readonly Node[];
  /** Nodes asked for, and the nodes with their bytes (a reshape has those of its input). */
  readonly results: readonly { readonly node: Node; readonly at: number }[];
  /** The plan that is kept for graphs like this one. */
  readonly remembered: Plan | null;
}

/** A node that is computed as well if the schedule contains one of its partners. */
export interface Companion {
  readonly root: Node;
  readonly with: readonly Node[];
}

/** Options of a schedule. */
export interface ScheduleOptions {
  /** Cache of plans of equal graphs, if they are kept. */
  readonly cache?: PlanCache | null;
  /** True where numbers that differ in each graph may be read as data; false by default: plans are the same in each run. */
  readonly canVary?: boolean;
  /** Device that kernels are planned for: by default a host that runs them one by one. */
  readonly device?: PlanningDevice;
  /** Nodes computed as well, if their partners are. */
  readonly companions?: readonly Companion[];
  /** Nodes asked for later: what they need of this schedule is saved. */
  readonly later?: readonly Node[];
  /** Graphs that will be made of these and computed: what they need of this schedule is saved, too. */
  readonly ahead?: readonly LaterGraph[];
}

/** Passes between lowered kernels and the memory plan, in this order. */
export const passes: readonly Pass[] = [
  vectorProducts,
  orientProducts,
  splitReductions,
  splitProducts,
  followJoins,
  planScratch,
  listSchedule,
  sharePrepared,
  fuseHorizontally,
];

/**
 * Plans the computation of `roots`; those that are stored already need nothing.
 *
 * @param roots What is asked for.
 * @param options Plans made before, and what to regard.
 * @throws {GoneError} When a value is needed whose memory has been given back.
 */
export function schedule(roots: readonly Node[], options: ScheduleOptions = {}): Schedule {
  const { cache = null, canVary = false, ahead = none, device = hostDevice } = options;
  const request = requestFor(roots, options, none);
  const { order, results } = request, key = ahead.flatMap((graph) => graph.key);
  const isKept = cache !== null && order.length <= cache.maxNodes;
  const known = !isKept
    ? null
    : cache.find(request, key) ?? (canVary ? cache.findVaried(request, key) : null);
  if (known !== null) return { ...known, order, results, remembered: known };
  // Gradients are made of the nodes before any has its place: some compute values on their way.
  const made = ahead.flatMap((graph) => graph.nodes());
  const whole = made.length === 0 ? request : requestFor(roots, options, made);
  const plan = planOf(whole, device);
  const isLike = whole.order.length === order.length &&
    order.every((node, k) => whole.order[k] === node);
  if (!isKept || !isLike) return { ...plan, ...whole, remembered: null };
  const own = withOwnStreams(plan, order);
  cache.add(request, own.plan, own.streams, key);
  return { ...own.plan, order, results, remembered: own.plan };
}

/** A request with the results that it gives. */
interface Requested extends Request {
  readonly results: Schedule["results"];
}

/** The nodes behind `roots` in order, and what of them is asked for, now and later. */
function requestFor(
  roots: readonly Node[],
  { companions = [], later = none }: ScheduleOptions,
  ahead: readonly Node[],
): Requested {
  const toposort = new Toposort();
  const { order } = toposort;
  const wanted: Node[] = [], results: { node: Node; at: number }[] = [];
  for (const root of roots) if (root.storage === null) want(root, toposort, wanted, results);
  for (const { root, with: partners } of companions) {
    if (root.storage !== null || baseOf(root).storage !== null) continue;
    const isAsked = partners.some((node) => toposort.has(baseOf(node)));
    if (isAsked) want(root, toposort, wanted, results);
  }
  const count = order.length, read = readBy([...later, ...ahead], toposort);
  return { order: read === none ? order : order.slice(0, count), wanted, results, later: read };
}

/** Of the nodes that are in the order now, those that `roots` are or will be made from. */
function readBy(roots: readonly Node[], toposort: Toposort): readonly Node[] {
  if (roots.length === 0) return none;
  const { order } = toposort, count = order.length, bases = roots.map(baseOf);
  for (const base of bases) toposort.add(base);
  const read = [...bases, ...order.slice(count).flatMap(({ inputs }) => inputs)];
  return [...new Set(read.map(baseOf))].filter((node) => node.position < count && !node.isLeaf);
}

/** Adds what is asked for. */
function want(
  root: Node,
  toposort: Toposort,
  wanted: Node[],
  results: { node: Node; at: number }[],
): void {
  const base = baseOf(root);
  toposort.add(base);
  results.push({ node: root, at: base.position });
  if (base.storage === null) wanted.push(base);
}

const hostDevice: PlanningDevice = { target: hostTarget, planKernel: null };

const none: readonly never[] = [];

/** The node whose stored bytes a reshape can share. */
function baseOf(root: Node): Node {
  let node = root;
  while (node.storage === null && node.op.kind === "reshape") node = node.inputs[0]!;
  return node;
}

/** The plan of a graph. What is read later may need values that its kernels would not leave: they are asked for, too. */
function planOf({ order, wanted, later }: Request, device: PlanningDevice): Plan {
  const asked = new Set(wanted);
  for (;;) {
    const graph = kernelsOf({ order, wanted: [...asked] }, device);
    const { saved, missing } = savedForLater(later, order, graph, asked);
    if (missing.length === 0) {
      const results = new Set(wanted.map(({ position }) => position));
      for (const at of results) saved.delete(at);
      return planMemory({ ...graph, wanted: results, saved }, order.length, device.target.isGpu);
    }
    for (const node of missing) asked.add(node);
  }
}

/** The kernels of a graph, through all passes. */
function kernelsOf(
  request: Pick<Request, "order" | "wanted">,
  device: PlanningDevice,
): KernelGraph {
  const { order, wanted } = request, { added, ...expanded } = expandRoutines(order, wanted);
  const count = order.length + added.length;
  const joined = joinProducts(expanded.order, expanded.roots, count);
  const infos = analyse(joined.order, new Set(joined.roots));
  const lowered = lower(fuse(infos, device), request, [...added, ...joined.added]);
  return passes.reduce((graph, pass) => pass(graph, device), lowered);
}
