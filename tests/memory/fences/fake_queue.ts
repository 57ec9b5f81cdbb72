import type { FenceEvent, FenceQueue } from "../../../memory/mod.ts";

/** An event of a queue that exists in the test's mind only. */
export class FakeEvent implements FenceEvent {
  released = false;
  waitedFor = false;

  constructor(readonly queue: FakeQueue, readonly position: number) {}

  get status(): "queued" | "complete" {
    return this.queue.done >= this.position ? "complete" : "queued";
  }

  waitSync(): void {
    this.waitedFor = true;
    this.queue.done = Math.max(this.queue.done, this.position);
  }

  release(): void {
    if (this.released) throw new Error("The event was released twice");
    this.released = true;
  }
}

/** A queue whose work is done when the test says so. */
export class FakeQueue implements FenceQueue {
  released = false;
  readonly outOfOrder: boolean;
  /** Commands so far. */
  enqueued = 0;
  /** Commands that are done. */
  done = 0;
  /** Commands that later ones wait for. */
  readonly waits: FakeEvent[] = [];
  readonly events: FakeEvent[] = [];

  constructor(readonly name: string, options: { outOfOrder?: boolean } = {}) {
    this.outOfOrder = options.outOfOrder ?? false;
  }

  /** Enqueues a command. */
  work(): void {
    this.enqueued++;
  }

  /** Lets everything that was enqueued be done. */
  complete(): void {
    this.done = this.enqueued;
  }

  marker(): FakeEvent {
    if (this.released) throw new Error(`The queue ${this.name} was released`);
    return this.#event();
  }

  barrier(events: FakeEvent[]): FakeEvent {
    this.waits.push(...events);
    return this.#event();
  }

  flush(): void {}

  #event(): FakeEvent {
    const event = new FakeEvent(this, ++this.enqueued);
    this.events.push(event);
    return event;
  }

  /** True if later commands wait for everything that `other` was given before position `position`. */
  waitsFor(other: FakeQueue, position: number): boolean {
    return this.waits.some((event) => event.queue === other && event.position >= position);
  }
}
