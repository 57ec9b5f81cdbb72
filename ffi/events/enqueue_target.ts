/**
 * What events and memory objects need of a queue: so that they know no queue, which knows them.
 *
 * @module
 */
import type { Handle } from "../symbols/types.ts";

/** What an event needs of its queue. */
export interface Flushable {
  /** Whether it was released, which sent what was enqueued before to the device. */
  readonly released: boolean;
  /** Sends everything that was enqueued to the device. */
  flush(): void;
}

/** What is left of a command, as transfers and wait lists know it; `Event` is one. */
export interface Completion {
  /** The raw handle. */
  readonly unsafeHandle: Handle<"Event">;
  /** Whether it was given back. */
  readonly released: boolean;
  /** Waits and blocks the thread. */
  waitSync(): void;
  /** Gives it back; the command goes on. */
  release(): void;
}

/** What commands are enqueued on; `CommandQueue` is one. */
export interface EnqueueTarget extends Flushable {
  /** The raw handle; who asks for it enqueues something. */
  readonly unsafeHandle: Handle<"CommandQueue">;
  /** Keeps `memory` alive until `event` is complete, then runs `finish`. */
  hold(event: Completion, memory: ArrayBufferView, finish?: (() => void) | null): void;
}
