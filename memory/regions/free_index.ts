import type { Chunk } from "./chunk.ts";

/**
 * Free chunks in order of size, and of place among equals, so that the best fit is one binary
 * search away and the same requests always get the same places.
 */
export class FreeIndex {
  readonly #chunks: Chunk[] = [];

  get length(): number {
    return this.#chunks.length;
  }

  /** The largest free chunk's bytes. */
  get largest(): number {
    return this.#chunks.at(-1)?.size ?? 0;
  }

  /** Takes out the smallest chunk of at least `size` and at most `most` bytes. */
  takeBestFit(size: number, most: number): Chunk | null {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (chunks[middle]!.size < size) low = middle + 1;
      else high = middle;
    }
    if (low === chunks.length || chunks[low]!.size > most) return null;
    const found = chunks[low]!;
    this.#removeAt(low);
    return found;
  }

  insert(chunk: Chunk): void {
    const chunks = this.#chunks;
    const at = this.#positionOf(chunk);
    chunks.push(chunk);
    // Shifting by hand: splice() allocates its result, which costs more than these few moves.
    for (let i = chunks.length - 1; i > at; i--) chunks[i] = chunks[i - 1]!;
    chunks[at] = chunk;
  }

  remove(chunk: Chunk): void {
    this.#removeAt(this.#positionOf(chunk));
  }

  /** Empties the index; returns what was in it. */
  drain(): Chunk[] {
    return this.#chunks.splice(0);
  }

  #removeAt(at: number): void {
    const chunks = this.#chunks;
    for (let i = at + 1; i < chunks.length; i++) chunks[i - 1] = chunks[i]!;
    chunks.pop();
  }

  #positionOf(chunk: Chunk): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (precedes(chunks[middle]!, chunk)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function precedes(a: Chunk, b: Chunk): boolean {
  if (a.size !== b.size) return a.size < b.size;
  if (a.segment !== b.segment) return a.segment.id < b.segment.id;
  return a.offset < b.offset;
}
