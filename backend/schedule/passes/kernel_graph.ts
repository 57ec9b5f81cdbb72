/**
 * Kernels and the buffers between them: what every pass behind lowering takes and gives. Plain data, in
 * which buffers are numbers.
 *
 * This folder (`passes/`) has the passes, each a function from kernel graph to kernel graph. It
 * imports `graph/` and `kernel/`. The graph comes from lowering and goes to the memory plan.
 */
import type { DType } from "../../graph/dtype.ts";
import { dtypes } from "../../graph/dtype.ts";
import { canonicalize } from "../../kernel/canonicalize.ts";
import type { Launchable, LoopKernel } from "../../kernel/kernel.ts";
import type { PlanningDevice } from "../../kernel/template.ts";

/** A value in memory. */
export interface ValueBuffer {
  readonly dtype: DType;
  /** Elements. */
  readonly size: number;
  /** Place in the order in which the program made it: a larger number is later. */
  readonly made: number;
  /** It is in memory before the first kernel runs. */
  readonly isStored: boolean;
}

/** A kernel and the buffers that it reads and writes, by number. */
export interface Step {
  readonly kernel: Launchable;
  readonly inputs: readonly number[];
  /** A buffer that is written in pieces stands for each of them. */
  readonly outputs: readonly number[];
}

/** The kernels of a schedule on their way through the passes. */
export interface KernelGraph {
  /** Those of the nodes, by position, then temporaries: buffers that passes add between two kernels. */
  readonly buffers: readonly ValueBuffer[];
  /** In an order in which they can run. */
  readonly steps: readonly Step[];
  /** Nodes asked for now: they stay after the run. */
  readonly wanted: ReadonlySet<number>;
  /** Results on the way that stay for what is asked for later. */
  readonly saved: ReadonlySet<number>;
}

/** One step of planning. */
export type Pass = (graph: KernelGraph, device: PlanningDevice) => KernelGraph;

/** Bytes of a buffer. */
export function bytesOf({ dtype, size }: Pick<ValueBuffer, "dtype" | "size">): number {
  return size * dtypes[dtype].bytes;
}

/** A kernel as two, and what lies between them. */
export interface KernelPair {
  /** Its outputs are the temporaries, then some of the original ones. */
  readonly partial: LoopKernel;
  /** Original outputs that those are. */
  readonly stored: readonly number[];
  /** Its inputs are the original ones, then the temporaries; its outputs are the other original ones. */
  readonly final: LoopKernel;
}

/** The graph with some of its loop kernels as two: each half reads only what it needs. */
export function splitKernels(
  graph: KernelGraph,
  pairOf: (kernel: LoopKernel, k: number) => KernelPair | null,
): KernelGraph {
  const buffers = graph.buffers.slice();
  const steps = graph.steps.flatMap((step, k): Step[] => {
    const pair = step.kernel.kind === "loop" ? pairOf(step.kernel, k) : null;
    if (pair === null) return [step];
    const outputs = step.outputs.map((at) => graph.buffers[at]!);
    const made = Math.max(...outputs.map((output) => output.made));
    const { partial, stored, final } = pair;
    const temporaries = partial.outputs.slice(0, partial.outputs.length - stored.length);
    const between = temporaries.map(({ dtype, size }) =>
      buffers.push({ dtype, size, made, isStored: false }) - 1
    );
    const early = stored.map((o) => step.outputs[o]!);
    return [
      withUsedInputs(partial, step.inputs, [...between, ...early]),
      withUsedInputs(
        final,
        [...step.inputs, ...between],
        step.outputs.filter((_, o) => !stored.includes(o)),
      ),
    ];
  });
  return { ...graph, buffers, steps };
}

function withUsedInputs(
  half: LoopKernel,
  inputs: readonly number[],
  outputs: readonly number[],
): Step {
  const used = canonicalize(half);
  return { kernel: used.kernel, inputs: used.inputs.map((k) => inputs[k]!), outputs };
}
