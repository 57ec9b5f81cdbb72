import type { Block, PooledHandle } from "./handle.ts";
import { type Chunk, Segment } from "../regions/chunk.ts";

/** A place in a segment, kept with its sub-buffer for the next holder of just that place. */
export class CachedSubBuffer<B> implements Block<B> {
  readonly offset: number;
  readonly size: number;
  holder: PooledHandle<B> | null = null;
  /** The chunk that had the place last; while that is held, so is the sub-buffer. */
  chunk: Chunk;
  /** Another one that begins at the same offset. */
  sibling: CachedSubBuffer<B> | undefined = undefined;
  /** True when it was used since the last eviction. */
  used = true;
  /** The memory object, made at its first use. */
  object: B | null = null;

  constructor(readonly parent: SlabSegment<B>, chunk: Chunk) {
    this.chunk = chunk;
    this.offset = chunk.offset;
    this.size = chunk.size;
  }

  get segment(): number {
    return this.parent.id;
  }

  get destroyed(): boolean {
    return this.parent.destroyed;
  }

  get base(): B {
    return this.parent.buffer;
  }

  get buffer(): B {
    return this.object ??= this.parent.createSubBuffer(this);
  }

  get isHeld(): boolean {
    return this.chunk.owner === null && this.chunk.size === this.size;
  }

  overlaps(other: CachedSubBuffer<B>): boolean {
    return this.offset < other.offset + other.size && other.offset < this.offset + this.size;
  }
}

/** A piece of memory from the source, with the sub-buffers of it that are kept. */
export class SlabSegment<B> extends Segment {
  readonly buffer: B;
  /** Makes the memory object of a sub-buffer. */
  readonly createSubBuffer: (part: CachedSubBuffer<B>) => B;
  /** True once its memory is the driver's again. */
  destroyed = false;
  /** By offset; further ones of the same offset are siblings. */
  readonly #first = new Map<number, CachedSubBuffer<B>>();
  #subBuffers: CachedSubBuffer<B>[] = [];

  constructor(
    id: number,
    size: number,
    buffer: B,
    createSubBuffer: (part: CachedSubBuffer<B>) => B,
  ) {
    super(id, size);
    this.buffer = buffer;
    this.createSubBuffer = createSubBuffer;
  }

  /** All of them, in the order in which they were made. */
  get subBuffers(): readonly CachedSubBuffer<B>[] {
    return this.#subBuffers;
  }

  /** The sub-buffer of just the chunk's place. */
  subBufferOf(chunk: Chunk): CachedSubBuffer<B> | null {
    for (let s = this.#first.get(chunk.offset); s !== undefined; s = s.sibling) {
      if (s.size !== chunk.size) continue;
      s.chunk = chunk;
      s.used = true;
      return s;
    }
    return null;
  }

  /** The held sub-buffer at an offset. */
  heldAt(offset: number): CachedSubBuffer<B> | null {
    for (let s = this.#first.get(offset); s !== undefined; s = s.sibling) {
      if (s.holder !== null) return s;
    }
    return null;
  }

  addSubBuffer(chunk: Chunk): CachedSubBuffer<B> {
    const part = new CachedSubBuffer(this, chunk);
    this.#link(part);
    return part;
  }

  #link(part: CachedSubBuffer<B>): void {
    part.sibling = this.#first.get(part.offset);
    this.#first.set(part.offset, part);
    this.#subBuffers.push(part);
  }

  /**
   * Takes out what was not used since the last eviction; where all was, everything that is
   * not held.
   */
  evict(): CachedSubBuffer<B>[] {
    const idle = this.#subBuffers.filter((part) => !part.isHeld);
    const unused = idle.filter((part) => !part.used);
    const evicted = unused.length > 0 ? unused : idle;
    const gone = new Set(evicted);
    const kept = this.#subBuffers.filter((part) => !gone.has(part));
    this.#first.clear();
    this.#subBuffers = [];
    for (const part of kept) {
      part.used = false;
      this.#link(part);
    }
    return evicted;
  }
}
