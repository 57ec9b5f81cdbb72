/**
 * Memory-aware list scheduling: the order in which kernels run. What they compute does not depend on it,
 * but how much memory is held at a time does: a kernel that frees as much as it takes runs as soon as it
 * can; the others run in the order of the program, so that what it makes late is not in memory early.
 */
import { Heap } from "./heap.ts";
import { bytesOf, type KernelGraph, type Pass, type Step } from "./kernel_graph.ts";

/** A kernel on its way to its place. */
interface Pending {
  readonly step: Step;
  /** Place in the order in which the program made results. */
  readonly made: number;
  /** The results of other kernels that it reads. */
  readonly reads: readonly number[];
  /** Number of them not computed yet. */
  missing: number;
  done: boolean;
}

/** A result that is in memory from its kernel to its last reader. */
interface LiveResult {
  readonly readers: Pending[];
  /** Readers that have not run. */
  open: number;
}

/** The pass. */
export const listSchedule: Pass = (graph) => ({ ...graph, steps: new ListScheduler(graph).run() });

class ListScheduler {
  readonly #graph: KernelGraph;
  readonly #results = new Map<number, LiveResult>();
  readonly #all: readonly Pending[];
  /** Those that can run, and of them those that leave no more in memory than there was. */
  readonly #ready = new Heap<Pending>(({ made }) => made);
  readonly #saving = new Heap<Pending>(({ made }) => made);

  constructor(graph: KernelGraph) {
    this.#graph = graph;
    for (const { outputs } of graph.steps) {
      for (const at of outputs) this.#results.set(at, { readers: [], open: 0 });
    }
    this.#all = graph.steps.map((step) => this.#pending(step));
  }

  #pending(step: Step): Pending {
    const reads = [...new Set(step.inputs)].filter((at) => this.#results.has(at));
    const made = Math.max(...step.outputs.map((at) => this.#graph.buffers[at]!.made));
    const pending: Pending = { step, made, reads, missing: reads.length, done: false };
    for (const at of reads) {
      const result = this.#results.get(at)!;
      result.readers.push(pending);
      result.open++;
    }
    return pending;
  }

  run(): Step[] {
    const order: Step[] = [];
    for (const pending of this.#all) if (pending.missing === 0) this.#admit(pending);
    for (let next = this.#next(); next; next = this.#next()) {
      order.push(next.step);
      this.#finish(next);
    }
    if (order.length < this.#all.length) {
      throw new Error("Kernels wait for each other: a fault in fusion");
    }
    return order;
  }

  #next(): Pending | undefined {
    return popPending(this.#saving) ?? popPending(this.#ready);
  }

  #admit(pending: Pending): void {
    (this.#growth(pending) <= 0 ? this.#saving : this.#ready).push(pending);
  }

  /** Bytes held after it beyond those before. */
  #growth({ step, reads }: Pending): number {
    const { buffers, wanted } = this.#graph;
    const endsAfter = (at: number, readers: number): boolean =>
      this.#results.get(at)!.open === readers && !wanted.has(at);
    let bytes = 0;
    // Scratch, which nobody reads, ends with the kernel.
    for (const at of new Set(step.outputs)) if (!endsAfter(at, 0)) bytes += bytesOf(buffers[at]!);
    for (const at of reads) if (endsAfter(at, 1)) bytes -= bytesOf(buffers[at]!);
    return bytes;
  }

  #finish(pending: Pending): void {
    pending.done = true;
    for (const at of new Set(pending.step.outputs)) {
      for (const reader of this.#results.get(at)!.readers) {
        if (--reader.missing === 0) this.#admit(reader);
      }
    }
    for (const at of pending.reads) {
      const result = this.#results.get(at)!;
      if (--result.open !== 1) continue;
      // Its last reader frees it.
      const last = result.readers.find((reader) => !reader.done)!;
      if (last.missing === 0 && this.#growth(last) <= 0) this.#saving.push(last);
    }
  }
}

/** The first that has not run: one that became saving is in both heaps. */
function popPending(heap: Heap<Pending>): Pending | undefined {
  let first = heap.pop();
  while (first?.done) first = heap.pop();
  return first;
}
