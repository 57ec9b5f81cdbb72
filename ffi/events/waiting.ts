/**
 * Waits for the device, and the one place where a layer above can take part.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import { EventInfo, Status } from "../library/constants.ts";
import { check, CommandFailedError, OpenCLError } from "../library/errors.ts";
import { cl } from "../library/library.ts";
import { holdDuring } from "../library/hold.ts";
import type { Handle } from "../symbols/types.ts";

/**
 * A policy that a layer above adds to every wait, so that Ctrl+C can end one. Without it a synchronous
 * wait blocks in the driver, where no signal handler of JavaScript runs.
 */
export interface WaitPolicy {
  /**
   * Called before every synchronous wait: finishSync, waitSync, blocking transfers and maps.
   * Returns when `isDone()` is true (it asks the driver, about 0.1 us; sleep between two calls), or
   * throws to give the wait up: the command then goes on, and its memory stays held until it is
   * done.
   */
  waitSync(isDone: () => boolean): void;
  /** Wraps what every asynchronous wait returns, so that it can be rejected early. */
  wait<T>(promise: Promise<T>): Promise<T>;
}

let policy: WaitPolicy | null = null;

/**
 * Installs a policy for all waits of this process, or removes it.
 *
 * @returns The policy that was there before.
 */
export function setWaitPolicy(next: WaitPolicy | null): WaitPolicy | null {
  const former = policy;
  policy = next;
  return former;
}

/** True when synchronous waits have to go through {@linkcode waitForEventSync}. */
export function hasWaitPolicy(): boolean {
  return policy !== null;
}

const statusOut = new Int32Array(1);
const waitList = new BigUint64Array(1);

/** 3 queued, 2 submitted, 1 running, 0 complete, negative failed. */
export function executionStatus(event: Handle<"Event">): number {
  const parameter = EventInfo.COMMAND_EXECUTION_STATUS;
  check(cl.clGetEventInfo(event, parameter, 4n, statusOut, null), "clGetEventInfo");
  return statusOut[0]!;
}

/** Waits in this thread. The event's queue must have been flushed. */
export function waitForEventSync(event: Handle<"Event">): void {
  policy?.waitSync(() => executionStatus(event) <= 0);
  // Also after polling: that the status says complete does not yet make the results visible.
  waitInDriver(event);
}

/** The same without the policy: Ctrl+C ends no such wait. */
export function waitInDriver(event: Handle<"Event">): void {
  waitList[0] = event;
  checkWait(cl.clWaitForEvents(1, waitList), event);
}

/** NVIDIA's clWaitForEvents succeeds for a failed command, others' fail with a code of the wait. */
function checkWait(status: number, event: Handle<"Event">): void {
  if (status < 0 && status !== Status.CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    throw new OpenCLError(status, "clWaitForEvents");
  }
  const own = executionStatus(event);
  if (own < 0) throw new CommandFailedError(own, "clWaitForEvents");
  if (status < 0) throw new OpenCLError(status, "clWaitForEvents");
}

let waitingThreads = 0;

/** The number of threads in clWaitForEvents: a wait that was given up goes on there. */
export function waitsInFlight(): number {
  return waitingThreads;
}

/** Waits without blocking the event loop. */
export function waitForEvent(event: Handle<"Event">): Promise<void> {
  const waiting = completion(event);
  return policy === null ? waiting : policy.wait(waiting);
}

async function completion(event: Handle<"Event">): Promise<void> {
  check(cl.clRetainEvent(event), "clRetainEvent"); // its owner may release it meanwhile
  try {
    if (executionStatus(event) > 0) await waitElsewhere(event);
    waitList[0] = event;
    checkWait(cl.clWaitForEvents(1, waitList), event);
  } finally {
    check(cl.clReleaseEvent(event), "clReleaseEvent");
  }
}

/** Waits for which there is no thread poll, so that none ever stands behind one that depends on it. */
async function waitElsewhere(event: Handle<"Event">): Promise<void> {
  if (waitingThreads >= host.waitingThreads) return await poll(event);
  waitingThreads++;
  try {
    const list = new BigUint64Array([event]);
    await holdDuring(list, cl.clWaitForEventsAsync(1, list));
  } finally {
    waitingThreads--;
  }
}

async function poll(event: Handle<"Event">): Promise<void> {
  while (executionStatus(event) > 0) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** Applies the policy to another asynchronous wait. */
export function underPolicy<T>(promise: Promise<T>): Promise<T> {
  return policy === null ? promise : policy.wait(promise);
}
