/**
 * What events and memory objects need of a queue: so that they know no queue, which knows them.
 *
 * @module
 */
import type { Handle } from "../symbols/types.ts";
import type { Event } from "./event.ts";

/** What an event needs of its queue. */
export interface Flushable {
  /** Whether it was released, which sent what was enqueued before to the device. */
  readonly released: boolean;
  /** Sends everything that was enqueued to the device. */
  flush(): void;
}

/** What commands are enqueued on; `CommandQueue` is one. */
export interface EnqueueTarget extends Flushable {
  /** The raw handle; who asks for it enqueues something. */
  readonly unsafeHandle: Handle<"CommandQueue">;
  /** Keeps `memory` alive until `event` is complete, then runs `finish`. */
  hold(event: Event, memory: ArrayBufferView, finish?: (() => void) | null): void;
}
