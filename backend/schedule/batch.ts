/**
 * One launch for many kernels: those that do the same with other buffers and sizes, such as the
 * update of every parameter of a model, need not be launched one by one.
 */
import { dtypes } from "../graph/dtype.ts";
import type { BatchKernel, LoopKernel } from "../kernel/kernel.ts";
import type { Node } from "../graph/node.ts";
import type { ScheduledKernel } from "./planner.ts";

/** What a backend says about a kernel that may share a launch. */
export interface Batchable {
  /** Kernels with equal keys may be launched together. */
  readonly key: string;
  /** The most of them that one launch can take. */
  readonly most: number;
}

/** Says which kernels may share a launch; null for one that runs alone. */
export type Batching = (kernel: LoopKernel) => Batchable | null;

/** A kernel waits for those that it is launched with; what it reads must not fill memory meanwhile. */
const MAX_HELD_BYTES = 1 << 20;

/** Kernels that will be one launch, at the place of the last of them. */
interface Group {
  readonly members: number[];
  readonly most: number;
  heldBytes: number;
}

/**
 * Joins kernels that are alike and do not depend on each other. A kernel moves behind others only
 * where none of those reads its results.
 *
 * @param kernels In the order in which they run.
 * @param batching Which of them may be joined.
 */
export function inBatches(
  kernels: readonly ScheduledKernel[],
  batching: Batching,
): readonly ScheduledKernel[] {
  const groups = groupsOf(kernels, batching);
  if (groups.every(({ members }) => members.length === 1)) return kernels;
  const places = new Map(groups.map((group) => [group.members.at(-1)!, group]));
  const moved = new Set(groups.flatMap(({ members }) => members));
  return kernels.flatMap((scheduled, k) => {
    const group = places.get(k);
    if (group) return [join(group.members.map((member) => kernels[member]!))];
    return moved.has(k) ? [] : [scheduled];
  });
}

function groupsOf(kernels: readonly ScheduledKernel[], batching: Batching): Group[] {
  const groups: Group[] = [], open = new Map<string, Group>();
  const waiting = new Map<Node, string>();
  const interior = new Set(kernels.flatMap(({ outputs }) => outputs));
  kernels.forEach(({ kernel, inputs, outputs }, k) => {
    // Who reads a result comes after its kernel: nothing joins that group any more.
    for (const node of inputs) {
      const key = waiting.get(node);
      if (key !== undefined) open.delete(key);
    }
    const batchable = kernel.kind === "loop" ? batching(kernel) : null;
    if (batchable === null) return;
    const { key, most } = batchable;
    const bytes = bytesOf(new Set(inputs).intersection(interior));
    let group = open.get(key);
    if (!group || group.members.length === group.most || group.heldBytes > MAX_HELD_BYTES) {
      open.set(key, group = { members: [], most, heldBytes: 0 });
      groups.push(group);
    }
    group.members.push(k);
    group.heldBytes += bytes;
    for (const node of outputs) waiting.set(node, key);
  });
  return groups;
}

function bytesOf(nodes: Iterable<Node>): number {
  let bytes = 0;
  for (const { size, dtype } of nodes) bytes += size * dtypes[dtype].bytes;
  return bytes;
}

function join(scheduled: readonly ScheduledKernel[]): ScheduledKernel {
  if (scheduled.length === 1) return scheduled[0]!;
  const members = scheduled.map(({ kernel }) => kernel as LoopKernel);
  const kernel: BatchKernel = { kind: "batch", members, label: members[0]!.label };
  return {
    kernel,
    inputs: scheduled.flatMap(({ inputs }) => inputs),
    outputs: scheduled.flatMap(({ outputs }) => outputs),
  };
}
