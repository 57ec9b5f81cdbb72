/**
 * The order in which kernels run. What they compute does not depend on it, but how much memory is
 * held at a time does: a kernel that frees as much as it takes runs as soon as it can; the others run
 * in the order of the program, so that what it makes late is not in memory early.
 */
import { dtypes } from "../graph/dtype.ts";
import type { Node } from "../graph/node.ts";
import type { ScheduledKernel } from "./planner.ts";

/** A kernel on its way to its place. */
interface Step {
  readonly scheduled: ScheduledKernel;
  /** When the program made what it computes. */
  readonly made: number;
  /** The results of other kernels that it reads. */
  readonly reads: readonly Node[];
  /** How many of them are not computed yet. */
  missing: number;
  done: boolean;
}

/** A result that is in memory from its kernel to its last reader. */
interface Held {
  readonly nbytes: number;
  readonly readers: Step[];
  open: number;
}

/** The kernels in the order in which they should run; `kept` are the results that stay. */
export function inGoodOrder(
  kernels: readonly ScheduledKernel[],
  kept: ReadonlySet<Node>,
): ScheduledKernel[] {
  const held = new Map<Node, Held>();
  for (const { outputs } of kernels) {
    for (const node of outputs) held.set(node, { nbytes: bytesOf(node), readers: [], open: 0 });
  }
  const steps = kernels.map((scheduled) => stepOf(scheduled, held));
  return new Sorter(held, kept).run(steps);
}

function bytesOf(node: Node): number {
  return node.size * dtypes[node.dtype].bytes;
}

function stepOf(scheduled: ScheduledKernel, held: ReadonlyMap<Node, Held>): Step {
  const reads = [...new Set(scheduled.inputs)].filter((node) => held.has(node));
  const made = Math.max(...scheduled.outputs.map((node) => node.id));
  const step: Step = { scheduled, made, reads, missing: reads.length, done: false };
  for (const node of reads) {
    const value = held.get(node)!;
    value.readers.push(step);
    value.open++;
  }
  return step;
}

class Sorter {
  readonly #held: ReadonlyMap<Node, Held>;
  readonly #kept: ReadonlySet<Node>;
  /** Those that can run, and of them those that leave no more in memory than there was. */
  readonly #ready = new Queue();
  readonly #saving = new Queue();

  constructor(held: ReadonlyMap<Node, Held>, kept: ReadonlySet<Node>) {
    this.#held = held;
    this.#kept = kept;
  }

  run(steps: readonly Step[]): ScheduledKernel[] {
    const order: ScheduledKernel[] = [];
    for (const step of steps) if (step.missing === 0) this.#admit(step);
    for (let step = this.#next(); step; step = this.#next()) {
      order.push(step.scheduled);
      this.#finish(step);
    }
    if (order.length < steps.length) {
      throw new Error("Kernels wait for each other: a fault in fusion");
    }
    return order;
  }

  #next(): Step | undefined {
    return this.#saving.pop() ?? this.#ready.pop();
  }

  #admit(step: Step): void {
    (this.#growth(step) <= 0 ? this.#saving : this.#ready).push(step);
  }

  /** How many bytes more are held after it than before. */
  #growth({ scheduled, reads }: Step): number {
    let bytes = 0;
    for (const node of scheduled.outputs) bytes += bytesOf(node);
    for (const node of reads) {
      const { open, nbytes } = this.#held.get(node)!;
      if (open === 1 && !this.#kept.has(node)) bytes -= nbytes;
    }
    return bytes;
  }

  #finish(step: Step): void {
    step.done = true;
    for (const node of step.scheduled.outputs) {
      for (const reader of this.#held.get(node)!.readers) {
        if (--reader.missing === 0) this.#admit(reader);
      }
    }
    for (const node of step.reads) {
      const value = this.#held.get(node)!;
      if (--value.open !== 1) continue;
      // Its last reader frees it.
      const last = value.readers.find((reader) => !reader.done)!;
      if (last.missing === 0 && this.#growth(last) <= 0) this.#saving.push(last);
    }
  }
}

/** Steps by when they were made, first made first out; one that has run meanwhile is passed over. */
class Queue {
  readonly #heap: Step[] = [];

  push(step: Step): void {
    const heap = this.#heap;
    let at = heap.push(step) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]!.made <= step.made) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = step;
  }

  pop(): Step | undefined {
    for (;;) {
      const first = this.#take();
      if (!first?.done) return first;
    }
  }

  #take(): Step | undefined {
    const heap = this.#heap;
    const first = heap[0], last = heap.pop();
    if (!last || heap.length === 0) return first;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && heap[child + 1]!.made < heap[child]!.made) child++;
      if (heap[child]!.made >= last.made) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}
