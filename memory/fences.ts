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
  /** An event that is complete when all that was enqueued so far is. */
  marker(): FenceEvent;
  /** Lets what is enqueued later wait for `events`. */
  // deno-lint-ignore no-explicit-any -- each kind of queue takes its own kind of event
  barrier(events: any[]): FenceEvent;
  /** Hands what was enqueued to the device; other queues wait for ever for what was not. */
  flush(): void;
}

/** Lets `taker` wait, on the device, for everything that `owner` was given so far. */
export function orderAfter(taker: FenceQueue, owner: FenceQueue): void {
  const event = markerOf(owner);
  waitFor(taker, [event]);
  event.release();
}

/** Marks what `queue` was given so far, so that others can wait for it. */
export function markerOf(queue: FenceQueue): FenceEvent {
  const event = queue.marker();
  queue.flush();
  return event;
}

/** Lets `taker` wait, on the device, for `events`. */
export function waitFor(taker: FenceQueue, events: readonly FenceEvent[]): void {
  taker.barrier([...events]).release();
}
