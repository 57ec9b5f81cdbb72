import { awaitEnd, type FenceEvent, hasEnded } from "./fence.ts";

/**
 * Several events as one that the host waits for. A command that failed is through with the memory,
 * too: whose command it was is told by its own event.
 */
export class AllEnded implements FenceEvent {
  readonly #events: readonly FenceEvent[];

  /** @param events Released with this one. */
  constructor(events: readonly FenceEvent[]) {
    this.#events = events;
  }

  /** "complete" once every command has ended. */
  get status(): FenceEvent["status"] {
    return this.#events.every(hasEnded) ? "complete" : "running";
  }

  /** Blocks until every command has ended. */
  waitSync(): void {
    this.#events.forEach(awaitEnd);
  }

  /** Lets the events go. */
  release(): void {
    for (const event of this.#events) event.release();
  }
}
