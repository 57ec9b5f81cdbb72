/**
 * The order of kernels that share launches. A kernel that others are like waits until its result is read, or
 * all that are like it have come: then it runs with those that wait, and with later ones that can run already.
 * What waits keeps in memory what it reads, and what runs early holds what it makes, so both have bounds.
 */
import type { HeldLimits } from "../../kernel/target.ts";
import { bytesOf, type KernelGraph, type Step } from "./kernel_graph.ts";
import { LiveBytes, peakBytes } from "./live_bytes.ts";

/** Kernels that may share a launch. */
export interface Shareable {
  /** Kernels with equal keys may be launched together. */
  readonly key: string;
  /** The most of them that one launch can take. */
  readonly most: number;
}

/** By so many bytes a schedule's peak may grow, whatever waits. */
export const MAX_GROWTH = 1 << 23;
/** So many kernels to come are looked at for one that can run early. */
const MAX_AHEAD = 256;

/** Kernels of one key: all of them, and how many have come. */
interface Alike {
  readonly members: readonly number[];
  readonly most: number;
  readonly waiting: Set<number>;
  /** Number of members that have come, in the order of the graph. */
  come: number;
}

/** Puts the steps of a graph into launches. */
export class SharedOrder {
  readonly #graph: KernelGraph;
  readonly #limits: HeldLimits;
  readonly #alike: readonly (Alike | null)[];
  readonly #groups: ReadonlySet<Alike>;
  /** Groups that wait for nothing but what they read. */
  readonly #complete = new Set<Alike>();
  readonly #makers = new Map<number, number>();
  readonly #done: Uint8Array;
  readonly #launches: number[][] = [];
  readonly #live: LiveBytes;
  readonly #mostBytes: number;

  /** @param shareables One for each step; null for a step that is launched by itself. */
  constructor(graph: KernelGraph, shareables: readonly (Shareable | null)[], limits: HeldLimits) {
    this.#graph = graph;
    this.#limits = limits;
    const members = Map.groupBy(shareables.keys(), (k) => shareables[k]?.key);
    const groups = new Map<string, Alike>();
    for (const [key, all] of members) {
      if (key === undefined) continue;
      const { most } = shareables[all[0]!]!;
      groups.set(key, { members: all, most, waiting: new Set(), come: 0 });
    }
    this.#groups = new Set(groups.values());
    this.#alike = shareables.map((one) => one && groups.get(one.key)!);
    graph.steps.forEach(({ outputs }, k) => outputs.forEach((at) => this.#makers.set(at, k)));
    this.#done = new Uint8Array(graph.steps.length);
    this.#live = new LiveBytes(graph);
    this.#mostBytes = peakBytes(graph) + MAX_GROWTH;
  }

  /** The steps of each launch, by number. */
  run(): readonly (readonly number[])[] {
    for (let k = 0; k < this.#done.length; k++) {
      const alike = this.#alike[k];
      if (alike) this.#come(k, alike);
      else this.#demand(k);
      this.#launchComplete();
    }
    for (let k = 0; k < this.#done.length; k++) this.#demand(k);
    return this.#launches;
  }

  #come(k: number, alike: Alike): void {
    const { members, most, waiting } = alike;
    const isLast = ++alike.come === members.length;
    if (this.#done[k] === 0) waiting.add(k);
    if (isLast || waiting.size >= most) this.#complete.add(alike);
    if (this.#heldBy(alike) > this.#limits.waiting) this.#demand(waiting.values().next().value!);
  }

  /** Bytes of what other kernels make for those that wait. */
  #heldBy({ waiting }: Alike): number {
    const { steps, buffers } = this.#graph;
    let bytes = 0;
    for (const k of waiting) {
      for (const at of new Set(steps[k]!.inputs)) {
        if (this.#makers.has(at)) bytes += bytesOf(buffers[at]!);
      }
    }
    return bytes;
  }

  /** Launches those of which no more will come, where what they read is there. */
  #launchComplete(): void {
    for (const alike of this.#complete) {
      const { waiting } = alike;
      if ([...waiting].every((k) => this.#canRun(k))) {
        for (const k of waiting) this.#demand(k);
      }
      if (waiting.size === 0) this.#complete.delete(alike);
    }
  }

  /** Launches a step, and before it those that make what it reads. */
  #demand(wanted: number): void {
    const needed = this.#needed(wanted);
    while (needed.size > 0) {
      const next = this.#next(needed);
      if (this.#done[next] === 0) this.#launch(next);
      for (const k of needed) if (this.#done[k] === 1) needed.delete(k);
    }
  }

  /** Steps that have to run for one, and have not: the last first. */
  #needed(wanted: number): Set<number> {
    const needed = new Set(this.#done[wanted] === 1 ? [] : [wanted]);
    for (const k of needed) for (const maker of this.#missing(k)) needed.add(maker);
    return new Set([...needed].sort((a, b) => b - a));
  }

  /** One of them that can run: where possible, one that none which is like it has to wait for. */
  #next(needed: ReadonlySet<number>): number {
    let first = -1, looked = 0;
    for (const k of [...needed].reverse()) {
      if (!this.#canRun(k)) continue;
      if (first < 0) first = k;
      const alike = this.#alike[k];
      if (!alike || ++looked > MAX_AHEAD) return k;
      const isLast = needed.keys().every((other) =>
        this.#alike[other] !== alike || this.#canRun(other)
      );
      if (isLast) return k;
    }
    return first;
  }

  /** Steps that have to run before this one. */
  #missing(k: number): number[] {
    return this.#graph.steps[k]!.inputs.flatMap((at) => {
      const maker = this.#makers.get(at);
      return maker === undefined || maker === k || this.#done[maker] === 1 ? [] : [maker];
    });
  }

  #canRun(k: number): boolean {
    return this.#missing(k).length === 0;
  }

  #launch(k: number): void {
    const alike = this.#alike[k] ?? null;
    this.#makeRoom(this.#graph.steps[k]!, alike);
    this.#emit(alike ? this.#withOthers(k, alike) : [k], alike);
  }

  #emit(members: number[], alike: Alike | null): void {
    const { steps } = this.#graph;
    for (const member of members) {
      this.#done[member] = 1;
      alike?.waiting.delete(member);
      this.#live.begin(steps[member]!);
    }
    for (const member of members) this.#live.end(steps[member]!);
    this.#launches.push(members.sort((a, b) => a - b));
  }

