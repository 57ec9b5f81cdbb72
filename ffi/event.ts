/**
 * Events: what a command leaves behind to wait for.
 *
 * @module
 */
import { CommandType, EventInfo, ProfilingInfo } from "./constants.ts";
import type { Context } from "./context.ts";
import { check, OpenCLError } from "./errors.ts";
import { eventOut } from "./event_list.ts";
import { readers } from "./info.ts";
import { cl } from "./library.ts";
import { OpenCLObject, releasers } from "./object.ts";
import type { Handle } from "./symbols/types.ts";
import { settleTransfers } from "./transfers.ts";
import { executionStatus, waitForEvent, waitForEventSync } from "./waiting.ts";

/** What an event needs of its queue. */
export interface Flushable {
  /** Sends everything that was enqueued to the device. */
  flush(): void;
}

/** Time stamps of a command in nanoseconds of the device's clock. */
export interface EventProfile {
  /** When the host enqueued it. */
  readonly queued: number;
  /** When the host submitted it. */
  readonly submitted: number;
  /** When it began. */
  readonly started: number;
  /** When it ended. */
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
  constructor(handle: Handle<"Event">, queue: Flushable | null = null) {
    super("Event", handle, releasers.event);
    this.#queue = queue;
  }

  /** Waits without blocking the event loop. Rejects if the command failed. */
  wait(): Promise<void> {
    return this.#waiting ??= this.#wait();
  }

  async #wait(): Promise<void> {
    this.#queue?.flush();
    try {
      await waitForEvent(this.unsafeHandle);
    } finally {
      this.#waiting = null;
      settleTransfers();
    }
  }

  /** Waits and blocks the thread. Throws if the command failed. */
  waitSync(): void {
    this.#queue?.flush();
    try {
      waitForEventSync(this.unsafeHandle);
    } finally {
      settleTransfers();
    }
  }

  /**
   * How far the command is.
   *
   * @throws {OpenCLError} If it failed, with the code that it failed with.
   */
  get status(): "queued" | "submitted" | "running" | "complete" {
    const status = executionStatus(this.unsafeHandle);
    if (status < 0) throw new OpenCLError(status, "clGetEventInfo", `a command (${this.command})`);
    if (status === 0) settleTransfers();
    return states[status]!;
  }

  /** What kind of command it was, as in `"NDRANGE_KERNEL"`. */
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

  /** How long it ran on the device, in milliseconds; needs a queue with `{ profiling: true }`. */
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

/** An event that the program itself completes; commands can wait for it. */
export class UserEvent extends Event {
  /** Makes an event that is not complete. */
  constructor(context: Context) {
    const handle = cl.clCreateUserEvent(context.unsafeHandle, errorCode);
    check(errorCode[0]!, "clCreateUserEvent");
    super(handle);
  }

  /**
   * Marks it as complete, or as failed with a negative status. Once only.
   *
   * @param status 0, or the negative code that waiting commands fail with.
   */
  complete(status = 0): void {
    check(cl.clSetUserEventStatus(this.unsafeHandle, status), "clSetUserEventStatus");
  }
}
