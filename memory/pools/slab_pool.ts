import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { type BlockRequest, PoolBase } from "./base_pool.ts";
import { MiB, nextPowerOfTwo, roundUp } from "../core/bytes.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { sourceOf } from "../sources/device_source.ts";
import { type FenceEvent, type FenceQueue, hasEnded, Marker } from "../core/fences.ts";
import { type Block, describeHandle } from "./handle.ts";
import type { BlockSnapshot, SegmentSnapshot } from "./pool.ts";
import { type Chunk, HELD, Region } from "../regions/region.ts";
import { Segment, type Slice } from "../regions/segment.ts";
import type { MemorySource } from "../sources/source.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Blocks are multiples of this (or of the device's alignment, where that is larger). */
const GRANULARITY = 256;
/** Segments for one large request are multiples of this, so that they serve similar ones later. */
const LARGE_GRANULARITY = 2 * MiB;
/** Places that a segment remembers, with their sub-buffers, beside those in use. */
const MAX_IDLE_SLICES = 256;

// Owners of free chunks. In a pool with a home queue, chunks that nobody in particular has used are
// its.
const ANYONE = 0;
const NOBODY = 1;
const FIRST_QUEUE = 2;

/** Whose free blocks they are, and what others must wait for before they use them. */
interface Owner {
  readonly queue: FenceQueue | undefined;
  fence: FenceEvent | null;
}

/** How a SlabPool is set up. */
export interface SlabPoolOptions {
  /** Bytes of a segment; requests above half of it get one of their own. Default: 64 MiB. */
  readonly segmentBytes?: number;
  /** The most bytes to hold from the driver. Default: no limit. */
  readonly maxBytes?: number;
  /**
   * `false` never divides a segment: each block is a buffer of its own, of 2^k or 1.5 * 2^k bytes.
   * For drivers whose sub-buffers are broken. Default: what the source can.
   */
  readonly subBuffers?: boolean;
}

/** What {@linkcode SlabPoolOptions} may hold. */
export const slabRules: Rules<SlabPoolOptions> = {
  segmentBytes: takes.count,
  maxBytes: takes.byteLimit,
  subBuffers: takes.bool,
};

/** Segments of one kind of memory. */
interface Arena {
  readonly flags: bigint | undefined;
  readonly region: Region;
}

/**
 * The default pool: large segments from the driver, divided into blocks. Best fit, split on
 * allocation, coalesced on release; once a workload has found its shape, the driver is called no
 * more.
 *
 * A block's `buffer` is a sub-buffer, made when somebody asks for it and kept for the next holder
 * of that place. Who passes its `base` and `offset` to kernels and commands needs none.
 *
 * Blocks of different queues are kept apart. When memory is short, a queue takes over the others'
 * free blocks and waits for them on the device.
 *
 * @example A pool of the host's memory
 * ```ts
 * import { HostPool } from "@netcl/netcl/memory";
 * import { assertEquals } from "@std/assert";
 *
 * const pool = new HostPool();
 * const handle = pool.allocate(1000);
 * assertEquals([handle.nbytes, handle.bucketSize], [1000, 1024]);
 * handle.release();
 * assertEquals(pool.stats.requestedBytes, 0);
 * ```
 */
export class SlabPool<B = Buffer> extends PoolBase<B> {
  /** Bytes of a regular segment. */
  readonly segmentBytes: number;
  readonly #granularity: number;
  readonly #divides: boolean;
  readonly #owners: Owner[];
  readonly #arenas: Arena[] = [];
  readonly #common: Arena;
  #nextSegment = 0;

