/** Buckets on their way through a collective operation. */
import {
  messagePauseMs,
  type Operation,
  type Pace,
  type Progress,
} from "../../../backend/internal.ts";
import type { Bucket } from "./bucket.ts";

/** Stages of one bucket. */
export interface Passage {
  /** Bucket read to the host; null where it holds what is sent already. */
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

  /** Time of the first question for what is waited for now; null before. */
  #since: number | null = null;
  /** Pace of the device's queries, while nothing else is waited for. */
  #pace: Pace | null = null;

  /** Adds a bucket whose read has begun. */
  add(passage: Passage): void {
    this.#reading.push(passage);
  }

  /** Goes on with every bucket; true when all are through. */
  isDone(): boolean {
    while (this.#reading[0] && (this.#reading[0].bucket?.isRead() ?? true)) {
      this.#endWait();
      const passage = this.#reading.shift()!;
      this.#communicating.push({ passage, operation: passage.communicate() });
    }
    for (const one of [...this.#communicating]) {
      if (!one.operation.isDone()) continue;
      this.#communicating.splice(this.#communicating.indexOf(one), 1);
      one.passage.take();
      this.#endWait();
    }
    return this.#reading.length + this.#communicating.length === 0;
  }

  /** Messages are asked for often, and where there are none the device seldom: asking slows it down. */
  pauseMs(): number {
    const waitedMs = this.#beginWait();
    return this.#pace?.afterAsking(waitedMs) ?? messagePauseMs(waitedMs);
  }

  /** The device first: what messages bring is enqueued behind what it has to do, if they need nobody. */
  sleep(milliseconds: number): boolean {
    this.#beginWait();
    const [next] = this.#reading, messages = this.#communicating;
    if (next === undefined) return messages[0]?.operation.sleep?.(milliseconds) ?? false;
    const areAlone = messages.every(({ operation }) => operation.sleep !== undefined);
    return areAlone && (next.bucket?.waitInDriver() ?? false);
  }

  /** Milliseconds that it has waited for the next thing. */
  #beginWait(): number {
    const now = performance.now();
    if (this.#since === null) {
      this.#since = now;
      this.#pace = this.#communicating.length === 0 ? this.#reading[0]?.bucket?.pace ?? null : null;
    }
    return now - this.#since;
  }

  #endWait(): void {
    if (this.#since !== null) this.#pace?.end(performance.now() - this.#since);
    this.#since = this.#pace = null;
  }
}
