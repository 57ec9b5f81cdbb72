/**
 * Live queues: the end of the process finishes all of them, also those that a user
 * made by hand.
 *
 * @module
 */
import { type CommandQueue, queues } from "./command_queue.ts";

/** The queues that are not released. */
export function liveQueues(): CommandQueue[] {
  return queues.live();
}

/**
 * Calls back whenever a queue is made, until the result is disposed of.
 *
 * @param listener Runs inside the constructor, at its end.
 */
export function onQueueCreated(listener: (queue: CommandQueue) => void): Disposable {
  return queues.onAdded(listener);
}
