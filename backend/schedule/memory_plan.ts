/** The memory plan: which buffer is given back after which kernel, and how much is held at a time. */
import type { Launchable } from "../kernel/kernel.ts";
import type { KernelGraph, ValueBuffer } from "./passes/kernel_graph.ts";
import { peakBytes } from "./passes/live_bytes.ts";

/** One launch: a kernel and the buffers that it reads and writes, by number. */
export interface PlannedKernel {
  readonly kernel: Launchable;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  /** Results on the way that nobody reads after it. */
  readonly dying: readonly number[];
}

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
export function planMemory(graph: KernelGraph, nodes: number): Plan {
  const { steps, buffers, wanted, saved } = graph;
  const dying = lastReads(graph);
  return {
    kernels: steps.map((step, k) => ({ ...step, dying: dying[k]! })),
    kept: [...wanted],
    saved: [...saved],
    temporaries: buffers.slice(nodes).map(({ dtype, size }) => ({ dtype, size })),
    peakBytes: peakBytes(graph),
  };
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