  /**
   * Begins with no memory.
   *
   * @param from The queue whose context and device the memory is for, or any other source.
   * @param options Sizes and limits.
   */
  constructor(from: CommandQueue | MemorySource<B>, options: SlabPoolOptions = {}) {
    checkOptions("make a pool", options, slabRules);
    const source = sourceOf<B>(from);
    super(source, options.maxBytes);
    this.#granularity = Math.max(GRANULARITY, source.alignment);
    this.segmentBytes = Math.min(
      roundUp(options.segmentBytes ?? 64 * MiB, this.#granularity),
      source.maxAllocationBytes,
    );
    this.#divides = options.subBuffers ?? source.slice !== undefined;
    this.#owners = [{ queue: this.home, fence: null }, { queue: undefined, fence: null }];
    this.#common = this.#arenaOf(undefined);
  }

  /** A free block of the request's size, else a new one. */
  protected override take({ nbytes, flags, queue }: BlockRequest): Block<B> | null {
    const size = this.#divides ? roundUp(nbytes, this.#granularity) : wholeSize(nbytes);
    const arena = flags === undefined ? this.#common : this.#arenaOf(flags);
    const owner = this.#ownerOf(queue);
    const chunk = this.#find(arena.region, size, owner) ?? this.#grow(arena, size, owner);
    return chunk === null ? null : this.#sliceOf(chunk);
  }

  #find(region: Region, size: number, owner: number): Chunk | null {
    const own = region.allocate(size, owner, !this.#divides);
    if (own !== null || this.#owners.length === FIRST_QUEUE) return own;
    if (this.#adoptIdle(owner) === 0) return null;
    return region.allocate(size, owner, !this.#divides);
  }

  /** Makes a block free for `queue`, and for others behind `fence`. */
  protected override give(
    block: Block<B>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void {
    const owner = this.#ownerOf(queue);
    if (fence !== null) this.#setFence(this.#owners[owner]!, fence);
    const { chunk } = block as Slice<B>;
    this.#regionOf(chunk).free(chunk, owner);
  }

  /**
   * The later marker of an in-order queue stands for the earlier ones too. A block that was parked
   * comes with an earlier one than its queue may have by now.
   */
  #setFence(owner: Owner, fence: FenceEvent): void {
    const isOlder = owner.fence instanceof Marker && fence instanceof Marker &&
      fence.serial < owner.fence.serial;
    const former = isOlder ? fence : owner.fence;
    if (!isOlder) owner.fence = fence;
    former?.release();
  }

  /** The home queue was released: its free blocks can no longer be waited for. */
  protected override abandonHome(): void {
    this.#moveFree(ANYONE, NOBODY);
  }

  /** Takes a block back that nobody may have again. */
  protected override abandon(block: Block<B>): void {
    const { chunk } = block as Slice<B>;
    this.#regionOf(chunk).free(chunk, NOBODY);
  }

  /** Makes free blocks of other queues the request's own. */
  protected override adopt({ queue }: BlockRequest): number {
    const owner = this.#ownerOf(queue);
    const others = [...this.#owners.keys()].filter((other) =>
      other !== owner && other !== NOBODY && this.#hasFree(other)
    );
    if (others.length === 0) return 0;
    const fences = others.flatMap((other) => this.#owners[other]!.fence ?? []);
    this.order(queue, others.includes(ANYONE) ? this.home : queue, fences);
    const fence = owner >= FIRST_QUEUE ? this.fenceOn(queue) : null;
    if (fence !== null) this.#setFence(this.#owners[owner]!, fence);
    return others.reduce((bytes, other) => bytes + this.#moveFree(other, owner), 0);
  }

  /** Takes over the free blocks of others where that needs no waiting; returns their bytes. */
  #adoptIdle(owner: number): number {
    let bytes = 0;
    for (const [other, { queue, fence }] of this.#owners.entries()) {
      if (other === owner || other === NOBODY || !this.#hasFree(other)) continue;
      const idle = fence === null ? queue === undefined : hasEnded(fence);
      if (idle) bytes += this.#moveFree(other, owner);
    }
    return bytes;
  }

  #hasFree(owner: number): boolean {
    return this.#arenas.some(({ region }) => region.hasFree(owner));
  }

  #moveFree(from: number, to: number): number {
    return this.#arenas.reduce((bytes, { region }) => bytes + region.adopt(from, to), 0);
  }

  #ownerOf(queue: FenceQueue | undefined): number {
    if (queue === undefined || queue === this.home) return ANYONE;
    const known = this.#owners.findIndex((owner) => owner.queue === queue);
    return known >= 0 ? known : this.#addOwner(queue);
  }

  #addOwner(queue: FenceQueue): number {
    const isGone = ({ queue }: Owner, owner: number) => queue?.released && !this.#hasFree(owner);
    const gone = this.#owners.findIndex(isGone);
    if (gone < FIRST_QUEUE) return this.#owners.push({ queue, fence: null }) - 1;
    this.#owners[gone]!.fence?.release();
    this.#owners[gone] = { queue, fence: null };
    return gone;
  }

  #arenaOf(flags: bigint | undefined): Arena {
    let arena = this.#arenas.find((arena) => arena.flags === flags);
    if (arena === undefined) {
      arena = { flags, region: new Region() };
      this.#arenas.push(arena);
    }
    return arena;
  }

  #regionOf(chunk: Chunk): Region {
    if (this.#arenas.length === 1) return this.#common.region;
    return this.#arenas.find(({ region }) => region.has(chunk.span))!.region;
  }

  /** Adds a segment and takes `size` of it; a smaller one where a regular one is refused. */
  #grow(arena: Arena, size: number, owner: number): Chunk | null {
    for (const nbytes of this.#segmentSizes(size)) {
      const id = this.#nextSegment;
      const buffer = this.reserve(id, nbytes, arena.flags);
      if (buffer === null) continue;
      this.#nextSegment++;
      const cutOut = (slice: Slice<B>) => this.#cutOut(slice);
      arena.region.add(new Segment(id, nbytes, buffer, cutOut), owner);
      return arena.region.allocate(size, owner);
    }
    return null;
  }

