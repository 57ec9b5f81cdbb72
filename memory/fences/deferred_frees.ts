import { awaitEnd, type FenceEvent, type FenceQueue, hasEnded, markerOf } from "./fence.ts";

/** A block, as far as it matters here. */
export interface Sized {
  /** Bytes after rounding. */
  readonly size: number;
}

/** A released block that the work of more queues than its own uses. */
export interface DeferredFree<T> {
  readonly block: T;
  /** Its own queue. */
  readonly queue: FenceQueue | undefined;
  /** Events that others than that queue have to wait for. */
  readonly fence: FenceEvent | null;
  /** Markers of the other queues. */
  readonly events: readonly FenceEvent[];
}

interface Entry<T> extends DeferredFree<T> {
  /** Markers that were not seen complete. */
  pending: number;
}

/** A marker of one queue, and what waits for it. */
interface Waiting<T> {
  readonly event: FenceEvent;
  readonly entry: Entry<T>;
}

/**
 * Released blocks that cannot be lent before other queues are done with them. A queue's markers
 * complete in order, so that of each queue only the first that is left is asked: what an allocation
 * costs does not grow with what is deferred.
 */
export class DeferredFrees<T extends Sized> {
  /** Oldest first. */
  readonly #entries = new Set<Entry<T>>();
  /** Blocks that wait for each queue, oldest first. */
  readonly #byUser = new Map<FenceQueue, Waiting<T>[]>();

  get count(): number {
    return this.#entries.size;
  }

  /** Defers a block's free until `users` are done with what they were given so far. */
  add(
    block: T,
    queue: FenceQueue | undefined,
    fence: FenceEvent | null,
    users: readonly FenceQueue[],
  ): void {
    const events = users.map(markerOf);
    const entry = { block, queue, fence, events, pending: events.length };
    this.#entries.add(entry);
    users.forEach((user, i) => {
      const others = this.#byUser.get(user), waiting = { event: events[i]!, entry };
      if (others === undefined) this.#byUser.set(user, [waiting]);
      else others.push(waiting);
    });
  }

  /** Takes out those whose other users are done; asks, but does not wait. */
  takeDone(): DeferredFree<T>[] {
    const done: Entry<T>[] = [];
    for (const [user, waiting] of this.#byUser) {
      let passed = 0;
      while (passed < waiting.length && this.#isPast(waiting[passed]!)) {
        const { entry } = waiting[passed++]!;
        if (--entry.pending === 0) done.push(entry);
      }
      if (passed === waiting.length) this.#byUser.delete(user);
      else if (passed > 0) waiting.splice(0, passed);
    }
    return this.#take(done.filter((entry) => this.#entries.has(entry)));
  }

  #isPast({ entry, event }: Waiting<T>): boolean {
    return !this.#entries.has(entry) || hasEnded(event);
  }

  /**
   * Waits, on the host, for the users of the oldest one and takes it out; none where there is none.
   * Where the wait is given up, it stays.
   */
  awaitOldest(): DeferredFree<T>[] {
    for (const oldest of this.#entries) {
      oldest.events.forEach(awaitEnd);
      return this.#take([oldest]);
    }
    return [];
  }

  /** All of them, which stay. */
  all(): readonly DeferredFree<T>[] {
    return [...this.#entries];
  }

  /** Takes out all of them; the caller has ordered what comes next after their users. */
  takeAll(): DeferredFree<T>[] {
    this.#byUser.clear();
    return this.#take([...this.#entries]);
  }

  #take(entries: Entry<T>[]): DeferredFree<T>[] {
    for (const entry of entries) {
      this.#entries.delete(entry);
      for (const event of entry.events) event.release();
    }
    return entries;
  }
}
