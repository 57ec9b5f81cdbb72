/**
 * Events: what a command leaves behind to wait for.
 *
 * This folder (`events/`) is about what goes on after a call has returned: waiting, the memory that
 * a transfer holds until its event is complete, what must not be freed before a context's queues are
 * done. It imports `objects/`, `library/`, `symbols/` and `host/`, and knows queues by
 * `EnqueueTarget` only.
 * Events come from the enqueue functions of `memory/` and `queue/`.
 *
 * @module
 */
import { CommandType, EventInfo, ProfilingInfo, Status } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { check, CommandFailedError } from "../library/errors.ts";
import type { Flushable } from "./enqueue_target.ts";
import { eventOut } from "./event_list.ts";
import { readers } from "../library/info.ts";
import { cl } from "../library/library.ts";
import { OpenCLObject, type Releaser, releasers, requireObject } from "../objects/object.ts";
import type { Handle } from "../symbols/types.ts";
import { retireTransfers, throwFailureOf, throwSilenceOf } from "./transfers.ts";
import { executionStatus, waitForEvent, waitForEventSync, waitInDriver } from "./waiting.ts";

/** Time stamps of a command in nanoseconds of the device's clock. */
export interface EventProfile {
  /** Time at which the host enqueued it. */
  readonly queued: number;
  /** Time at which the host submitted it. */
  readonly submitted: number;
  /** Time at which it began. */
  readonly started: number;
  /** Time at which it ended. */
  readonly ended: number;
}

const states = ["complete", "running", "submitted", "queued"] as const;
const commandNames: ReadonlyMap<number, string> = new Map(
  Object.entries(CommandType).map(([name, code]) => [code, name]),
);
const stamp = new BigUint64Array(1);

/**
 * The state of one command. It need not be released at once: what is forgotten is released when it
 * is collected.
 */
export class Event extends OpenCLObject<"Event"> {
  readonly #queue: Flushable | null;
  #waiting: Promise<void> | null = null;

  /** Takes over one reference to an event. Commands make events; this is for calls made by hand. */
  constructor(
    handle: Handle<"Event">,
    queue: Flushable | null = null,
    releaser: Releaser = releasers.event,
  ) {
    super("Event", handle, releaser);
    this.#queue = queue;
  }

  /**
   * Waits without blocking the event loop. Rejects if the command failed, or if what it read could
   * not be delivered.
   */
  wait(): Promise<void> {
    return this.#waiting ??= this.#wait();
  }

  /** Another owner of the same event, to be released by itself. */
  share(): Event {
    check(cl.clRetainEvent(this.unsafeHandle), "clRetainEvent");
    return new Event(this.unsafeHandle, this.#queue);
  }

  async #wait(): Promise<void> {
    this.#flush();
    try {
      await waitForEvent(this.unsafeHandle);
    } finally {
      this.#waiting = null;
      retireTransfers();
    }
    this.#throwFailure();
  }

  /**
   * Gives the event back. Its command goes on.
   *
   * @throws {TypeError} If what it read could not be delivered, and no wait has told so.
   */
  override release(): void {
    super.release();
    throwFailureOf(this);
  }

  #flush(): void {
    if (this.#queue?.released === false) this.#queue.flush();
  }

  /** Waits and blocks the thread. Throws if the command failed. */
  waitSync(): void {
    this.#waitBy(waitForEventSync);
  }

  /**
   * Waits and blocks the thread in the driver, where nothing ends the wait early: for commands that
   * do not take long.
   */
  waitInDriver(): void {
    this.#waitBy(waitInDriver);
  }

  #waitBy(wait: (event: Handle<"Event">) => void): void {
    this.#flush();
    try {
      wait(this.unsafeHandle);
    } finally {
      retireTransfers();
    }
    this.#throwFailure();
  }

  #throwFailure(): void {
    throwFailureOf(this);
    throwSilenceOf(this);
  }

  /**
   * The state of the command.
   *
   * @throws {CommandFailedError} If it failed, with the code that it failed with.
   * @throws {OpenCLError} If the driver does not tell.
   */
  get status(): "queued" | "submitted" | "running" | "complete" {
    const status = executionStatus(this.unsafeHandle);
    if (status < 0) {
      throw new CommandFailedError(status, "clGetEventInfo", `a command (${this.command})`);
    }
    if (status === 0) retireTransfers();
    return states[status]!;
  }

  /** The kind of command, as in `"NDRANGE_KERNEL"`. */
  get command(): string {
    const handle = this.unsafeHandle;
    const code = readers.u32(
      (parameter, size, value, out) => cl.clGetEventInfo(handle, parameter, size, value, out),
      EventInfo.COMMAND_TYPE,
      "clGetEventInfo",
    );
    return commandNames.get(code) ?? `0x${code.toString(16)}`;
  }

  /** Its time stamps; the queue must have been made with `{ profiling: true }`. */
  get profile(): EventProfile {
    const { QUEUED, SUBMIT, START, END } = ProfilingInfo;
    return {
      queued: this.#time(QUEUED),
      submitted: this.#time(SUBMIT),
      started: this.#time(START),
      ended: this.#time(END),
    };
  }

  /** Milliseconds that it ran on the device; needs a queue with `{ profiling: true }`. */
  get durationMs(): number {
    return (this.#time(ProfilingInfo.END) - this.#time(ProfilingInfo.START)) / 1e6;
  }

  #time(parameter: number): number {
    const call = "clGetEventProfilingInfo";
    check(cl.clGetEventProfilingInfo(this.unsafeHandle, parameter, 8n, stamp, null), call);
    return Number(stamp[0]);
  }
}

/** The event that an enqueue function has just put into {@linkcode eventOut}. */
export function takeEvent(status: number, call: string, queue: Flushable): Event {
  check(status, call);
  return new Event(eventOut[0] as Handle<"Event">, queue);
}

const errorCode = new Int32Array(1);
const ABANDONED = Status.CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;

/**
 * An event that the program itself completes; commands can wait for it. Released or forgotten
 * before that, it fails, and so do the commands that wait for it: otherwise they would for ever.
 *
 * NVIDIA's driver (580.159) has a thread of its own for commands that wait so, which reads freed memory at
 * times and ends the process: what is to run there waits on the host instead.
 */
export class UserEvent extends Event {
  readonly #state: { completed: boolean };

  /** Makes an event that is not complete. */
  constructor(context: Context) {
    requireObject("make a UserEvent", context, "Context");
    const handle = cl.clCreateUserEvent(context.unsafeHandle, errorCode);
    check(errorCode[0]!, "clCreateUserEvent");
    const state = { completed: false };
    super(handle, null, {
      call: "clReleaseEvent",
      run(event) {
        // It matters only to those who still wait, and they see that it is gone.
        if (!state.completed) cl.clSetUserEventStatus(event as Handle<"Event">, ABANDONED);
        return cl.clReleaseEvent(event as Handle<"Event">);
      },
    });
    this.#state = state;
  }

  /**
   * Marks it as complete, or as failed with a negative status. Once only.
   *
   * @param status 0 (default), or the negative code that waiting commands fail with.
   */
  complete(status = 0): void {
    check(cl.clSetUserEventStatus(this.unsafeHandle, status), "clSetUserEventStatus");
    this.#state.completed = true;
  }
}
