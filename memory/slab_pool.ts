import type { Buffer, CommandQueue } from "../ffi/mod.ts";
import { PoolBase } from "./base_pool.ts";
import { MiB, roundUp } from "./bytes.ts";
import { sourceOf } from "./device_source.ts";
import { type FenceQueue, markerOf, orderAfter } from "./fences.ts";
import type { Block, PooledHandle } from "./handle.ts";
import type { BlockSnapshot, SegmentSnapshot } from "./pool.ts";
import { type Chunk, HELD, Region, Span } from "./region.ts";
import type { MemorySource } from "./source.ts";

/** Blocks are multiples of this (or of the device's alignment, where that is larger). */
const GRANULARITY = 256;
/** Segments for one large request are multiples of this, so that they serve similar ones later. */
const LARGE_GRANULARITY = 2 * MiB;
/** Cached sub-buffer objects a segment; a workload whose shapes never settle would pile them up. */
const MAX_SLICES = 4096;

/** How a SlabPool is set up. */
export interface SlabPoolOptions {
  /** Bytes of a segment; requests above half of it get one of their own. Default: 64 MiB. */
  readonly segmentBytes?: number;
  /** The most bytes to hold from the driver. Default: no limit. */
  readonly maxBytes?: number;
  /**
   * `false` never divides a segment: each block is a buffer of its own, reused for requests up to an
   * eighth smaller. For drivers whose sub-buffers are broken. Default: what the source can.
   */
  readonly subBuffers?: boolean;
}

/** A place in a segment with its sub-buffer, which is kept for the next holder of just that place. */
class Slice<B> implements Block<B> {
  destroyed = false;
  holder: PooledHandle<B> | null = null;
  sibling: Slice<B> | undefined = undefined;
  chunk: Chunk;

  constructor(readonly buffer: B, chunk: Chunk) {
    this.chunk = chunk;
    this.size = chunk.size;
    this.offset = chunk.offset;
  }
  readonly size: number;
  readonly offset: number;
}

class Segment<B> extends Span {
  /** Slices by offset; those of different sizes at one offset are linked. */
  slices = new Map<number, Slice<B>>();
  numSlices = 0;

  constructor(id: number, size: number, readonly buffer: B) {
    super(id, size);
  }
}

/** Segments of one kind of memory. */
interface Arena {
  readonly flags: bigint | undefined;
  readonly region: Region;
}

