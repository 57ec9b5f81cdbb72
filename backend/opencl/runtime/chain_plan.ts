/** Choice of launches that become chains: runs of short ones, and what each of them waits for. */
import type { Block, LaunchPart, Place } from "../../execution/backend.ts";
import { canChain, type ChainMember, itemsOf } from "../codegen/chained_launch.ts";
import { KernelLaunch } from "./launch.ts";

/** A device as far as chains depend on it. */
export interface ChainRules {
  /** Barriers of some warps, and fences, by PTX. */
  readonly hasPtx: boolean;
  /** Bytes of a launch's arguments. */
  readonly argumentBytes: number;
}

/*
 * A kernel of a chain costs the device 1.7 us at least, and its groups have no more room than the largest leaves; a
 * launch costs the host 5 to 8: what is longer gains nothing.
 */
const MAX_BYTES = 2 ** 21;
const MAX_DENSE_BYTES = 2 ** 23;
const MAX_OPERATIONS = 2 ** 28;
/** Operations a byte from which on a kernel computes, rather than moves. */
const DENSE = 16;
/** Fewer kernels are not worth a program. */
const MIN_MEMBERS = 3;
const MAX_MEMBERS = 96;
/** A chain of layers has so many launches at least, of whole layers: then all have one text, which is built once. */
const PERIODIC_LAUNCHES = 24;
const MIN_PERIOD = 3;
const MAX_PERIOD = 64;
/** More different texts take the compiler too long. */
const MAX_TEXTS = 24;
/** Work-items of a group. */
const MAX_ITEMS = 256;
/** Arguments before those of members: state, errors. */
const HEAD_BYTES = 16;

/** A kernel in a chain. */
export interface PlannedMember extends ChainMember {
  readonly launch: KernelLaunch;
  /** Its blocks among those of the launch that it belongs to. */
  readonly reads: readonly number[];
  readonly writes: readonly number[];
}

/** Launches that become a chain. */
export interface PlannedChain {
  readonly first: number;
  /** Number of kernels of each launch. */
  readonly counts: readonly number[];
  readonly members: readonly PlannedMember[];
}

/** A block of a launch: its place in the program, and among the launch's. */
interface Slot {
  readonly place: Place;
  readonly at: number;
}

/** One kernel of a launch. */
interface Part extends LaunchPart<Slot> {
  readonly launch: KernelLaunch;
}

/** Chains of a program's launches, which are run in this order. */
export function planChains(
  launches: readonly LaunchPart<Place>[],
  rules: ChainRules,
): PlannedChain[] {
  const chains: PlannedChain[] = [], cuts = periodicCuts(launches.map(({ launch }) => launch.name));
  let open = new OpenChain(0, rules);
  launches.forEach(({ launch, inputs, outputs }, k) => {
    const slots = (places: readonly Place[]) => places.map((place, at): Slot => ({ place, at }));
    const parts = partsOf({ launch, inputs: slots(inputs), outputs: slots(outputs) }, rules);
    if (parts !== null && !cuts.has(k) && open.add(parts)) return;
    if (open.isUseful) chains.push(open.plan());
    open = new OpenChain(k, rules);
    if (parts === null || !open.add(parts)) open = new OpenChain(k + 1, rules);
  });
  if (open.isUseful) chains.push(open.plan());
  return chains;
}

/** The launches before which chains end, so that those of layers, whose kernels are the same, have one text. */
function periodicCuts(names: readonly string[]): ReadonlySet<number> {
  const cuts = new Set<number>();
  for (let k = 0; k < names.length; k++) {
    const period = periodAt(names, k);
    if (period === 0) continue;
    let end = k + 2 * period;
    while (end < names.length && names[end] === names[end - period]) end++;
    const step = period * Math.ceil(PERIODIC_LAUNCHES / period);
    for (; k + step <= end; k += step) cuts.add(k);
    cuts.add(k);
    k = end - 1;
  }
  return cuts;
}

/** The number of names that come again at once; 0 for none. */
function periodAt(names: readonly string[], from: number): number {
  for (let period = MIN_PERIOD; period <= MAX_PERIOD; period++) {
    if (from + 2 * period > names.length) break;
    let same = 0;
    while (same < period && names[from + same] === names[from + period + same]) same++;
    if (same === period) return period;
  }
  return 0;
}

/** A launch's kernels; null where one cannot be in a chain. */
function partsOf({ launch, inputs, outputs }: LaunchPart<Slot>, rules: ChainRules): Part[] | null {
  if (launch instanceof KernelLaunch) {
    const { generated } = launch, items = rules.hasPtx ? MAX_ITEMS : itemsOf(generated);
    return isShort(launch) && canChain(generated, items, rules.hasPtx)
      ? [{ launch, inputs, outputs }]
      : null;
  }
  const parts: Part[] = [];
  for (const part of launch.parts?.(inputs, outputs) ?? [null]) {
    const own = part && partsOf(part, rules);
    if (own === null) return null;
    parts.push(...own);
  }
  return parts;
}

