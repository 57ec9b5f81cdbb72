/** Queues whose order of execution is known exactly: a vector clock each (Lamport, Mattern). */
import { CommandFailedError } from "../../../ffi/mod.ts";
import type { FenceEvent, FenceQueue } from "../../../memory/mod.ts";

/** The place of a queue when the event was made, and its waits until then. */
export class ClockedEvent implements FenceEvent {
  released = false;

  constructor(
    readonly queue: ClockedQueue,
    readonly position: number,
    readonly clock: ReadonlyMap<ClockedQueue, number>,
    readonly fails: boolean,
  ) {}

  get status(): "queued" | "complete" {
    this.queue.world.questions++;
    if (this.released) throw new Error("A released event was asked");
    if (this.queue.done < this.position) return "queued";
    if (this.fails) throw new CommandFailedError(-5, "clGetEventInfo");
    return "complete";
  }

  waitSync(): void {
    if (this.released) throw new Error("A released event was waited for");
    this.queue.runTo(this.position);
    if (this.fails) throw new CommandFailedError(-5, "clWaitForEvents");
  }

  release(): void {
    this.released = true;
  }
}

/** An in-order queue. Its commands run when the test says so, and not before what they wait for. */
export class ClockedQueue implements FenceQueue {
  released = false;
  readonly outOfOrder = false;
  /** Commands so far. */
  position = 0;
  /** Commands that are done. */
  done = 0;
  /** By queue: up to which position its commands are done whenever the next command here runs. */
  readonly clock = new Map<ClockedQueue, number>();
  readonly #waits = new Map<number, readonly ClockedEvent[]>();

  constructor(readonly world: World) {}

  /** Enqueues a command; returns its position. */
  work(events: readonly ClockedEvent[] = []): number {
    this.position++;
    for (const { clock } of events) {
      for (const [queue, at] of clock) {
        this.clock.set(queue, Math.max(this.clock.get(queue) ?? 0, at));
      }
    }
    this.clock.set(this, this.position);
    this.#waits.set(this.position, events);
    return this.position;
  }

  marker(): ClockedEvent {
    if (this.released) throw new Error("A released queue was marked");
    return this.#event(this.work());
  }

  barrier(events: ClockedEvent[]): ClockedEvent {
    if (this.released) throw new Error("A barrier on a released queue");
    for (const event of events) if (event.released) throw new Error("A released event in a list");
    return this.#event(this.work(events));
  }

  flush(): void {}

  #event(position: number): ClockedEvent {
    const event = new ClockedEvent(this, position, new Map(this.clock), this.world.nextFails());
    this.world.events.push(event);
    return event;
  }

  /** Lets up to `count` commands run, as far as what they wait for is done. */
  advance(count: number): void {
    for (; count > 0 && this.done < this.position; count--) {
      const waits = this.#waits.get(this.done + 1)!;
      if (waits.some(({ queue, position }) => queue.done < position)) return;
      this.done++;
    }
  }

  /** Lets everything run that must run for a command to be done. */
  runTo(position: number): void {
    while (this.done < position) {
      for (const event of this.#waits.get(this.done + 1)!) event.queue.runTo(event.position);
      this.done++;
    }
  }
}

/** Queues that wait for each other. */
export class World {
  /** Those that can be used. */
  readonly queues: ClockedQueue[];
  /** Also those that were released: their commands go on. */
  readonly all: ClockedQueue[];
  /** Every event that was made. */
  readonly events: ClockedEvent[] = [];
  /** The number of questions for the state of an event. */
  questions = 0;
  /** True if the next event is one of a command that fails. */
  nextFails: () => boolean = () => false;

  constructor(size: number) {
    this.queues = Array.from({ length: size }, () => new ClockedQueue(this));
    this.all = [...this.queues];
  }

  /** Releases a queue and puts a new one in its place. */
  replace(index: number): void {
    this.queues[index]!.released = true;
    this.queues[index] = new ClockedQueue(this);
    this.all.push(this.queues[index]!);
  }
}
