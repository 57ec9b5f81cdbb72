import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { type BlockRequest, PoolBase } from "./base_pool.ts";
import { MiB, nextPowerOfTwo, roundUp } from "../core/bytes.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { sourceOf } from "../sources/device_source.ts";
import type { FenceEvent, FenceQueue } from "../fences/fence.ts";
import { type Owner, OwnerTable } from "../fences/owner_table.ts";
import { type Block, describeHandle, PooledHandle } from "./handle.ts";
import type { BlockPlace, BlockSnapshot, BufferHandle, SegmentSnapshot } from "../core/pool.ts";
import type { Chunk } from "../regions/chunk.ts";
import { Region } from "../regions/region.ts";
import { type CachedSubBuffer, SlabSegment } from "./slab_segment.ts";
import type { MemorySource } from "../sources/source.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Blocks are multiples of this (or of the device's alignment, where that is larger). */
const GRANULARITY_BYTES = 256;
/** Segments for one large request are multiples of this, so that they serve similar ones later. */
const LARGE_SEGMENT_GRANULARITY_BYTES = 2 * MiB;
/** Sub-buffers that a segment keeps beside those in use. */
const MAX_IDLE_SUB_BUFFERS = 256;

/** Options of a SlabPool. */
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

/** Rules for the values of {@linkcode SlabPoolOptions}. */
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
 * A block's `buffer` is a sub-buffer, made at its first use and kept for the next holder
 * of that place. Callers that pass `base` and `offset` to kernels and commands need none.
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
  readonly #owners: OwnerTable;
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
    this.#granularity = Math.max(GRANULARITY_BYTES, source.alignment);
    this.segmentBytes = Math.min(
      roundUp(options.segmentBytes ?? 64 * MiB, this.#granularity),
      source.maxAllocationBytes,
    );
    this.#divides = options.subBuffers ?? source.createSubBuffer !== undefined;
    this.#owners = new OwnerTable(source.defaultQueue, (owner) => this.#hasFree(owner));
    this.#common = this.#arenaOf(undefined);
  }

  /** A free block of the request's size, else a new one. */
  protected override tryAllocateBlock({ nbytes, flags, queue }: BlockRequest): Block<B> | null {
    const size = this.#divides ? roundUp(nbytes, this.#granularity) : wholeSize(nbytes);
    const arena = flags === undefined ? this.#common : this.#arenaOf(flags);
    const owner = this.#owners.of(queue);
    const chunk = this.#find(arena.region, size, owner) ?? this.#grow(arena, size, owner);
    return chunk === null ? null : this.#subBufferOf(chunk);
  }

  #find(region: Region, size: number, owner: Owner): Chunk | null {
    const own = region.allocate(size, owner, !this.#divides);
    if (own !== null || this.#owners.isSingleQueue) return own;
    if (this.#mergeFromIdle(owner) === 0) return null;
    return region.allocate(size, owner, !this.#divides);
  }

  /** Makes a block free for `queue`, and for others behind `fence`. */
  protected override deallocate(
    block: Block<B>,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
  ): void {
    const owner = this.#owners.of(queue);
    if (fence !== null) owner.addFence(fence);
    const { chunk } = block as CachedSubBuffer<B>;
    this.#regionOf(chunk).free(chunk, owner);
  }

  /**
   * Makes several blocks of one; see {@linkcode Pool.divide}. Null where segments are not divided,
   * or a place does not lie at a multiple of their alignment.
   */
  divide(handle: BufferHandle<B>, places: readonly BlockPlace[]): PooledHandle<B>[] | null {
    const block = handle instanceof PooledHandle && handle.live ? handle.block : null;
    const isFit = places.every(({ offset }) => offset % this.#granularity === 0);
    if (!this.#divides || !isFit || block === null) return null;
    const { chunk } = block as CachedSubBuffer<B>;
    const sizes = places.slice(1).map(({ offset }, k) => offset - places[k]!.offset);
    const chunks = this.#regionOf(chunk).divide(chunk, sizes);
    const pooled = handle as PooledHandle<B>;
    return this.lendParts(pooled, places, chunks.map((part) => this.#subBufferOf(part)));
  }

  /** The default queue was released: its free blocks can no longer be waited for. */
  protected override discardFreeOfDefault(): void {
    this.#mergeFrom(this.#owners.default, this.#owners.nobody);
  }

  /** Takes a block back that is never lent again. */
  protected override discard(block: Block<B>): void {
    const { chunk } = block as CachedSubBuffer<B>;
    this.#regionOf(chunk).free(chunk, this.#owners.nobody);
  }

  /** Makes free blocks of other queues the request's own. */
  protected override mergeFromQueues({ queue }: BlockRequest): number {
    const owner = this.#owners.of(queue);
    const others = this.#owners.othersWithFree(owner);
    if (others.length === 0) return 0;
    const fences = others.flatMap(({ fence }) => fence ?? []);
    const usesDefault = others.includes(this.#owners.default);
    this.orderAfter(queue, usesDefault ? this.fences.defaultQueue : queue, fences);
    const fence = this.fences.fenceOn(queue);
    if (fence !== null) owner.addFence(fence);
    return this.#mergeFromAll(others, owner);
  }

  /** Takes over the free blocks of others where that needs no waiting; returns their bytes. */
  #mergeFromIdle(owner: Owner): number {
    return this.#mergeFromAll(
      this.#owners.othersWithFree(owner).filter(({ isIdle }) => isIdle),
      owner,
    );
  }

  #hasFree(owner: Owner): boolean {
    return this.#arenas.some(({ region }) => region.hasFree(owner));
  }

  #mergeFromAll(others: readonly Owner[], to: Owner): number {
    return others.reduce((bytes, from) => bytes + this.#mergeFrom(from, to), 0);
  }

  #mergeFrom(from: Owner, to: Owner): number {
    return this.#arenas.reduce((bytes, { region }) => bytes + region.mergeFrom(from, to), 0);
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
    return this.#arenas.find(({ region }) => region.has(chunk.segment))!.region;
  }

  /** Adds a segment and takes `size` of it; a smaller one where a regular one is refused. */
  #grow(arena: Arena, size: number, owner: Owner): Chunk | null {
    for (const nbytes of this.#segmentSizes(size)) {
      const id = this.#nextSegment;
      const buffer = this.reserved.reserve(id, nbytes, arena.flags);
      if (buffer === null) continue;
      this.#nextSegment++;
      const createSubBuffer = (part: CachedSubBuffer<B>) => this.#createSubBuffer(part);
      arena.region.add(new SlabSegment(id, nbytes, buffer, createSubBuffer), owner);
      return arena.region.allocate(size, owner);
    }
    return null;
  }

  #segmentSizes(size: number): number[] {
    if (!this.#divides) return [size];
    if (size > this.segmentBytes / 2) {
      return [roundUp(size, Math.min(LARGE_SEGMENT_GRANULARITY_BYTES, this.segmentBytes)), size];
    }
    const sizes: number[] = [];
    for (let nbytes = this.segmentBytes; nbytes > size; nbytes /= 2) {
      sizes.push(roundUp(nbytes, this.#granularity));
    }
    return [...sizes, size];
  }

  #subBufferOf(chunk: Chunk): CachedSubBuffer<B> {
    const segment = chunk.segment as SlabSegment<B>;
    return segment.subBufferOf(chunk) ?? this.#addSubBuffer(segment, chunk);
  }

  #addSubBuffer(segment: SlabSegment<B>, chunk: Chunk): CachedSubBuffer<B> {
    if (segment.subBuffers.length - segment.live >= MAX_IDLE_SUB_BUFFERS) {
      for (const part of segment.evict()) this.#releaseSubBuffer(part);
    }
    return segment.addSubBuffer(chunk);
  }

  /** Makes the memory object of a sub-buffer. */
  #createSubBuffer(part: CachedSubBuffer<B>): B {
    const { parent, offset, size } = part;
    if (size === parent.size) return parent.buffer;
    if (!this.source.subBuffersMayOverlap) {
      for (const other of parent.subBuffers) {
        if (other.overlaps(part)) this.#releaseSubBuffer(other);
      }
    }
    const object = this.source.createSubBuffer!(parent.buffer, offset, size);
    this.counters.subBuffers++;
    return object;
  }

  /** Lets the memory object of a sub-buffer go. */
  #releaseSubBuffer(part: CachedSubBuffer<B>): void {
    const { object } = part;
    part.object = null;
    if (object !== null && object !== part.base) this.source.destroy(object);
  }

  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  override trim(bytes = Infinity): number {
    requireValue("trim", "bytes", bytes, takes.byteLimit);
    const idle = this.#arenas.flatMap(({ region }) =>
      [...region.segments()].filter(({ live }) => live === 0).map((segment) => ({
        region,
        segment,
      }))
    );
    idle.sort((a, b) => b.segment.size - a.segment.size || a.segment.id - b.segment.id);
    let freed = 0;
    for (const { region, segment } of idle) {
      if (freed >= bytes) break;
      region.shrink(segment);
      freed += segment.size;
      this.#destroySegment(segment as SlabSegment<B>);
    }
    return freed;
  }

  /** Ends the pool: every block becomes `destroyed`. */
  override destroy(): void {
    try {
      super.destroy();
    } finally {
      this.#owners.releaseFences();
    }
  }

  #destroySegment(segment: SlabSegment<B>): void {
    segment.destroyed = true;
    runAll([
      ...segment.subBuffers.map((part) => () => this.#releaseSubBuffer(part)),
      () => this.reserved.unreserve(segment.id, segment.buffer, segment.size),
    ]);
  }

  /** Bytes of the largest block that could be handed out without asking the driver. */
  override get largestFreeBytes(): number {
    return Math.max(...this.#arenas.map(({ region }) => region.largestFree));
  }

  /** Every segment with its blocks. */
  override segments(): SegmentSnapshot[] {
    return this.#arenas
      .flatMap(({ region }) => [...region.segments()] as SlabSegment<B>[])
      .sort((a, b) => a.id - b.id)
      .map((segment) => ({
        id: segment.id,
        nbytes: segment.size,
        blocks: [...segment.chunks()].map((chunk) => this.#describe(segment, chunk)),
      }));
  }

  #describe(segment: SlabSegment<B>, chunk: Chunk): BlockSnapshot {
    const { offset, size: nbytes } = chunk;
    if (chunk.owner !== null) {
      return { offset, nbytes, state: chunk.owner === this.#owners.default ? "free" : "fenced" };
    }
    const holder = segment.heldAt(offset)?.holder;
    if (!holder) return { offset, nbytes, state: "fenced" };
    return { offset, nbytes, state: "live", allocation: describeHandle(holder) };
  }
}

/** Two sizes a doubling: coarse enough that whole buffers find new users when shapes vary. */
function wholeSize(nbytes: number): number {
  const power = Math.max(GRANULARITY_BYTES, nextPowerOfTwo(nbytes));
  return nbytes <= 0.75 * power ? 0.75 * power : power;
}
