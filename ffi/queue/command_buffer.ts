/**
 * Command buffers (cl_khr_command_buffer): commands that are recorded once and enqueued many times.
 *
 * @module
 */
import { filledPart, type FillOptions, fillRules } from "../memory/access_options.ts";
import type { Buffer } from "../memory/buffer.ts";
import type { CommandQueue } from "./command_queue.ts";
import { check } from "../library/errors.ts";
import { type Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { bindExtension, extensionVersion } from "../objects/extension.ts";
import { readers } from "../library/info.ts";
import type { Kernel } from "../kernels/kernel.ts";
import { prepareLaunch, writeSizes } from "./launch.ts";
import { OpenCLObject, requireObject } from "../objects/object.ts";
import {
  type BufferCopyOptions,
  bufferCopyRules,
  copiedParts,
  type LaunchOptions,
  launchRules,
} from "./queue_options.ts";
import { toSize } from "../host/size.ts";
import { commandBufferFunctions } from "../symbols/command_buffer.ts";
import type { Calls, FunctionTable, FunctionType, Handle } from "../symbols/types.ts";
import { transferable } from "../events/transfers.ts";
import { checkOptions } from "../host/options.ts";

const extension = "cl_khr_command_buffer";
const stateParameter = 0x1297;
const states = ["recording", "executable", "pending", "invalid"] as const;

type Functions = Calls<typeof commandBufferFunctions>;

/** A command of a command buffer, for later ones to wait for. */
export type SyncPoint = number;

/** The options of a command that is recorded. */
export type Recorded<T> = Omit<T, "wait"> & {
  /** Commands of the same command buffer to wait for; without them the order of recording holds. */
  readonly wait?: readonly SyncPoint[];
};

const errorCode = new Int32Array(1);
const syncPointOut = new Uint32Array(1);

/**
 * Commands that are recorded once and enqueued many times, which costs the host one call. A
 * kernel's arguments are those at the time of recording.
 */
export class CommandBuffer extends OpenCLObject<"CommandBuffer"> {
  /** The queue that it was recorded for. */
  readonly queue: CommandQueue;
  readonly #functions: Functions;
  readonly #referred = new Set<OpenCLObject<string>>();

  /**
   * Makes an empty command buffer.
   *
   * @throws {OpenCLUnavailableError} If the queue's device lacks cl_khr_command_buffer.
   */
  constructor(queue: CommandQueue) {
    requireObject("make a CommandBuffer", queue, "CommandQueue");
    const functions = bindFunctions(queue);
    const queues = new BigUint64Array([queue.unsafeHandle]);
    const handle = functions.clCreateCommandBufferKHR(1, queues, null, errorCode);
    check(errorCode[0]!, "clCreateCommandBufferKHR");
    super("CommandBuffer", handle, {
      call: "clReleaseCommandBufferKHR",
      run: (handle) => functions.clReleaseCommandBufferKHR(handle as Handle<"CommandBuffer">),
    });
    this.queue = queue;
    this.#functions = functions;
  }

  /** Records a launch. */
  run(kernel: Kernel, options: Recorded<LaunchOptions>): SyncPoint {
    checkOptions("record a launch", options, launchRules);
    requireObject("record a launch", kernel, "Kernel");
    prepareLaunch(kernel, options);
    for (const object of kernel.referred) this.#referred.add(object);
    const { global, local, offset, wait } = options;
    const status = this.#functions.clCommandNDRangeKernelKHR(
      this.unsafeHandle,
      onlyQueue,
      null,
      kernel.unsafeHandle,
      global.length,
      offset ? writeSizes(offset, new BigUint64Array(3)) : null,
      writeSizes(global, new BigUint64Array(3)),
      local ? writeSizes(local, new BigUint64Array(3)) : null,
      wait?.length ?? 0,
      syncPoints(wait),
      syncPointOut,
      null,
    );
    return syncPoint(status, "clCommandNDRangeKernelKHR");
  }

  /** Records a copy from buffer to buffer. */
  copy(source: Buffer, destination: Buffer, options: Recorded<BufferCopyOptions> = {}): SyncPoint {
    checkOptions("record a copy", options, bufferCopyRules);
    requireObject("record a copy from a buffer", source, "Buffer");
    requireObject("record a copy to a buffer", destination, "Buffer");
    const { wait } = options;
    const { from, to, nbytes } = copiedParts(options, source.nbytes, destination.nbytes);
    this.#referred.add(source).add(destination);
    const status = this.#functions.clCommandCopyBufferKHR(
      this.unsafeHandle,
      onlyQueue,
      source.unsafeHandle,
      destination.unsafeHandle,
      toSize(from, "an offset"),
      toSize(to, "an offset"),
      toSize(nbytes, "a size"),
      wait?.length ?? 0,
      syncPoints(wait),
      syncPointOut,
      null,
    );
    return syncPoint(status, "clCommandCopyBufferKHR");
  }

  /** Records a fill. */
  fill(buffer: Buffer, pattern: ArrayBufferView, options: Recorded<FillOptions> = {}): SyncPoint {
    checkOptions("record a fill", options, fillRules);
    requireObject("record a fill", buffer, "Buffer");
    const { wait } = options;
    const { offset, nbytes } = filledPart(options, pattern, buffer.nbytes, "a buffer");
    this.#referred.add(buffer);
    const status = this.#functions.clCommandFillBufferKHR(
      this.unsafeHandle,
      onlyQueue,
      buffer.unsafeHandle,
      transferable(pattern, "fill with"),
      toSize(pattern.byteLength, "a size"),
      toSize(offset, "an offset"),
      toSize(nbytes, "a size"),
      wait?.length ?? 0,
      syncPoints(wait),
      syncPointOut,
      null,
    );
    return syncPoint(status, "clCommandFillBufferKHR");
  }

  /** Records a barrier. */
  barrier(wait?: readonly SyncPoint[]): SyncPoint {
    const status = this.#functions.clCommandBarrierWithWaitListKHR(
      this.unsafeHandle,
      onlyQueue,
      wait?.length ?? 0,
      syncPoints(wait),
      syncPointOut,
      null,
    );
    return syncPoint(status, "clCommandBarrierWithWaitListKHR");
  }

  /** Ends the recording. */
  finalize(): this {
    check(
      this.#functions.clFinalizeCommandBufferKHR(this.unsafeHandle),
      "clFinalizeCommandBufferKHR",
    );
    return this;
  }

  /**
   * Enqueues all of its commands. It must be finalized, and its last run be complete.
   *
   * @throws {DisposedError} If its queue was released, or memory that a command uses.
   */
  enqueue(wait?: readonly Event[]): Event {
    // What the queue holds back comes first. OpenCL does not promise that released objects are kept.
    for (const object of [this.queue, ...this.#referred]) void object.unsafeHandle;
    const status = this.#functions.clEnqueueCommandBufferKHR(
      0,
      null,
      this.unsafeHandle,
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueCommandBufferKHR", this.queue);
  }

  /** Its state. */
  get state(): "recording" | "executable" | "pending" | "invalid" {
    const handle = this.unsafeHandle;
    const state = readers.u32(
      (parameter, size, value, out) =>
        this.#functions.clGetCommandBufferInfoKHR(handle, parameter, size, value, out),
      stateParameter,
      "clGetCommandBufferInfoKHR",
    );
    return states[state]!;
  }
}

/** Stands for the command buffer's own queue. */
const onlyQueue = 0n as Handle<"CommandQueue">;

function syncPoints(wait: readonly SyncPoint[] | undefined): Uint32Array | null {
  return wait?.length ? new Uint32Array(wait) : null;
}

function syncPoint(status: number, call: string): SyncPoint {
  check(status, call);
  return syncPointOut[0]!;
}

/**
 * Version 0.9.5 put a properties list after the queue of every recording function but the launch.
 */
function bindFunctions(queue: CommandQueue): Functions {
  const version = extensionVersion(queue.device, extension);
  return bindCommandBufferFunctions(
    (table) => bindExtension(queue.device, extension, table),
    version[0] > 0 || version[1] > 9 || (version[1] === 9 && version[2] >= 5),
  );
}

/**
 * The functions with the parameters of version 0.9.0, whichever version the driver has.
 *
 * @param bind Finds the functions of a table.
 * @param withProperties Whether the driver has version 0.9.5 or a later one.
 */
export function bindCommandBufferFunctions(
  bind: (table: FunctionTable) => unknown,
  withProperties: boolean,
): Functions {
  if (!withProperties) return bind(commandBufferFunctions) as Functions;
  const entries: [string, FunctionType][] = Object.entries(commandBufferFunctions);
  const table = Object.fromEntries(entries.map(([name, type]) => [
    name,
    takesProperties(name)
      ? { ...type, parameters: type.parameters.toSpliced(2, 0, "buffer") }
      : type,
  ]));
  const functions = bind(table) as Record<string, (...args: unknown[]) => unknown>;
  for (const name of Object.keys(functions).filter(takesProperties)) {
    const call = functions[name]!;
    functions[name] = (...args) => call(...args.toSpliced(2, 0, null));
  }
  return functions as unknown as Functions;
}

function takesProperties(name: string): boolean {
  return name.startsWith("clCommand") && name !== "clCommandNDRangeKernelKHR";
}
