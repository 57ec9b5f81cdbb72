/** Plans of graphs that were run before: a training step is planned once. */
import type { Launchable, LoopKernel } from "../kernel/kernel.ts";
import type { Node } from "../graph/node.ts";
import { VaryingNumbers } from "./varying_numbers.ts";
import { streamOf } from "../graph/op.ts";
import type { RandomStream } from "../graph/scalar.ts";
import type { Request } from "./lower.ts";
import type { Plan } from "./memory_plan.ts";
import { Signature } from "../graph/signature.ts";

/** Place of a random node in its sequence, for the kernels of a plan. */
export interface StreamPlace {
  /** The node's position. */
  readonly at: number;
  readonly stream: { value: number };
}

/**
 * A graph that will be computed later. A plan remembers what is saved for it, so that it is made only where
 * no plan is known.
 */
export interface LaterGraph {
  /** Words that are equal for graphs that read the same of what is computed now. */
  readonly key: readonly (string | number)[];
  /** Makes it: the nodes that will be asked for. */
  nodes(): readonly Node[];
}

interface Entry {
  readonly hash: number;
  readonly words: Int32Array;
  readonly plan: Plan;
  readonly streams: readonly StreamPlace[];
  /** Of its graph. */
  readonly nodes: number;
  /** The next plan with the same hash. */
  next: Entry | null;
  /** Time of the last use. */
  used: number;
}

/** The plans that were used last, by what their graphs look like. */
export class PlanCache {
  /** The most plans that are kept. */
  static readonly MAX_PLANS = 512;
  readonly #entries = new Map<number, Entry>();
  readonly #signature = new Signature();
  #size = 0;
  #nodes = 0;
  #clock = 0;
  readonly #numbers = new VaryingNumbers();
  readonly #mostNodes: number;
  /** The nodes of a graph that is kept; a larger one would take the place of too many others. */
  readonly maxNodes: number;

  /** @param mostNodes The nodes of all graphs whose plans are kept. */
  constructor(mostNodes = 2 ** 21) {
    this.#mostNodes = mostNodes;
    this.maxNodes = Math.floor(mostNodes / 8);
  }

  /** The plan of a graph like this one; its random places are those of this graph. */
  find({ order, wanted, later }: Request, ahead: LaterGraph["key"] = []): Plan | null {
    this.#signature.describe(order, wanted, later, ahead);
    let entry = this.#entries.get(this.#signature.hash) ?? null;
    while (entry !== null && !this.#signature.equals(entry.words)) entry = entry.next;
    if (entry === null) return null;
    entry.used = ++this.#clock;
    for (const { at, stream } of entry.streams) {
      const drawn = streamOf(order[at]!.op);
      if (drawn) stream.value = drawn.value;
    }
    return entry.plan;
  }

  /** The plan of a graph that was met with other numbers: those that differ each time are data from now on. */
  findVaried(request: Request, ahead: LaterGraph["key"] = []): Plan | null {
    return this.#numbers.becomeData(request, ahead) ? this.find(request, ahead) : null;
  }

  /** Keeps a plan, with the random places of its kernels; returns it. */
  add(
    { order, wanted, later }: Request,
    plan: Plan,
    streams: readonly StreamPlace[],
    ahead: LaterGraph["key"] = [],
  ): Plan {
    const nodes = order.length;
    while (this.#size === PlanCache.MAX_PLANS || this.#nodes + nodes > this.#mostNodes) {
      this.#forgetOldest();
    }
    this.#signature.describe(order, wanted, later, ahead);
    const { hash } = this.#signature;
    const next = this.#entries.get(hash) ?? null;
    const words = this.#signature.take();
    this.#entries.set(hash, { hash, words, plan, streams, nodes, next, used: ++this.#clock });
    this.#size++;
    this.#nodes += nodes;
    return plan;
  }

  #forgetOldest(): void {
    let oldest: Entry | null = null;
    for (const first of this.#entries.values()) {
      for (let entry: Entry | null = first; entry !== null; entry = entry.next) {
        if (oldest === null || entry.used < oldest.used) oldest = entry;
      }
    }
    const { hash, next } = oldest!;
    let before = this.#entries.get(hash)!;
    if (before === oldest) {
      if (next === null) this.#entries.delete(hash);
      else this.#entries.set(hash, next);
    } else {
      while (before.next !== oldest) before = before.next!;
      before.next = next;
    }
    this.#size--;
    this.#nodes -= oldest!.nodes;
  }
}

/** The plan with random places of its own: the graph that it was made for lives on. */
export function withOwnStreams(
  plan: Plan,
  order: readonly Node[],
): { plan: Plan; streams: readonly StreamPlace[] } {
  const own = new Map<RandomStream, { value: number }>();
  const streams: StreamPlace[] = [];
  for (const { op, position } of order) {
    const drawn = streamOf(op);
    if (drawn === null) continue;
    const stream = own.get(drawn) ?? { value: drawn.value };
    own.set(drawn, stream);
    streams.push({ at: position, stream });
  }
  if (own.size === 0) return { plan, streams };
  const kernels = plan.kernels.map((planned) => ({
    ...planned,
    kernel: replace(planned.kernel, own),
  }));
  return { plan: { ...plan, kernels }, streams };
}

function replace(
  kernel: Launchable,
  own: ReadonlyMap<RandomStream, RandomStream>,
): Launchable {
  if (kernel.kind === "loop") return replaceInLoop(kernel, own);
  if (kernel.kind === "special" || kernel.kind === "custom") return kernel;
  if (kernel.kind === "attention") {
    const { dropout } = kernel;
    return dropout === null
      ? kernel
      : { ...kernel, dropout: { ...dropout, stream: own.get(dropout.stream)! } };
  }
  return {
    ...kernel,
    members: kernel.members.map((member) =>
      member.kind === "loop" ? replaceInLoop(member, own) : member
    ),
  };
}

function replaceInLoop(
  kernel: LoopKernel,
  own: ReadonlyMap<RandomStream, RandomStream>,
): LoopKernel {
  const exprs = kernel.exprs.map((e) =>
    e.op === "random" ? { ...e, stream: own.get(e.stream)! } : e
  );
  return { ...kernel, exprs };
}
