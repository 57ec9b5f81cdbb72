/**
 * Shared virtual memory: one address for host and device.
 *
 * @module
 */
import type { EnqueueTarget } from "../events/enqueue_target.ts";
import { MemFlags, Status, SvmCapabilities } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { Device } from "../objects/device.ts";
import { addUser, awaitDeferred, whenIdle } from "../events/context_work.ts";
import { check, OpenCLError } from "../library/errors.ts";
import { type Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { cl, hasFunction } from "../library/library.ts";
import { mapFlags } from "./mapped_region.ts";
import { detach, memoryView } from "../library/memory_view.ts";
import { OpenCLObject, requireObject } from "../objects/object.ts";
import {
  filledPart,
  type FillOptions,
  fillRules,
  type MapOptions,
  mapRules,
  partOf,
} from "./access_options.ts";
import { checkRange, toSize } from "../host/size.ts";
import { withProcessLock } from "../host/process_lock.ts";
import type { Handle } from "../symbols/types.ts";
import { transferable } from "../events/transfers.ts";
import * as takes from "../host/option_rules.ts";
import { checkOptions, requireValue, type Rules } from "../host/options.ts";

/** Options of shared memory. */
export interface SvmOptions {
  /**
   * True when host and device may use it at the same time, without mapping it; false by default.
   */
  readonly fineGrain?: boolean;
  /** True when atomics of host and device see each other; needs `fineGrain`. False by default. */
  readonly atomics?: boolean;
  /** Alignment in bytes, a power of two; by default that of the largest vector. */
  readonly alignment?: number;
}

const rules: Rules<SvmOptions> = {
  fineGrain: takes.bool,
  atomics: takes.bool,
  alignment: takes.whole,
};

const aDevice = {
  takes: "a device, such as platforms() list them",
  accepts: (value: unknown) => value instanceof Device,
};

/**
 * Shared virtual memory, where {@linkcode SvmBuffer.isAvailable}.
 * Coarse-grained memory must be mapped while the host touches it.
 */
export class SvmBuffer extends OpenCLObject<"Svm"> {
  /** The context that it belongs to. */
  readonly context: Context;
  /** Its size in bytes. */
  readonly nbytes: number;
  /** True when it can be used without being mapped. */
  readonly fineGrain: boolean;
  readonly #bytes: Uint8Array<ArrayBuffer>;

  /**
   * Makes shared memory.
   *
   * @throws {OpenCLError} If the device has none of that kind or size; OpenCL does not tell which.
   */
  constructor(context: Context, nbytes: number, options: SvmOptions = {}) {
    checkOptions("make an SvmBuffer", options, rules);
    requireObject("make an SvmBuffer", context, "Context");
    const owner = context.unsafeHandle;
    super("SvmBuffer", allocate(owner, nbytes, options), {
      call: "clReleaseContext",
      run(address) {
        // Unlike a buffer, shared memory is freed at once, whatever still uses it.
        whenIdle(owner, () => {
          cl.clSVMFree(owner, address);
          check(withProcessLock(() => cl.clReleaseContext(owner)), "clReleaseContext");
        });
        return 0;
      },
    });
    addUser(owner);
    this.context = context;
    this.nbytes = nbytes;
    this.fineGrain = options.fineGrain ?? false;
    this.#bytes = memoryView(this.unsafeHandle, nbytes, this);
  }

  /**
   * True when such memory can be made: the device offers it, and the OpenCL library, which may be older,
   * has the functions.
   */
  static isAvailable(device: Device, options: SvmOptions = {}): boolean {
    const action = "look for shared memory";
    checkOptions(action, options, rules);
    requireValue(action, "device", device, aDevice);
    if (!hasFunction("clSVMAlloc") || !hasFunction("clSVMFree")) return false;
    const due =
      (options.fineGrain
        ? SvmCapabilities.FINE_GRAIN_BUFFER
        : SvmCapabilities.COARSE_GRAIN_BUFFER) | (options.atomics ? SvmCapabilities.ATOMICS : 0n);
    try {
      return (device.query("SVM_CAPABILITIES") & due) === due;
    } catch (error) {
      // What drivers older than OpenCL 2.0 say to a question that they do not know.
      if (error instanceof OpenCLError && error.codeName === "CL_INVALID_VALUE") return false;
      throw error;
    }
  }

  /** The memory itself. Detached at release. Map coarse-grained memory before touching it. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  /** Lets the host touch the memory from the event on; not needed for fine-grained memory. */
  map(queue: EnqueueTarget, options: MapOptions = {}): Event {
    checkOptions("map shared memory", options, mapRules);
    requireObject("map shared memory", queue, "CommandQueue");
    const { blocking = true, wait } = options;
    const { offset, nbytes } = partOf(options, this.nbytes, "shared memory");
    const status = cl.clEnqueueSVMMap(
      queue.unsafeHandle,
      0, // waiting goes through the event, so that it can be interrupted
      mapFlags(options),
      this.unsafeHandle + BigInt(offset),
      toSize(nbytes, "a size"),
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    const event = takeEvent(status, "clEnqueueSVMMap", queue);
    if (blocking) waitOrRelease(event);
    return event;
  }

  /** Gives mapped memory back to the device. */
  unmap(queue: EnqueueTarget, wait?: readonly Event[]): Event {
    requireObject("unmap shared memory", queue, "CommandQueue");
    const status = cl.clEnqueueSVMUnmap(
      queue.unsafeHandle,
      this.unsafeHandle,
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueSVMUnmap", queue);
  }

  /** Repeats a pattern over it: 1, 2, 4 ... 128 bytes. */
  fill(queue: EnqueueTarget, pattern: ArrayBufferView, options: FillOptions = {}): Event {
    checkOptions("fill shared memory", options, fillRules);
    requireObject("fill shared memory", queue, "CommandQueue");
    const { wait } = options;
    const { offset, nbytes } = filledPart(options, pattern, this.nbytes, "shared memory");
    const status = cl.clEnqueueSVMMemFill(
      queue.unsafeHandle,
      this.unsafeHandle + BigInt(offset),
      transferable(pattern, "fill with"),
      toSize(pattern.byteLength, "a size"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueSVMMemFill", queue);
  }

  /** Copies its first bytes to other shared memory; by default all of them. */
  copyTo(
    queue: EnqueueTarget,
    destination: SvmBuffer,
    nbytes: number = this.nbytes,
    wait?: readonly Event[],
  ): Event {
    requireObject("copy shared memory", queue, "CommandQueue");
    requireObject("copy to shared memory", destination, "SvmBuffer");
    checkRange(0, nbytes, this.nbytes, "the source");
    checkRange(0, nbytes, destination.nbytes, "the destination");
    const status = cl.clEnqueueSVMMemcpy(
      queue.unsafeHandle,
      0,
      destination.unsafeHandle,
      this.unsafeHandle,
      toSize(nbytes, "a size"),
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueSVMMemcpy", queue);
  }

  /** Frees it, as soon as the work is done that was enqueued before in its context. */
  override release(): void {
    detach(this.#bytes);
    super.release();
  }
}

function allocate(context: Handle<"Context">, nbytes: number, options: SvmOptions): Handle<"Svm"> {
  const flags = MemFlags.READ_WRITE |
    (options.fineGrain ? MemFlags.SVM_FINE_GRAIN_BUFFER : 0n) |
    (options.atomics ? MemFlags.SVM_ATOMICS : 0n);
  const size = toSize(nbytes, "a size of shared memory");
  // Freeing takes the context, which nothing else would keep alive until then.
  check(cl.clRetainContext(context), "clRetainContext");
  const allocate = () => cl.clSVMAlloc(context, flags, size, options.alignment ?? 0);
  let address = 0n;
  try {
    address = allocate() || (awaitDeferred(context) ? allocate() : 0n);
  } finally {
    if (address === 0n) {
      check(withProcessLock(() => cl.clReleaseContext(context)), "clReleaseContext");
    }
  }
  // clSVMAlloc has no status; this is the code that says what most likely went wrong.
  if (address === 0n) {
    const code = Status.CL_MEM_OBJECT_ALLOCATION_FAILURE;
    throw new OpenCLError(code, "clSVMAlloc", `${nbytes} bytes of shared memory`);
  }
  return address as Handle<"Svm">;
}

function waitOrRelease(event: Event): void {
  try {
    event.waitSync();
  } catch (error) {
    event.release();
    throw error;
  }
}