/** False for what takes the device longer than the host; of some work the operations are not known. */
function isShort(launch: KernelLaunch): boolean {
  const { bytes, operations } = launch.work;
  const isFew = operations <= MAX_OPERATIONS || operations === Infinity;
  return isFew && bytes <= (isDense(launch) ? MAX_DENSE_BYTES : MAX_BYTES);
}

/** True for products and the like. */
function isDense({ work: { bytes, operations } }: KernelLaunch): boolean {
  return operations !== Infinity && operations > DENSE * bytes;
}

/** A chain that takes launches while its limits allow. */
class OpenChain {
  readonly #first: number;
  readonly #rules: ChainRules;
  readonly #counts: number[] = [];
  readonly #parts: Part[] = [];
  readonly #texts = new Set<string>();
  readonly #buffers = new Map<object, number>();
  #argumentBytes = HEAD_BYTES;

  constructor(first: number, rules: ChainRules) {
    this.#first = first;
    this.#rules = rules;
  }

  /** True where it is worth a program. */
  get isUseful(): boolean {
    return this.#parts.length >= MIN_MEMBERS;
  }

  /** Takes a launch's kernels, if there is room. */
  add(parts: readonly Part[]): boolean {
    const buffers = new Set(parts.flatMap(memoriesOf));
    const added = [...buffers].filter((memory) => !this.#buffers.has(memory));
    const texts = new Set([...this.#texts, ...parts.map(({ launch }) => launch.generated.source)]);
    const bytes = this.#argumentBytes + 8 * added.length + sum(parts.map(numberBytes));
    const isFull = bytes > this.#rules.argumentBytes || texts.size > MAX_TEXTS ||
      this.#parts.length + parts.length > MAX_MEMBERS;
    if (isFull || !parts.every((part) => this.#fits(part))) return false;
    for (const memory of added) this.#buffers.set(memory, this.#buffers.size);
    for (const text of texts) this.#texts.add(text);
    this.#argumentBytes = bytes;
    this.#counts.push(parts.length);
    this.#parts.push(...parts);
    return true;
  }

  /** Without barriers of some items all kernels have as many. */
  #fits({ launch }: Part): boolean {
    const [first] = this.#parts;
    return this.#rules.hasPtx || !first ||
      itemsOf(first.launch.generated) === itemsOf(launch.generated);
  }

  plan(): PlannedChain {
    const after = dependencies(this.#parts);
    const members = this.#parts.map((part, k): PlannedMember => ({
      launch: part.launch,
      generated: part.launch.generated,
      after: after[k]!,
      buffers: memoriesOf(part).map((memory) => this.#buffers.get(memory)!),
      reads: part.inputs.map(({ at }) => at),
      writes: part.outputs.map(({ at }) => at),
    }));
    return { first: this.#first, counts: this.#counts, members };
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

function memoriesOf({ inputs, outputs }: Part): object[] {
  return [...inputs, ...outputs].map(({ place }) => memoryOf(place));
}

/** The memory object of a block that stays where it is; the place itself where it may move, or begins far behind. */
function memoryOf(place: Place): object {
  const { block } = place;
  return block === null || block.offset >= 2 ** 31 ? place : block.base as object;
}

/** Bytes of a kernel's arguments that are no buffers, 8 at most each. */
function numberBytes({ launch: { generated } }: Part): number {
  return 4 * generated.buffers.length + 8 * generated.parameters.length;
}

/** For each kernel those that must be done before, without those that these wait for. */
function dependencies(parts: readonly Part[]): number[][] {
  const reached: Set<number>[] = [], after: number[][] = [];
  parts.forEach((part, k) => {
    const all = new Set<number>(), direct: number[] = [];
    for (let earlier = k - 1; earlier >= 0; earlier--) {
      if (all.has(earlier) || !conflict(parts[earlier]!, part)) continue;
      direct.push(earlier);
      all.add(earlier);
      for (const each of reached[earlier]!) all.add(each);
    }
    reached.push(all);
    after.push(direct);
  });
  return after;
}

/** True where one writes what the other reads or writes. */
function conflict(a: Part, b: Part): boolean {
  const meet = (writes: readonly Slot[], others: readonly Slot[]): boolean =>
    writes.some((write) => others.some((other) => overlap(write.place, other.place)));
  return meet(a.outputs, [...b.inputs, ...b.outputs]) || meet(b.outputs, a.inputs);
}

function overlap(a: Place, b: Place): boolean {
  if (a === b) return true;
  if (a.block === null || b.block === null) return false;
  const end = ({ offset, nbytes }: Block): number => offset + nbytes;
  return a.block.base === b.block.base && a.block.offset < end(b.block) &&
    b.block.offset < end(a.block);
}
