import { type FenceEvent, type FenceQueue, waitFor } from "./fences.ts";
import type { Block } from "./handle.ts";

/** A released block that the work of more queues than its own uses. */
export interface Parked<B> {
  readonly block: Block<B>;
  /** Its own queue. */
  readonly queue: FenceQueue | undefined;
  /** What others than that queue have to wait for. */
  readonly fence: FenceEvent | null;
  /** Markers of the other queues. */
  readonly events: readonly FenceEvent[];
}

/** Released blocks that nobody may have before other queues are done with them, oldest first. */
export class ParkedBlocks<B> {
  #parked: Parked<B>[] = [];

  get count(): number {
    return this.#parked.length;
  }

  add(parked: Parked<B>): void {
    this.#parked.push(parked);
  }

  /** Takes out those whose other users are done; asks, but does not wait. */
  takeDone(): Parked<B>[] {
    const done: Parked<B>[] = [], busy: Parked<B>[] = [];
    for (const parked of this.#parked) (isDone(parked) ? done : busy).push(parked);
    this.#parked = busy;
    for (const { events } of done) for (const event of events) event.release();
    return done;
  }

  /**
   * Waits, on the host, for the users of the oldest one and takes it out; none where there is none.
   */
  awaitOldest(): Parked<B>[] {
    const oldest = this.#parked.splice(0, 1);
    for (const { events } of oldest) {
      waitFor(undefined, events);
      for (const event of events) event.release();
    }
    return oldest;
  }

  /** Takes out all of them; the caller waits for their events, and releases these. */
  takeAll(): Parked<B>[] {
    return this.#parked.splice(0);
  }
}

function isDone<B>({ events }: Parked<B>): boolean {
  return events.every((event) => event.status === "complete");
}
