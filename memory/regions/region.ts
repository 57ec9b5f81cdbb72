/**
 * Bookkeeping of free places: chunks of segments (best fit, split, coalesce) and lists of free
 * buffers, each by owner. Nothing here touches memory or calls a driver; this folder imports the types
 * of `fences/` only. Sizes come from `pools/`, which gets offsets and makes blocks of them.
 *
 * @module
 */
import { Chunk, type ChunkOwner, Segment } from "./chunk.ts";
import { FreeIndex } from "./free_index.ts";

/**
 * Pure bookkeeping of address ranges: sizes in, offsets out, no memory touched. Best fit, split on
 * allocation, coalesced on release (after PoCL's bufalloc and the Vulkan Memory Allocator's virtual
 * blocks). The same requests in the same order get the same offsets.
 *
 * Free chunks have an owner: chunks of different owners neither serve each other nor coalesce, until
 * one is given the other's. SlabPool keeps the blocks of different queues apart by it.
 */
export class Region {
  /** By the owner's id. */
  readonly #indexes: FreeIndex[] = [];
  readonly #segments = new Set<Segment>();
  #nextSegment = 0;

  /** The segments, oldest first. */
  segments(): IterableIterator<Segment> {
    return this.#segments.values();
  }

  /** Bytes of the largest free chunk of any owner. */
  get largestFree(): number {
    return this.#indexes.reduce((most, index) => Math.max(most, index.largest), 0);
  }

  /** True when a segment is one of this region's. */
  has(segment: Segment): boolean {
    return this.#segments.has(segment);
  }

  /** Adds a segment of `size` free addresses. */
  grow(size: number, owner: ChunkOwner): Segment {
    const segment = new Segment(this.#nextSegment++, size);
    this.add(segment, owner);
    return segment;
  }

  /** Adds a segment that is wholly free. Its `id` orders it among the others. */
  add(segment: Segment, owner: ChunkOwner): void {
    this.#segments.add(segment);
    this.#setFree(segment.first, owner);
  }

  /**
   * Takes a segment out.
   *
   * @throws {RangeError} While a chunk of it is held.
   */
  shrink(segment: Segment): void {
    if (segment.live > 0) {
      throw new RangeError(`Cannot remove segment ${segment.id}: ${segment.live} chunks are held`);
    }
    for (const chunk of segment.chunks()) this.#indexes[chunk.owner!.id]!.remove(chunk);
    this.#segments.delete(segment);
  }

  /**
   * Finds `size` bytes in the smallest chunk that has them; what is over is split off.
   *
   * @param size Bytes.
   * @param owner Whose free chunks to look through.
   * @param exact Takes only a chunk of just that size.
   * @returns The chunk, now held, or `null`.
   */
  allocate(size: number, owner: ChunkOwner, exact = false): Chunk | null {
    const chunk = this.#indexes[owner.id]?.takeBestFit(size, exact ? size : Infinity) ?? null;
    if (chunk === null) return null;
    if (chunk.size > size) this.#split(chunk, size, owner);
    chunk.owner = null;
    chunk.segment.live++;
    return chunk;
  }

  /**
   * Makes several held chunks of one, side by side.
   *
   * @param sizes Of each but the last, which gets the rest.
   */
  divide(chunk: Chunk, sizes: readonly number[]): Chunk[] {
    const chunks = [chunk];
    for (const size of sizes) {
      const before = chunks.at(-1)!;
      chunks.push(splitAt(before, size));
      before.segment.live++;
    }
    return chunks;
  }

  /** Gives a chunk back to `owner`; it joins its free neighbours of the same owner. */
  free(chunk: Chunk, owner: ChunkOwner): void {
    if (chunk.owner !== null) throw new RangeError(`The chunk at ${chunk.offset} is free already`);
    chunk.segment.live--;
    this.#setFree(chunk, owner);
  }

  /** True when `owner` has a free chunk. */
  hasFree(owner: ChunkOwner): boolean {
    return (this.#indexes[owner.id]?.length ?? 0) > 0;
  }

  /** Makes the free chunks of `from` `to`'s, where they coalesce; returns their bytes. */
  mergeFrom(from: ChunkOwner, to: ChunkOwner): number {
    const chunks = this.#indexes[from.id]?.drain() ?? [];
    let bytes = 0;
    for (const chunk of chunks) {
      // Hidden from the neighbours until it is its turn to join them.
      chunk.owner = null;
      bytes += chunk.size;
    }
    for (const chunk of chunks) this.#setFree(chunk, to);
    return bytes;
  }

  #indexOf(owner: ChunkOwner): FreeIndex {
    while (this.#indexes.length <= owner.id) this.#indexes.push(new FreeIndex());
    return this.#indexes[owner.id]!;
  }

  #split(chunk: Chunk, size: number, owner: ChunkOwner): void {
    const rest = splitAt(chunk, size);
    rest.owner = owner;
    this.#indexOf(owner).insert(rest);
  }

  #setFree(chunk: Chunk, owner: ChunkOwner): void {
    const index = this.#indexOf(owner);
    const { previous, next } = chunk;
    chunk.owner = owner;
    if (next !== null && next.owner === owner) {
      index.remove(next);
      absorbNext(chunk, next);
    }
    let merged = chunk;
    if (previous !== null && previous.owner === owner) {
      index.remove(previous);
      absorbNext(previous, chunk);
      merged = previous;
    }
    index.insert(merged);
  }
}

/** Leaves a chunk its first bytes; returns a new one with the others. */
function splitAt(chunk: Chunk, size: number): Chunk {
  const rest = new Chunk(chunk.segment, chunk.offset + size, chunk.size - size);
  rest.previous = chunk;
  rest.next = chunk.next;
  if (chunk.next !== null) chunk.next.previous = rest;
  chunk.next = rest;
  chunk.size = size;
  return rest;
}

/** Lets `chunk` take the place of its right neighbour too. */
function absorbNext(chunk: Chunk, next: Chunk): void {
  chunk.size += next.size;
  chunk.next = next.next;
  if (next.next !== null) next.next.previous = chunk;
}
