/** Numbers of all ranks, for all: from memory that those of one host share, else, and where they are many, by MPI. */
import {
  type Communicator,
  completedSync,
  type SharedParts,
  shareParts,
} from "../../../backend/internal.ts";

/** A token's features of some hundred sequences: ranks of one host wake each other, and MPI is not asked. */
const SHARED_BYTES = 2 ** 20;

const WHAT = "share the work on a tensor";

/** Gathers again and again. */
export class Gathering implements Disposable {
  readonly #communicator: Communicator;
  /** One for every other turn: who has written the part of one turn has read those of the turn before. */
  readonly #turns: readonly SharedParts[];
  #turn = 0;

  /** Reserves memory, on all ranks at once. */
  constructor(communicator: Communicator) {
    this.#communicator = communicator;
    const { size, localSize } = communicator;
    const turns = size === localSize
      ? [shareParts(communicator, SHARED_BYTES), shareParts(communicator, SHARED_BYTES)]
      : [];
    this.#turns = turns.filter((parts) => parts !== null);
    if (this.#turns.length === 1) this[Symbol.dispose]();
  }

  /**
   * The numbers of each rank, copied.
   *
   * @param own This one's.
   * @param most The number that the rank with most has.
   */
  gather(own: Float32Array, most: number): Float32Array<ArrayBuffer>[] {
    const isShared = this.#turns.length === 2 && most * own.BYTES_PER_ELEMENT <= SHARED_BYTES;
    return isShared ? this.#fromMemory(own, most) : this.#byMessages(own, most);
  }

  #fromMemory(own: Float32Array, most: number): Float32Array<ArrayBuffer>[] {
    const { rank } = this.#communicator, { parts, signal } = this.#turns[this.#turn]!;
    this.#turn ^= 1;
    const numbers = parts.map(({ buffer, byteOffset }) =>
      new Float32Array(buffer, byteOffset, most)
    );
    numbers[rank]!.set(own);
    completedSync(WHAT, signal("written"));
    return numbers.map((all) => all.slice());
  }

  #byMessages(own: Float32Array, most: number): Float32Array<ArrayBuffer>[] {
    const { rank, size } = this.#communicator, all = new Float32Array(most * size);
    all.set(own, rank * most);
    completedSync(WHAT, this.#communicator.allGather(new Uint8Array(all.buffer)));
    return Array.from({ length: size }, (_, r) => all.subarray(r * most, (r + 1) * most));
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const parts of this.#turns) parts[Symbol.dispose]();
  }
}