  #segmentSizes(size: number): number[] {
    if (!this.#divides) return [size];
    if (size > this.segmentBytes / 2) {
      return [roundUp(size, Math.min(LARGE_GRANULARITY, this.segmentBytes)), size];
    }
    const sizes: number[] = [];
    for (let nbytes = this.segmentBytes; nbytes > size; nbytes /= 2) {
      sizes.push(roundUp(nbytes, this.#granularity));
    }
    return [...sizes, size];
  }

  #sliceOf(chunk: Chunk): Slice<B> {
    const segment = chunk.span as Segment<B>;
    return segment.sliceOf(chunk) ?? this.#addSlice(segment, chunk);
  }

  #addSlice(segment: Segment<B>, chunk: Chunk): Slice<B> {
    if (segment.slices.length - segment.live >= MAX_IDLE_SLICES) {
      for (const slice of segment.evict()) this.#join(slice);
    }
    return segment.addSlice(chunk);
  }

  /** Makes a slice's sub-buffer. */
  #cutOut(slice: Slice<B>): B {
    const { home, offset, size } = slice;
    if (size === home.size) return home.buffer;
    if (!this.source.slicesMayOverlap) {
      for (const other of home.slices) if (other.overlaps(slice)) this.#join(other);
    }
    const part = this.source.slice!(home.buffer, offset, size);
    this.counters.slices++;
    return part;
  }

  /** Lets a slice's sub-buffer go. */
  #join(slice: Slice<B>): void {
    const { cut } = slice;
    slice.cut = null;
    if (cut !== null && cut !== slice.base) this.source.destroy(cut);
  }

  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  override trim(bytes = Infinity): number {
    requireValue("trim", "bytes", bytes, takes.byteLimit);
    const idle = this.#arenas.flatMap(({ region }) =>
      [...region.spans()].filter((span) => span.live === 0).map((span) => ({ region, span }))
    );
    idle.sort((a, b) => b.span.size - a.span.size || a.span.id - b.span.id);
    let freed = 0;
    for (const { region, span } of idle) {
      if (freed >= bytes) break;
      region.shrink(span);
      freed += span.size;
      this.#destroySegment(span as Segment<B>);
    }
    return freed;
  }

  /** Ends the pool: every block becomes `destroyed`. */
  override destroy(): void {
    try {
      super.destroy();
    } finally {
      for (const owner of this.#owners) {
        owner.fence?.release();
        owner.fence = null;
      }
    }
  }

  #destroySegment(segment: Segment<B>): void {
    segment.destroyed = true;
    runAll([
      ...segment.slices.map((slice) => () => this.#join(slice)),
      () => this.unreserve(segment.id, segment.buffer, segment.size),
    ]);
  }

  /** Bytes of the largest block that could be handed out without asking the driver. */
  override get largestFreeBytes(): number {
    return Math.max(...this.#arenas.map(({ region }) => region.largestFree));
  }

  /** Every segment with its blocks. */
  override segments(): SegmentSnapshot[] {
    return this.#arenas
      .flatMap(({ region }) => [...region.spans()] as Segment<B>[])
      .sort((a, b) => a.id - b.id)
      .map((segment) => ({
        id: segment.id,
        nbytes: segment.size,
        blocks: [...segment.chunks()].map((chunk) => this.#describe(segment, chunk)),
      }));
  }

  #describe(segment: Segment<B>, chunk: Chunk): BlockSnapshot {
    const { offset, size: nbytes } = chunk;
    if (chunk.owner !== HELD) {
      return { offset, nbytes, state: chunk.owner === 0 ? "free" : "fenced" };
    }
    const holder = segment.heldAt(offset)?.holder;
    if (!holder) return { offset, nbytes, state: "fenced" };
    return { offset, nbytes, state: "live", allocation: describeHandle(holder) };
  }
}

/** Two sizes a doubling: coarse enough that whole buffers find new users when shapes vary. */
function wholeSize(nbytes: number): number {
  const power = Math.max(GRANULARITY, nextPowerOfTwo(nbytes));
  return nbytes <= 0.75 * power ? 0.75 * power : power;
}
