import type { Block, PooledHandle } from "../pools/handle.ts";
import { type Chunk, HELD, Span } from "./region.ts";

/** A place in a segment, kept with its sub-buffer for the next holder of just that place. */
export class Slice<B> implements Block<B> {
  readonly offset: number;
  readonly size: number;
  holder: PooledHandle<B> | null = null;
  /** The chunk that had the place last; while that is held, so is the slice. */
  chunk: Chunk;
  /** Another slice that begins at the same offset. */
  sibling: Slice<B> | undefined = undefined;
  /** Whether it was used since the last eviction. */
  used = true;
  /** The sub-buffer, once somebody needed it. */
  cut: B | null = null;

  constructor(readonly home: Segment<B>, chunk: Chunk) {
    this.chunk = chunk;
    this.offset = chunk.offset;
    this.size = chunk.size;
  }

  get segment(): number {
    return this.home.id;
  }

  get destroyed(): boolean {
    return this.home.destroyed;
  }

  get base(): B {
    return this.home.buffer;
  }

  get buffer(): B {
    return this.cut ??= this.home.cutOut(this);
  }

  get isHeld(): boolean {
    return this.chunk.owner === HELD && this.chunk.size === this.size;
  }

  overlaps(other: Slice<B>): boolean {
    return this.offset < other.offset + other.size && other.offset < this.offset + this.size;
  }
}

/** A piece of memory from the source, with the slices of it that are known. */
export class Segment<B> extends Span {
  readonly buffer: B;
  /** Makes a slice's sub-buffer. */
  readonly cutOut: (slice: Slice<B>) => B;
  /** True once its memory is the driver's again. */
  destroyed = false;
  readonly #first = new Map<number, Slice<B>>();
  #slices: Slice<B>[] = [];

  constructor(id: number, size: number, buffer: B, cutOut: (slice: Slice<B>) => B) {
    super(id, size);
    this.buffer = buffer;
    this.cutOut = cutOut;
  }

  /** All slices, in the order in which they were made. */
  get slices(): readonly Slice<B>[] {
    return this.#slices;
  }

  /** The slice of just the chunk's place. */
  sliceOf(chunk: Chunk): Slice<B> | null {
    for (let s = this.#first.get(chunk.offset); s !== undefined; s = s.sibling) {
      if (s.size !== chunk.size) continue;
      s.chunk = chunk;
      s.used = true;
      return s;
    }
    return null;
  }

  /** The slice at an offset that somebody holds. */
  heldAt(offset: number): Slice<B> | null {
    for (let s = this.#first.get(offset); s !== undefined; s = s.sibling) {
      if (s.holder !== null) return s;
    }
    return null;
  }

  addSlice(chunk: Chunk): Slice<B> {
    const slice = new Slice(this, chunk);
    this.#link(slice);
    return slice;
  }

  #link(slice: Slice<B>): void {
    slice.sibling = this.#first.get(slice.offset);
    this.#first.set(slice.offset, slice);
    this.#slices.push(slice);
  }

  /**
   * Takes out what was not used since the last eviction; where all was, everything that nobody
   * holds.
   */
  evict(): Slice<B>[] {
    const idle = this.#slices.filter((slice) => !slice.isHeld);
    const unused = idle.filter((slice) => !slice.used);
    const evicted = unused.length > 0 ? unused : idle;
    const gone = new Set(evicted);
    const kept = this.#slices.filter((slice) => !gone.has(slice));
    this.#first.clear();
    this.#slices = [];
    for (const slice of kept) {
      slice.used = false;
      this.#link(slice);
    }
    return evicted;
  }
}
