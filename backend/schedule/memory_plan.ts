/** The memory plan: which buffer is given back after which kernel, and how much is held at a time. */
import type { Launchable } from "../kernel/kernel.ts";
import { updatesOf } from "../kernel/forms/updates.ts";
import { bytesOf, type KernelGraph, type Step, type ValueBuffer } from "./passes/kernel_graph.ts";
import { peakBytes } from "./passes/live_bytes.ts";

/** One launch: a kernel and the buffers that it reads and writes, by number. */
export interface PlannedKernel {
  readonly kernel: Launchable;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  /** Results on the way that nobody reads after it. */
  readonly dying: readonly number[];
  /** Results that get the memory of one that dies with the launch. */
  readonly taken: readonly Taken[];
}

/** A result on the way, and the one that is written over it. */
export type Taken = readonly [from: number, to: number];

/**
 * Plan for a graph. Buffers are the graph's nodes by position, then temporaries: so it holds
 * for every graph like it.
 */
export interface Plan {
  readonly kernels: readonly PlannedKernel[];
  /** Nodes whose blocks stay after the run. */
  readonly kept: readonly number[];
  /** Nodes whose blocks stay for what is computed later. */
  readonly saved: readonly number[];
  /** Buffers behind those of the nodes, which live between two kernels. */
  readonly temporaries: readonly Pick<ValueBuffer, "dtype" | "size">[];
  /** The most bytes that are held at a time, beside what is in memory before. */
  readonly peakBytes: number;
}

/** The plan of kernels in the order in which they run; `nodes` of the graph's buffers are those of nodes. */
export function planMemory(graph: KernelGraph, nodes: number, isGpu = false): Plan {
  const { steps, buffers, wanted, saved } = graph;
  const dying = lastReads(graph), taken = takenBy(graph, dying, isGpu);
  const shared = (k: number): number =>
    taken[k]!.reduce((sum, [from]) => sum + bytesOf(buffers[from]!), 0);
  return {
    kernels: steps.map((step, k) => ({ ...step, dying: dying[k]!, taken: taken[k]! })),
    kept: [...wanted],
    saved: [...saved],
    temporaries: buffers.slice(nodes).map(({ dtype, size }) => ({ dtype, size })),
    peakBytes: peakBytes(graph, steps.keys().map((k) => [k]), shared),
  };
}

/** For each kernel what it may write over; processors have the memory, and kernels for it that are built twice. */
function takenBy(
  { steps, buffers }: KernelGraph,
  dying: readonly (readonly number[])[],
  isGpu: boolean,
): Taken[][] {
  const made = new Set<number>();
  return steps.map((step, k) => {
    const found: Taken[] = [], used = new Set<number>();
    const isFree = (at: number): boolean => !used.has(at) && occursOnce(step, at);
    for (const [input, output] of isGpu ? updatesOf(step.kernel, isGpu) : []) {
      const from = step.inputs[input]!, to = step.outputs[output]!;
      const isNew = !made.has(to) && !buffers[to]!.isStored;
      const ends = made.has(from) && dying[k]!.includes(from);
      if (!isNew || !ends || !isFree(from) || !isFree(to)) continue;
      if (bytesOf(buffers[from]!) !== bytesOf(buffers[to]!)) continue;
      used.add(from).add(to);
      found.push([from, to]);
    }
    for (const at of step.outputs) made.add(at);
    return found;
  });
}

function occursOnce({ inputs, outputs }: Step, at: number): boolean {
  const all = [...inputs, ...outputs];
  return all.indexOf(at) === all.lastIndexOf(at);
}

/** For each kernel what nobody reads after it, of what this run puts into memory. */
function lastReads({ steps, buffers, wanted, saved }: KernelGraph): number[][] {
  const last = new Map<number, number>();
  steps.forEach(({ inputs, outputs }, k) => {
    for (const at of [...outputs, ...inputs]) {
      if (!wanted.has(at) && !saved.has(at) && !buffers[at]!.isStored) last.set(at, k);
    }
  });
  const dying: number[][] = steps.map(() => []);
  for (const [at, k] of last) dying[k]!.push(at);
  return dying;
}
