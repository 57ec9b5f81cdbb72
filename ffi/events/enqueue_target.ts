/**
 * The part of a queue that events and memory objects need; they do not import queues.
 *
 * @module
 */
import type { Handle } from "../symbols/types.ts";

/** The part of a queue that an event needs. */
export interface Flushable {
  /** True when it was released, which sent what was enqueued before to the device. */
  readonly released: boolean;
  /** Sends everything that was enqueued to the device. */
  flush(): void;
}

/** A command as transfers and wait lists know it; `Event` is one. */
export interface Completion {
  /** The raw handle. */
  readonly unsafeHandle: Handle<"Event">;
  /** True when it was given back. */
  readonly released: boolean;
  /** Waits and blocks the thread. */
  waitSync(): void;
  /** Gives it back; the command goes on. */
  release(): void;
}

/** A target of commands; `CommandQueue` is one. */
export interface EnqueueTarget extends Flushable {
  /** The raw handle; who asks for it enqueues something. */
  readonly unsafeHandle: Handle<"CommandQueue">;
  /** Keeps `memory` alive until `event` is complete, then runs `finish`. */
  hold(event: Completion, memory: ArrayBufferView, finish?: (() => void) | null): void;
}
