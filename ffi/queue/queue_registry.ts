/**
 * Which queues live: the end of the process finishes all of them, also those that a user
 * made by hand.
 *
 * @module
 */
import type { CommandQueue } from "./command_queue.ts";

// Weak, so that a forgotten queue can still be collected, which releases it.
const queues = new Set<WeakRef<CommandQueue>>();
const listeners = new Set<(queue: CommandQueue) => void>();

/** Called by every new queue. */
export function registerQueue(queue: CommandQueue): void {
  for (const reference of queues) if (isGone(reference)) queues.delete(reference);
  queues.add(new WeakRef(queue));
  for (const listener of listeners) listener(queue);
}

/** The queues that are not released. */
export function liveQueues(): CommandQueue[] {
  return [...queues].map((reference) => reference.deref())
    .filter((queue): queue is CommandQueue => queue !== undefined && !queue.released);
}

/**
 * Calls back whenever a queue is made, until the result is disposed of.
 *
 * @param listener Runs inside the constructor, at its end.
 */
export function onQueueCreated(listener: (queue: CommandQueue) => void): Disposable {
  listeners.add(listener);
  return { [Symbol.dispose]: () => void listeners.delete(listener) };
}

function isGone(reference: WeakRef<CommandQueue>): boolean {
  return reference.deref()?.released ?? true;
}
