/** What a pool needs of an event; `Event` of ffi/ is one. */
export interface FenceEvent {
  /** How far the command is. */
  readonly status: "queued" | "submitted" | "running" | "complete";
  /** Blocks until the command is done. */
  waitSync(): void;
  /** Lets the event go. */
  release(): void;
}

/** What a pool needs of a queue; `CommandQueue` of ffi/ is one. */
export interface FenceQueue {
  /** Whether it was released; nothing can be waited for on it then. */
  readonly released: boolean;
  /** Whether its commands may overtake each other; pools refuse such a queue. */
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

/** Marks what `queue` was given so far, so that others can wait for it. */
export function markerOf(queue: FenceQueue): FenceEvent {
  const event = queue.marker();
  queue.flush();
  return event;
}

/** Lets `taker` wait, on the device, for `events`; without a taker, the host waits. */
export function waitFor(taker: FenceQueue | undefined, events: readonly FenceEvent[]): void {
  if (taker !== undefined) taker.barrier([...events]).release();
  else for (const event of events) event.waitSync();
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
