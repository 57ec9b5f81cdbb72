import { CommandFailedError, OpenCLError } from "../../ffi/mod.ts";

/** The part of an event that a pool needs; `Event` of ffi/ is one. */
export interface FenceEvent {
  /** The state of the command; throws where the command failed. */
  readonly status: "queued" | "submitted" | "running" | "complete";
  /** Blocks until the command is done. */
  waitSync(): void;
  /** Lets the event go. */
  release(): void;
}

/** The part of a queue that a pool needs; `CommandQueue` of ffi/ is one. */
export interface FenceQueue {
  /** True when it was released; nothing can be waited for on it then. */
  readonly released: boolean;
  /** True when its commands may overtake each other; pools refuse such a queue. */
  readonly outOfOrder: boolean;
  /** An event that is complete when all that was enqueued so far is. */
  marker(): FenceEvent;
  /** Lets what is enqueued later wait for `events`. */
  // deno-lint-ignore no-explicit-any -- each kind of queue takes its own kind of event
  barrier(events: any[]): FenceEvent;
  /** Hands what was enqueued to the device; other queues wait for ever for what was not. */
  flush(): void;
}

const numbers = new WeakMap<FenceQueue, number>();
let nextNumber = 0;

/** A queue's number in recordings: counted from 0, in the order in which they were first noted. */
export function queueNumber(queue: FenceQueue): number {
  let known = numbers.get(queue);
  if (known === undefined) numbers.set(queue, known = nextNumber++);
  return known;
}

let markers = 0;

/**
 * A marker on a queue. Where the driver cannot make one just now, it is made at the first
 * use: it covers more work then, which is as safe.
 */
export class Marker implements FenceEvent {
  /** Of two markers of one in-order queue the larger stands for both. */
  readonly serial: number = ++markers;
  readonly #queue: FenceQueue;
  #event: FenceEvent | null = null;
  /** The number of holders that have yet to let it go. */
  #holders = 1;

  /** Marks what `queue` was given so far. */
  constructor(queue: FenceQueue) {
    this.#queue = queue;
    this.#tryMark();
  }

  /** The queue's own event, as its barriers take it. */
  get event(): FenceEvent {
    return this.#event ??= mark(this.#queue);
  }

  #tryMark(): FenceEvent | null {
    try {
      return this.event;
    } catch (error) {
      if (error instanceof OpenCLError) return null;
      throw error;
    }
  }

  /** The progress of the queue. */
  get status(): FenceEvent["status"] {
    return this.#tryMark()?.status ?? "queued";
  }

  /** Blocks until the queue is so far. */
  waitSync(): void {
    this.event.waitSync();
  }

  /** Gives it to one more, who lets it go as well. */
  share(): this {
    this.#holders++;
    return this;
  }

  /** Lets the marker go. */
  release(): void {
    if (--this.#holders === 0) this.#event?.release();
  }
}

function mark(queue: FenceQueue): FenceEvent {
  const event = queue.marker();
  try {
    queue.flush();
    return event;
  } catch (error) {
    event.release();
    throw error;
  }
}

let together: Map<FenceQueue, Marker> | null = null;

/**
 * Runs `fn`, which releases blocks and gives no queue a command: one marker a queue stands for the last use
 * of all of them.
 */
export function releasingTogether<T>(fn: () => T): T {
  if (together !== null) return fn();
  const markers = together = new Map<FenceQueue, Marker>();
  try {
    return fn();
  } finally {
    together = null;
    for (const marker of markers.values()) marker.release();
  }
}

/** Marks what `queue` was given so far, so that others can wait for it. */
export function markerOf(queue: FenceQueue): Marker {
  const known = together?.get(queue);
  if (known) return known.share();
  const marker = new Marker(queue);
  together?.set(queue, marker.share());
  return marker;
}

/**
 * True when a command is through with its memory. One that failed is, too: whose command it was is
 * told by its own event. Where the driver does not answer, it is not.
 */
export function hasEnded(event: FenceEvent): boolean {
  try {
    return event.status === "complete";
  } catch (error) {
    return !(error instanceof OpenCLError) || error instanceof CommandFailedError;
  }
}

/**
 * Blocks until a command is through with its memory, whether it failed or not.
 *
 * @throws {Error} What ended the wait before that.
 */
export function awaitEnd(event: FenceEvent): void {
  try {
    event.waitSync();
  } catch (error) {
    if (!hasEnded(event)) throw error;
  }
}

/**
 * Lets `taker` wait, on the device, for `events`; without a taker, the host waits.
 *
 * @returns Whether there was anything to wait for.
 */
export function waitFor(taker: FenceQueue | undefined, events: readonly FenceEvent[]): boolean {
  // A barrier on a command that failed would fail as well, and what comes after it.
  const busy = events.filter((event) => !hasEnded(event));
  if (busy.length === 0) return false;
  if (taker === undefined) busy.forEach(awaitEnd);
  else taker.barrier(busy.map((e) => e instanceof Marker ? e.event : e)).release();
  return true;
}

/**
 * Like {@linkcode waitFor}, also for the work of a queue whose blocks carry no fence.
 *
 * @param unmarked That queue.
 */
export function orderAfter(
  taker: FenceQueue | undefined,
  events: readonly FenceEvent[],
  unmarked: FenceQueue | undefined,
): boolean {
  if (unmarked === undefined) return waitFor(taker, events);
  const marker = markerOf(unmarked);
  try {
    return waitFor(taker, [...events, marker]);
  } finally {
    marker.release();
  }
}

/**
 * Refuses a queue on which order says nothing about what is done.
 *
 * @throws {TypeError} When it is out of order.
 */
export function checkInOrder(queue: FenceQueue | undefined): void {
  if (queue?.outOfOrder) {
    throw new TypeError(
      "Cannot lend memory to an out-of-order queue: a later command may run before the block's " +
        "former user. Make the queue without outOfOrder",
    );
  }
}
