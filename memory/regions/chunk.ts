/** The places of a region: segments, and the chunks that fill them. */

/** The owner of free chunks: chunks of two owners neither serve each other nor coalesce. */
export interface ChunkOwner {
  /** Small, and no two owners of a region have the same: an index into arrays. */
  readonly id: number;
}

/** A contiguous range of addresses; its chunks lie side by side and fill it. */
export class Segment {
  readonly id: number;
  readonly size: number;
  first: Chunk;
  /** Held chunks. */
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

/** A part of a segment, free or held. */
export class Chunk {
  readonly segment: Segment;
  readonly offset: number;
  size: number;
  previous: Chunk | null = null;
  next: Chunk | null = null;
  /** The owner of the chunk while it is free; `null` while it is held. */
  owner: ChunkOwner | null = null;

  constructor(segment: Segment, offset: number, size: number) {
    this.segment = segment;
    this.offset = offset;
    this.size = size;
  }
}