/**
 * The default pool: large segments from the driver, divided into blocks that are handed out as
 * sub-buffers. Best fit, split on allocation, coalesced on release; once a workload has found its
 * shape, the driver is called no more.
 *
 * Blocks of different queues are kept apart. When memory is short, a queue takes over the others' free
 * blocks and waits for them on the device.
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
  /** The queue of requests that name none. */
  readonly #home: FenceQueue | undefined;
  readonly #queues: (FenceQueue | undefined)[];
  readonly #arenas: Arena[] = [];
  readonly #common: Arena;
  #nextSegment = 0;

  /**
   * @param from The queue whose context and device the memory is for, or any other source.
   * @param options Sizes and limits.
   */
  constructor(from: CommandQueue | MemorySource<B>, options: SlabPoolOptions = {}) {
    const { source, queue } = sourceOf<B>(from);
    super(source, options.maxBytes ?? Infinity);
    this.#granularity = Math.max(GRANULARITY, source.alignment);
    this.segmentBytes = Math.min(
      roundUp(options.segmentBytes ?? 64 * MiB, this.#granularity),
      source.maxAllocationBytes,
    );
    this.#divides = options.subBuffers ?? source.slice !== undefined;
    this.#home = queue;
    this.#queues = [queue];
    this.#common = this.#arenaOf(undefined);
  }

  protected override take(
    nbytes: number,
    flags: bigint | undefined,
    queue: FenceQueue | undefined,
  ): Block<B> | null {
    const size = roundUp(nbytes, this.#granularity);
    const arena = flags === undefined ? this.#common : this.#arenaOf(flags);
    const owner = queue === undefined || queue === this.#home ? 0 : this.#ownerOf(queue);
    const slack = this.#divides ? Infinity : size / 8;
    let chunk = arena.region.allocate(size, owner, slack);
    if (chunk === null && this.#grow(arena, size, owner)) {
      chunk = arena.region.allocate(size, owner, slack);
    }
    return chunk === null ? null : this.#sliceOf(chunk);
  }

  protected override give(block: Block<B>, queue: FenceQueue | undefined): void {
    const { chunk } = block as Slice<B>;
    const owner = queue === undefined || queue === this.#home ? 0 : this.#ownerOf(queue);
    this.#regionOf(chunk).free(chunk, owner);
  }

  protected override discard(block: Block<B>): void {
    this.give(block, undefined);
  }

  protected override adopt(queue: FenceQueue | undefined): number {
    const taker = queue ?? this.#home;
    const owner = taker === undefined ? 0 : this.#ownerOf(taker);
    const others = new Set(this.#arenas.flatMap(({ region }) => region.owners()));
    others.delete(owner);
    for (const other of others) this.#waitForOwner(taker, this.#queues[other]);
    return this.#arenas.reduce((bytes, { region }) => bytes + region.adopt(owner), 0);
  }

  #waitForOwner(taker: FenceQueue | undefined, owner: FenceQueue | undefined): void {
    if (owner === undefined) return;
    this.counters.fences++;
    if (taker !== undefined) return orderAfter(taker, owner);
    const event = markerOf(owner);
    event.waitSync();
    event.release();
  }

  #ownerOf(queue: FenceQueue): number {
    const known = this.#queues.indexOf(queue);
    return known >= 0 ? known : this.#queues.push(queue) - 1;
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

  /** Adds a segment that has room for `size`; a smaller one where a regular one is refused. */
  #grow(arena: Arena, size: number, owner: number): boolean {
    for (const nbytes of this.#segmentSizes(size)) {
      const id = this.#nextSegment;
      const buffer = this.reserve(id, nbytes, arena.flags);
      if (buffer === null) continue;
      this.#nextSegment++;
      arena.region.add(new Segment(id, nbytes, buffer), owner);
      return true;
    }
    return false;
  }

  #segmentSizes(size: number): number[] {
    if (!this.#divides) return [size];
    if (size > this.segmentBytes / 2) return [roundUp(size, LARGE_GRANULARITY), size];
    const sizes: number[] = [];
    for (let nbytes = this.segmentBytes; nbytes >= size; nbytes /= 2) {
      sizes.push(roundUp(nbytes, this.#granularity));
    }
    return sizes;
  }

  #sliceOf(chunk: Chunk): Slice<B> {
    const segment = chunk.span as Segment<B>;
    const first = segment.slices.get(chunk.offset);
    for (let slice = first; slice !== undefined; slice = slice.sibling) {
      if (slice.size === chunk.size) {
        slice.chunk = chunk;
        return slice;
      }
    }
    return this.#addSlice(segment, chunk);
  }

  #addSlice(segment: Segment<B>, chunk: Chunk): Slice<B> {
    if (segment.numSlices >= MAX_SLICES) this.#dropIdleSlices(segment);
    const whole = chunk.size === segment.size;
    const buffer = whole
      ? segment.buffer
      : this.source.slice!(segment.buffer, chunk.offset, chunk.size);
    if (!whole) this.counters.slices++;
    const slice = new Slice<B>(buffer, chunk);
    slice.sibling = segment.slices.get(chunk.offset);
    segment.slices.set(chunk.offset, slice);
    segment.numSlices++;
    return slice;
  }

  #dropIdleSlices(segment: Segment<B>): void {
    const slices = [...allSlices(segment)];
    segment.slices.clear();
    segment.numSlices = 0;
    for (const slice of slices) {
      if (slice.chunk.owner === HELD && slice.chunk.size === slice.size) {
        slice.sibling = undefined;
        segment.slices.set(slice.offset, slice);
        segment.numSlices++;
      } else this.#destroySlice(segment, slice);
    }
  }

  #destroySlice(segment: Segment<B>, slice: Slice<B>): void {
    slice.destroyed = true;
    if (slice.buffer !== segment.buffer) this.source.destroy(slice.buffer);
  }

  override trim(bytes = Infinity): number {
    const idle = this.#arenas.flatMap(({ region }) =>
      [...region.spans()].filter((span) => span.live === 0).map((span) => ({ region, span }))
    );
    idle.sort((a, b) => b.span.size - a.span.size || a.span.id - b.span.id);
    let freed = 0;
    for (const { region, span } of idle) {
      if (freed >= bytes) break;
      region.shrink(span);
      const segment = span as Segment<B>;
      for (const slice of allSlices(segment)) this.#destroySlice(segment, slice);
      this.unreserve(segment.id, segment.buffer, segment.size);
      freed += segment.size;
    }
    return freed;
  }

  override get largestFreeBytes(): number {
    return Math.max(...this.#arenas.map(({ region }) => region.largestFree));
  }

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
    const holder = [...slicesAt(segment, offset)].find((slice) => slice.holder !== null)?.holder;
    return holder ? { offset, nbytes, state: "live", allocation: holder } : {
      offset,
      nbytes,
      state: "fenced",
    };
  }
}

function* slicesAt<B>(segment: Segment<B>, offset: number): Generator<Slice<B>> {
  for (let s = segment.slices.get(offset); s !== undefined; s = s.sibling) yield s;
}

function* allSlices<B>(segment: Segment<B>): Generator<Slice<B>> {
  for (const offset of segment.slices.keys()) yield* slicesAt(segment, offset);
}
