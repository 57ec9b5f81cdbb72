/**
 * Memory that the driver does not keep for its commands: shared virtual memory is freed at once,
 * memory of JavaScript is the collector's. Whoever gives such memory back leaves it here until
 * every queue of the context is through with what it was given.
 *
 * @module
 */
import { check, OpenCLError } from "../library/errors.ts";
import { cl } from "../library/library.ts";
import { runAll } from "../host/run_all.ts";
import type { Handle } from "../symbols/types.ts";
import { executionStatus } from "./waiting.ts";

type QueueHandle = Handle<"CommandQueue">;
type ContextHandle = Handle<"Context">;
type EventHandle = Handle<"Event">;

interface Deferred {
  readonly context: ContextHandle;
  /** One for each queue; `null` while the driver refuses to make them. */
  markers: EventHandle[] | null;
  readonly finish: () => void;
}

/** The queues that were not given back, each with its context. */
const queues = new Map<QueueHandle, ContextHandle>();
/** The number of pieces of such memory in a context; without any, queues need leave no marker. */
const users = new Map<ContextHandle, number>();
/** Unfinished work of queues that were given back. */
const leftovers = new Map<ContextHandle, EventHandle[]>();
let deferred: Deferred[] = [];

const eventOut = new BigUint64Array(1);

/** Says that a queue exists. */
export function addQueue(queue: QueueHandle, context: ContextHandle): void {
  queues.set(queue, context);
}

/** Says that a queue is given back; where it matters, a marker stays behind for its work. */
export function removeQueue(queue: QueueHandle): void {
  const context = queues.get(queue);
  queues.delete(queue);
  if (context === undefined || !users.has(context)) return;
  const left = (leftovers.get(context) ?? []).filter(isBusyOrRelease);
  const marker = tryMark(() => [markerOn(queue)]);
  if (marker === null) check(cl.clFinish(queue), "clFinish");
  leftovers.set(context, [...left, ...marker ?? []]);
}

/** Says that a context has memory that must not be freed under its commands. */
export function addUser(context: ContextHandle): void {
  users.set(context, (users.get(context) ?? 0) + 1);
}

/**
 * Runs `finish` when all that the context's queues were given so far is done: at once where it is,
 * else in a later wait. The counterpart of {@linkcode addUser}.
 */
export function whenIdle(context: ContextHandle, finish: () => void): void {
  deferred.push({ context, markers: tryMark(() => markAll(context)), finish });
  retireDeferred();
}

/** Runs what is due. Called after each wait. */
export function retireDeferred(): void {
  if (deferred.length === 0) return;
  const due: Deferred[] = [], busy: Deferred[] = [];
  for (const entry of deferred) (isPending(entry) ? busy : due).push(entry);
  deferred = busy;
  runAll(due.flatMap((entry) => [
    ...entry.markers!.map((marker) => () => check(cl.clReleaseEvent(marker), "clReleaseEvent")),
    entry.finish,
    () => removeUser(entry.context),
  ]));
}

/**
 * Waits, on the host, until nothing of a context is deferred any longer.
 *
 * @returns Whether anything was.
 */
export function awaitDeferred(context: ContextHandle): boolean {
  const markers = deferred.filter((entry) => entry.context === context)
    .flatMap((entry) => entry.markers ?? []);
  // A failed command has ended, too; its own event throws the error.
  if (markers.length > 0) cl.clWaitForEvents(markers.length, new BigUint64Array(markers));
  retireDeferred();
  return markers.length > 0;
}

function isPending(entry: Deferred): boolean {
  entry.markers ??= tryMark(() => markAll(entry.context));
  return entry.markers?.some(isBusy) ?? true;
}

/** Markers, or `null` where the driver refuses one: what waits for them goes on waiting. */
function tryMark(mark: () => EventHandle[]): EventHandle[] | null {
  try {
    return mark();
  } catch (error) {
    if (error instanceof OpenCLError) return null;
    throw error;
  }
}

function markAll(context: ContextHandle): EventHandle[] {
  const markers: EventHandle[] = [];
  try {
    for (const [queue, owner] of queues) if (owner === context) markers.push(markerOn(queue));
    const left = (leftovers.get(context) ?? []).filter(isBusyOrRelease);
    leftovers.set(context, left);
    for (const marker of left) {
      check(cl.clRetainEvent(marker), "clRetainEvent");
      markers.push(marker);
    }
    return markers;
  } catch (error) {
    for (const marker of markers) cl.clReleaseEvent(marker);
    throw error;
  }
}

function markerOn(queue: QueueHandle): EventHandle {
  const call = "clEnqueueMarkerWithWaitList";
  check(cl.clEnqueueMarkerWithWaitList(queue, 0, null, eventOut), call);
  const marker = eventOut[0] as EventHandle;
  check(cl.clFlush(queue), "clFlush");
  return marker;
}

function removeUser(context: ContextHandle): void {
  const count = (users.get(context) ?? 1) - 1;
  if (count > 0) return void users.set(context, count);
  users.delete(context);
  for (const marker of leftovers.get(context) ?? []) cl.clReleaseEvent(marker);
  leftovers.delete(context);
}

/** A driver that does not answer is busy: memory that it may use is kept. */
function isBusy(event: EventHandle): boolean {
  try {
    return executionStatus(event) > 0;
  } catch {
    return true;
  }
}

function isBusyOrRelease(event: EventHandle): boolean {
  if (isBusy(event)) return true;
  check(cl.clReleaseEvent(event), "clReleaseEvent");
  return false;
}
