/**
 * The memory of a compiled function for results on the way: its launches are known, and so is how long
 * each of their results is needed. All have a place in a few segments, the same one in every call, which
 * they share with those that are needed at another time.
 */
import {
  type Block,
  BlockPart,
  MAX_BASE_BYTES,
  type RecordedLaunch,
} from "../../backend/internal.ts";
import type { AnyDeviceMemory, DeviceMemory, Storage } from "../../memory/mod.ts";
import { type Lifetime, placeLifetimes, type Placement } from "../../memory/regions/placement.ts";

const MiB = 2 ** 20;
/** Blocks of a pool begin at multiples of this at most: kernels are written for it (vectors, tensor maps). */
const ALIGNMENT_BYTES = 512;
/** A segment of the usual pool: what the recorded call gave back can serve again. */
const SEGMENT_BYTES = 64 * MiB;

/** A result on the way, and its lifetime. */
interface Interior extends Lifetime {
  readonly block: Block;
}

/** Places of results on the way. */
export interface Scratch {
  /** For the block of the recorded call, the one of replays. */
  readonly blocks: ReadonlyMap<Block, Block>;
  /** Blocks that own the memory. */
  readonly owned: Block[];
}

/**
 * Plans and allocates the memory of recorded launches.
 *
 * @param memory The device's.
 * @param launches What is replayed.
 * @param isInterior True for blocks that nobody needs but the launches.
 * @throws {OutOfMemoryError} When there is no memory for it; none is taken then.
 */
export function planScratch(
  memory: DeviceMemory,
  launches: readonly RecordedLaunch[],
  isInterior: (block: Block) => boolean,
): Scratch {
  const alone = blocksOfTheirOwn(launches);
  const lifetimes = lifetimesOf(launches, isInterior);
  const isShared = ({ block, nbytes }: Interior): boolean =>
    nbytes > 0 && nbytes < MAX_BASE_BYTES && !alone.has(block);
  const shared = lifetimes.filter(isShared);
  const { places, segments } = placed(shared);
  const owned: Block[] = [], blocks = new Map<Block, Block>();
  // What the recorded call used lies free, in pieces of other sizes: it would do so as long as this lives.
  const total = segments.reduce((sum, nbytes) => sum + nbytes, 0);
  if (total >= SEGMENT_BYTES) memory.pool.trim(total);
  try {
    const allocate = (nbytes: number): Block => {
      const block = memory.allocate(nbytes, { label: "compiled" });
      owned.push(block);
      return block;
    };
    const wholes = segments.map(allocate);
    shared.forEach(({ block, nbytes }, k) => {
      const { segment, offset } = places[k]!;
      blocks.set(block, new BlockPart(wholes[segment]!, offset, nbytes));
    });
    shareWhole(lifetimes.filter((each) => !isShared(each)), allocate, blocks);
  } catch (error) {
    for (const block of owned) block.release();
    throw error;
  }
  return { blocks, owned };
}

/** Places in segments of the size that takes the least memory; where several do, the smallest size. */
function placed(lifetimes: readonly Lifetime[]): Placement {
  const largest = lifetimes.reduce((most, { nbytes }) => Math.max(most, nbytes), SEGMENT_BYTES);
  const segmentBytes = [largest, 4 * largest, MAX_BASE_BYTES]
    .map((size) => Math.min(size, MAX_BASE_BYTES));
  return placeLifetimes(lifetimes, { alignment: ALIGNMENT_BYTES, segmentBytes });
}

/** Blocks that a launch can only take as memory objects of their own. */
function blocksOfTheirOwn(launches: readonly RecordedLaunch[]): ReadonlySet<Block> {
  const found = launches.filter(({ launch }) => launch.needsOwnBuffers)
    .flatMap(({ inputs, outputs }) => [...inputs, ...outputs]);
  return new Set(found);
}

/** From the launch that writes a result to the last one that uses it. */
function lifetimesOf(
  launches: readonly RecordedLaunch[],
  isInterior: (block: Block) => boolean,
): Interior[] {
  const first = new Map<Block, number>(), last = new Map<Block, number>();
  // What is kept from one replay to the next shares its place with nothing.
  for (const { launch: { kept }, outputs } of launches) {
    const block = kept && outputs[kept.output]!;
    if (!block || !isInterior(block)) continue;
    first.set(block, 0);
    last.set(block, launches.length);
  }
  launches.forEach(({ inputs, outputs }, k) => {
    for (const block of [...outputs, ...inputs]) {
      if (!isInterior(block)) continue;
      if (!first.has(block)) first.set(block, k);
      last.set(block, Math.max(k, last.get(block) ?? k));
    }
  });
  return [...first].map(([block, at]) => ({
    block,
    first: at,
    last: last.get(block)!,
    nbytes: block.nbytes,
  }));
}

/** Gives each a whole block: the smallest that is free by then and large enough, or a new one. */
function shareWhole(
  lifetimes: readonly Interior[],
  allocate: (nbytes: number) => Block,
  blocks: Map<Block, Block>,
): void {
  const taken: { block: Block; until: number }[] = [];
  for (const { block, first, last, nbytes } of lifetimes) {
    const [fit] = taken.filter((each) => each.until < first && each.block.nbytes >= nbytes)
      .sort((a, b) => a.block.nbytes - b.block.nbytes);
    if (fit) fit.until = last;
    else taken.push({ block: allocate(nbytes), until: last });
    blocks.set(block, (fit ?? taken.at(-1)!).block);
  }
}

/*
 * Places of the former values of tensors that a compiled function assigns, where the next ones cannot be written
 * over them: these take the places, so that such tensors are in two by turns and nearly all launches find their
 * arguments set. A pool gives back the same places in another order each time: a vision transformer's step set
 * 1,200 arguments, 1 ms of the host.
 */

/**
 * Programs that keep places in a memory, the last that ran at the end: gradients with statistics, updates and
 * averages are compiled one by one as a rule. They give the places back where memory is short.
 */
const holders = new WeakMap<AnyDeviceMemory, Set<FormerPlaces>>();
const MAX_HOLDERS = 4;

/** The places of one program, by the slots of next values. */
export class FormerPlaces implements Disposable {
  readonly #memory: AnyDeviceMemory;
  readonly #blocks = new Map<number, Block>();

  constructor(memory: AnyDeviceMemory) {
    this.#memory = memory;
  }

  /** The place of a slot's value before the last, the caller's from now on; null where it is not known. */
  take(slot: number): Block | null {
    const block = this.#blocks.get(slot);
    this.#blocks.delete(slot);
    return block ?? null;
  }

  /** Keeps the place of a value that nobody holds but the caller, whose reference it takes over. */
  keep(slot: number, storage: Storage<unknown>): void {
    const present = this.#holders();
    if (this.#blocks.size === 0) present.delete(this);
    present.add(this);
    const [first] = present;
    if (present.size > MAX_HOLDERS) first![Symbol.dispose]();
    this.#blocks.set(slot, storage.take() as Block);
  }

  #holders(): Set<FormerPlaces> {
    const known = holders.get(this.#memory);
    if (known) return known;
    const present = new Set<FormerPlaces>();
    holders.set(this.#memory, present);
    const reclaim = (): void => present.forEach((places) => places[Symbol.dispose]());
    this.#memory.addReclaimer({ name: "places of former values of compiled steps", reclaim });
    return present;
  }

  /** Gives all places back; more may be kept. */
  [Symbol.dispose](): void {
    for (const block of this.#blocks.values()) block.release();
    this.#blocks.clear();
    this.#holders().delete(this);
  }
}
