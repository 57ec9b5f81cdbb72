/** Places in a block that has an owner: what kernels read and write side by side. */
import type { Block } from "./backend.ts";

/** Bytes of a memory object within which kernel operands begin, or else at its beginning. */
export const MAX_BASE_BYTES = 2 ** 31;

/** A place in a block, which others may have at another time. Who holds the block gives it back. */
export class BlockPart implements Block {
  readonly nbytes: number;
  readonly bucketSize: number;
  readonly base: unknown;
  readonly offset: number;
  readonly #whole: Block;

  constructor(whole: Block, start: number, nbytes: number) {
    // Kernels reach the whole of it from one beginning.
    const isFar = whole.offset + whole.nbytes > MAX_BASE_BYTES;
    this.nbytes = this.bucketSize = nbytes;
    this.base = isFar ? whole.buffer : whole.base;
    this.offset = (isFar ? 0 : whole.offset) + start;
    this.#whole = whole;
  }

  /**
   * Drivers take no two memory objects of places that overlap.
   *
   * @throws {ReferenceError} Always.
   */
  get buffer(): never {
    throw new ReferenceError(
      "Part of a block has no memory object of its own: use base and offset",
    );
  }

  get pool(): Block["pool"] {
    return this.#whole.pool;
  }

  get state(): Block["state"] {
    return this.#whole.state;
  }

  get label(): string | undefined {
    return this.#whole.label;
  }

  release(): void {}

  [Symbol.dispose](): void {}
}