  /** Launches others that wait, those first that hold most, where memory would be short for a step. */
  #makeRoom(step: Step, own: Alike | null): void {
    const { steps } = this.#graph;
    while (!this.#hasRoom(this.#live.taken(step))) {
      let best: Alike | null = null, most = 0;
      for (const alike of this.#groups) {
        if (alike === own) continue;
        let bytes = 0;
        for (const k of alike.waiting) if (this.#canRun(k)) bytes += this.#live.freed(steps[k]!);
        if (bytes > most) [best, most] = [alike, bytes];
      }
      if (best === null) return;
      const first = [...best.waiting].find((k) => this.#canRun(k))!;
      this.#emit(this.#waitingWith(first, best), best);
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#live.held + bytes <= this.#mostBytes;
  }

  /** A step with those that wait and can run, as many as one launch takes and memory allows. */
  #waitingWith(k: number, { waiting, most }: Alike): number[] {
    const { steps } = this.#graph, found = [k];
    let taken = this.#live.taken(steps[k]!);
    for (const other of waiting) {
      if (found.length === most) break;
      if (other === k || !this.#canRun(other)) continue;
      taken += this.#live.taken(steps[other]!);
      if (!this.#hasRoom(taken)) break;
      found.push(other);
    }
    return found;
  }

  /** A step with those that are launched with it: first those that wait, then some to come. */
  #withOthers(k: number, alike: Alike): number[] {
    const { members, most, come } = alike, { steps, buffers } = this.#graph;
    const found = this.#waitingWith(k, alike);
    let made = 0, taken = 0, readsStored = true;
    const add = (step: Step): void => {
      readsStored &&= step.inputs.every((at) => buffers[at]!.isStored);
      for (const at of new Set(step.outputs)) made += bytesOf(buffers[at]!);
      taken += this.#live.taken(step);
    };
    for (const member of found) add(steps[member]!);
    for (let next = come; next < members.length && next < come + MAX_AHEAD; next++) {
      if (found.length === most) break;
      const member = members[next]!, step = steps[member]!;
      if (this.#done[member] === 1 || !this.#isThere(step)) continue;
      const isStored = readsStored && step.inputs.every((at) => buffers[at]!.isStored);
      if (made > (isStored ? this.#limits.earlyOfStored : this.#limits.early)) break;
      if (!this.#hasRoom(taken + this.#live.taken(step))) break;
      found.push(member);
      add(step);
    }
    return found;
  }

  /** True where all that a step reads is in memory. */
  #isThere({ inputs }: Step): boolean {
    return inputs.every((at) => {
      const maker = this.#makers.get(at);
      return maker === undefined ? this.#graph.buffers[at]!.isStored : this.#done[maker] === 1;
    });
  }
}
