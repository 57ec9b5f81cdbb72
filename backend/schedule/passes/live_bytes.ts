/** Bytes in memory while kernels run one after the other: each result from its kernel to its last reader. */
import { bytesOf, type KernelGraph, type Step } from "./kernel_graph.ts";

/** Counts what is in memory, beside what was there before; steps come in any order in which they can run. */
export class LiveBytes {
  /** The bytes that are held now. */
  held = 0;
  readonly #graph: KernelGraph;
  readonly #live = new Set<number>();
  /** Steps to come that read or write a buffer. */
  readonly #open = new Map<number, number>();

  constructor(graph: KernelGraph) {
    this.#graph = graph;
    const made = new Set<number>();
    for (const step of graph.steps) {
      for (const at of buffersOf(step)) this.#open.set(at, (this.#open.get(at) ?? 0) + 1);
      for (const at of step.outputs) made.add(at);
    }
    // Wanted data of the host is put into memory before all.
    for (const at of graph.wanted) if (!made.has(at)) this.#take(at);
  }

  /** Bytes that a step takes in addition, before it gives any back. */
  taken(step: Step): number {
    let bytes = 0;
    for (const at of buffersOf(step)) if (!this.#isHeld(at)) bytes += this.#bytes(at);
    return bytes;
  }

  /** Bytes that are in memory for this step alone: it is the last that reads them. */
  freed(step: Step): number {
    let bytes = 0;
    for (const at of new Set(step.inputs)) {
      if (this.#live.has(at) && this.#open.get(at) === 1 && this.#ends(at)) {
        bytes += this.#bytes(at);
      }
    }
    return bytes;
  }

  /** Takes what a step needs and makes. */
  begin(step: Step): void {
    for (const at of buffersOf(step)) this.#take(at);
  }

  /** Gives back what nobody reads after it. */
  end(step: Step): void {
    for (const at of buffersOf(step)) {
      const open = this.#open.get(at)! - 1;
      this.#open.set(at, open);
      if (open === 0 && this.#ends(at) && this.#live.delete(at)) this.held -= this.#bytes(at);
    }
  }

  #take(at: number): void {
    if (this.#isHeld(at)) return;
    this.#live.add(at);
    this.held += this.#bytes(at);
  }

  #isHeld(at: number): boolean {
    return this.#live.has(at) || this.#graph.buffers[at]!.isStored;
  }

  #bytes(at: number): number {
    return bytesOf(this.#graph.buffers[at]!);
  }

  #ends(at: number): boolean {
    const { wanted, saved } = this.#graph;
    return !wanted.has(at) && !saved.has(at);
  }
}

/**
 * The most bytes that are held at a time.
 *
 * @param launches The steps of each launch, by number; one after the other where none are given.
 * @param shared Bytes of what a step writes over what it reads; by default none.
 */
export function peakBytes(
  graph: KernelGraph,
  launches: Iterable<readonly number[]> = graph.steps.keys().map((k) => [k]),
  shared: (step: number) => number = () => 0,
): number {
  const live = new LiveBytes(graph);
  let peak = live.held;
  for (const members of launches) {
    for (const k of members) live.begin(graph.steps[k]!);
    peak = Math.max(peak, live.held - members.reduce((sum, k) => sum + shared(k), 0));
    for (const k of members) live.end(graph.steps[k]!);
  }
  return peak;
}

const buffersOf = ({ inputs, outputs }: Step): Set<number> => new Set([...inputs, ...outputs]);
