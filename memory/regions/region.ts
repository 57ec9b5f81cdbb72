import { FreeIndex } from "./free_index.ts";

/** A contiguous range of addresses; its chunks lie side by side and fill it. */
export class Span {
  readonly id: number;
  readonly size: number;
  first: Chunk;
  /** Chunks that somebody holds. */
  live = 0;

  constructor(id: number, size: number) {
    this.id = id;
    this.size = size;
    this.first = new Chunk(this, 0, size);
  }

  /** Its chunks, in order of their offsets. */
  *chunks(): Generator<Chunk> {
    for (let chunk: Chunk | null = this.first; chunk !== null; chunk = chunk.next) yield chunk;
  }
}

/** The owner of a chunk that somebody holds. */
export const HELD = -1;

/** A part of a span, free or held. */
export class Chunk {
  readonly span: Span;
  readonly offset: number;
  size: number;
  previous: Chunk | null = null;
  next: Chunk | null = null;
  /** `HELD`, or whose chunk it is while it is free. */
  owner = HELD;

  constructor(span: Span, offset: number, size: number) {
    this.span = span;
    this.offset = offset;
    this.size = size;
  }
}

/**
 * Pure bookkeeping of address ranges: sizes in, offsets out, no memory touched. Best fit, split on
 * allocation, coalesced on release (after PoCL's bufalloc and the Vulkan Memory Allocator's virtual
 * blocks). The same requests in the same order get the same offsets.
 *
 * Free chunks have an owner, a small number: chunks of different owners neither serve each other
 * nor coalesce, until one owner adopts the others'. SlabPool keeps the blocks of different queues
 * apart by it.
 */
export class Region {
  readonly #indexes: FreeIndex[] = [new FreeIndex()];
  readonly #spans = new Set<Span>();
  #nextSpan = 0;

  /** The spans, oldest first. */
  spans(): IterableIterator<Span> {
    return this.#spans.values();
  }

  /** Bytes of the largest chunk that is free, whoever owns it. */
  get largestFree(): number {
    return this.#indexes.reduce((most, index) => Math.max(most, index.largest), 0);
  }

  /** Whether a span is one of this region's. */
  has(span: Span): boolean {
    return this.#spans.has(span);
  }

  /** Adds a span of `size` free addresses. */
  grow(size: number, owner = 0): Span {
    const span = new Span(this.#nextSpan++, size);
    this.add(span, owner);
    return span;
  }

  /** Adds a span that is wholly free. Its `id` orders it among the others. */
  add(span: Span, owner = 0): void {
    this.#spans.add(span);
    this.#setFree(span.first, owner);
  }

  /**
   * Takes a span out.
   *
   * @throws {RangeError} While a chunk of it is held.
   */
  shrink(span: Span): void {
    if (span.live > 0) {
      throw new RangeError(`Cannot remove span ${span.id}: ${span.live} chunks are held`);
    }
    for (const chunk of span.chunks()) this.#indexes[chunk.owner]!.remove(chunk);
    this.#spans.delete(span);
  }

  /**
   * Finds `size` bytes in the smallest chunk that has them; what is over is split off.
   *
   * @param size Bytes.
   * @param owner Whose free chunks to look through.
   * @param exact Takes only a chunk of just that size.
   * @returns The chunk, now held, or `null`.
   */
  allocate(size: number, owner = 0, exact = false): Chunk | null {
    const chunk = this.#indexes[owner]?.takeBestFit(size, exact ? size : Infinity) ?? null;
    if (chunk === null) return null;
    if (chunk.size > size) this.#split(chunk, size, owner);
    chunk.owner = HELD;
    chunk.span.live++;
    return chunk;
  }

  /** Gives a chunk back to `owner`; it joins its free neighbours of the same owner. */
  free(chunk: Chunk, owner = 0): void {
    if (chunk.owner !== HELD) throw new RangeError(`The chunk at ${chunk.offset} is free already`);
    chunk.span.live--;
    this.#setFree(chunk, owner);
  }

  /** Whether `owner` has a free chunk. */
  hasFree(owner: number): boolean {
    return (this.#indexes[owner]?.length ?? 0) > 0;
  }

  /** Makes the free chunks of `from` `to`'s, where they coalesce; returns their bytes. */
  adopt(from: number, to: number): number {
    const chunks = this.#indexes[from]?.drain() ?? [];
    let bytes = 0;
    for (const chunk of chunks) {
      // Hidden from the neighbours until it is its turn to join them.
      chunk.owner = HELD;
      bytes += chunk.size;
    }
    for (const chunk of chunks) this.#setFree(chunk, to);
    return bytes;
  }

  #indexOf(owner: number): FreeIndex {
    while (this.#indexes.length <= owner) this.#indexes.push(new FreeIndex());
    return this.#indexes[owner]!;
  }

  #split(chunk: Chunk, size: number, owner: number): void {
    const rest = new Chunk(chunk.span, chunk.offset + size, chunk.size - size);
    rest.previous = chunk;
    rest.next = chunk.next;
    if (chunk.next !== null) chunk.next.previous = rest;
    chunk.next = rest;
    chunk.size = size;
    rest.owner = owner;
    this.#indexOf(owner).insert(rest);
  }

  #setFree(chunk: Chunk, owner: number): void {
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

/** Lets `chunk` take the place of its right neighbour too. */
function absorbNext(chunk: Chunk, next: Chunk): void {
  chunk.size += next.size;
  chunk.next = next.next;
  if (next.next !== null) next.next.previous = chunk;
}
