/** Buckets on their way through a collective operation. */
import type { Operation, Progress } from "../../../backend/internal.ts";
import type { Bucket } from "./bucket.ts";

/** What becomes of one bucket. */
export interface Passage {
  /** What is read to the host; null where it holds what is sent already. */
  readonly bucket: Bucket | null;
  /** Begins the collective operation. */
  readonly communicate: () => Operation;
  /** Takes the result. */
  readonly take: () => void;
}

/**
 * Reads, communicates and writes buckets, several at once. Operations begin in the order in which buckets
 * were added, which must be the same on every rank.
 */
export class Pipeline implements Progress {
  readonly #reading: Passage[] = [];
  readonly #communicating: { readonly passage: Passage; readonly operation: Operation }[] = [];

  /** Adds a bucket whose read has begun. */
  add(passage: Passage): void {
    this.#reading.push(passage);
  }

  /** Goes on with every bucket; true when all are through. */
  isDone(): boolean {
    while (this.#reading[0] && (this.#reading[0].bucket?.isRead() ?? true)) {
      const passage = this.#reading.shift()!;
      this.#communicating.push({ passage, operation: passage.communicate() });
    }
    for (const one of [...this.#communicating]) {
      if (!one.operation.isDone()) continue;
      this.#communicating.splice(this.#communicating.indexOf(one), 1);
      one.passage.take();
    }
    return this.#reading.length + this.#communicating.length === 0;
  }
}
