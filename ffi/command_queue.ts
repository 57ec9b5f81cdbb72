/**
 * Command queues: everything that a device is told to do.
 *
 * @module
 */
import type { Buffer } from "./buffer.ts";
import { MapFlags, MigrationFlags, QueueProperties } from "./constants.ts";
import type { Context } from "./context.ts";
import type { Device } from "./device.ts";
import { check, OpenCLError } from "./errors.ts";
import { Event } from "./event.ts";
import type { Kernel, KernelArg } from "./kernel.ts";
import { cl } from "./library.ts";
import { MappedRegion } from "./mapped_region.ts";
import { OpenCLObject, releasers } from "./object.ts";
import { registerQueue } from "./queue_registry.ts";
import { checkRange, toSize } from "./size.ts";
import type { Handle } from "./symbols/types.ts";
import { settleTransfers, transferable, TransferList } from "./transfers.ts";
import { hasWaitPolicy, underPolicy, waitForEventSync } from "./waiting.ts";

/** How a queue is made. */
export interface QueueOptions {
  /** Whether events carry time stamps. */
  readonly profiling?: boolean;
  /** Whether commands may overtake each other; order then comes from wait lists and barriers only. */
  readonly outOfOrder?: boolean;
}

/** How bytes move between a buffer and an array. */
export interface TransferOptions {
  /** Where they begin in the buffer, in bytes. */
  readonly offset?: number;
  /** Whether to return only when it is done. */
  readonly blocking?: boolean;
  /**
   * Lends the array to the driver, which saves a copy: leave it alone, and do not transfer it to
   * anyone, until the event is complete.
   */
  readonly borrow?: boolean;
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** What part of a buffer to map, and for what. */
export interface MapOptions {
  /** Whether the host will read it; true by default. */
  readonly read?: boolean;
  /** Whether the host will write it; true by default. */
  readonly write?: boolean;
  /** Whether to drop the former content, which saves a copy on discrete devices. */
  readonly discard?: boolean;
  /** Where it begins, in bytes. */
  readonly offset?: number;
  /** How many bytes; by default the rest. */
  readonly nbytes?: number;
  /** Whether to wait until it may be touched; true by default. */
  readonly blocking?: boolean;
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** A launch. */
export interface LaunchOptions {
  /** Work-items, in 1 to 3 dimensions. */
  readonly global: readonly number[];
  /** Work-items of a work-group; the driver chooses where it is left out. */
  readonly local?: readonly number[];
  /** All arguments; without them those that are set hold. */
  readonly args?: readonly KernelArg[];
  /** Where the global ids begin. */
  readonly offset?: readonly number[];
  /** What to wait for. */
  readonly wait?: readonly Event[];
}

/** A box of bytes of a buffer or an array: `[x in bytes, y in rows, z in slices]`. */
export interface RectLayout {
  /** Where it begins; the corner by default. */
  readonly origin?: readonly [number, number, number];
  /** Bytes from row to row; by default the region's width. */
  readonly rowPitch?: number;
  /** Bytes from slice to slice; by default rows times row pitch. */
  readonly slicePitch?: number;
}

// Out-parameters and lists of one call at a time: every call below is synchronous.
const errorCode = new Int32Array(1);
const eventOut = new BigUint64Array(1);
const globalOut = new BigUint64Array(3);
const localOut = new BigUint64Array(3);
const offsetOut = new BigUint64Array(3);
let waitList = new BigUint64Array(16);

/**
 * A queue of commands for one device. Commands run in the order of the calls, unless it was made with
 * `outOfOrder`.
 *
 * @example
 * ```ts no-assert
 * import { Buffer, CommandQueue, Context, isOpenCLAvailable, platforms } from "@netcl/netcl/ffi";
 *
 * if (isOpenCLAvailable()) {
 *   using context = new Context(platforms()[0]!.devices()[0]!);
 *   using queue = new CommandQueue(context);
 *   using buffer = new Buffer(context, 12);
 *   queue.write(buffer, new Float32Array([1, 2, 3]));
 *   const result = new Float32Array(3);
 *   await queue.read(buffer, result).wait();
 *   console.log(result);
 * }
 * ```
 */
export class CommandQueue extends OpenCLObject<"CommandQueue"> {
  /** The context that it belongs to. */
  readonly context: Context;
  /** The device that it feeds. */
  readonly device: Device;
  /** Whether events carry time stamps. */
  readonly profiling: boolean;
  /** Whether commands may overtake each other. */
  readonly outOfOrder: boolean;
  readonly #transfers: TransferList;
  // The wait that runs now, and the one after it that later callers share: a queue never occupies more
  // than one thread.
  #finishing: Promise<void> | null = null;
  #finishingNext: Promise<void> | null = null;

  /**
   * @param context The context that it belongs to.
   * @param device One of the context's devices; the first one by default.
   */
  constructor(context: Context, device?: Device, options: QueueOptions = {}) {
    const target = device ?? context.devices[0]!;
    super("CommandQueue", createQueue(context, target, options), releasers.queue);
    this.context = context;
    this.device = target;
    this.profiling = options.profiling ?? false;
    this.outOfOrder = options.outOfOrder ?? false;
    this.#transfers = new TransferList(!this.outOfOrder);
    registerQueue(this);
  }

  /**
   * Copies an array into a buffer. Unless it is lent, the array may be changed as soon as this returns.
   *
   * @throws {TypeError} If the array's memory may move or is gone.
   */
  write(buffer: Buffer, data: ArrayBufferView, options: TransferOptions = {}): Event {
    const { offset = 0, blocking = false, borrow = blocking, wait } = options;
    const bytes = transferable(data, "write from");
    const source = borrow ? bytes : bytes.slice();
    checkRange(offset, bytes.byteLength, buffer.nbytes, "a buffer");
    const direct = blocking && !hasWaitPolicy();
    return this.#transfer(
      cl.clEnqueueWriteBuffer(
        this.unsafeHandle,
        buffer.unsafeHandle,
        direct ? 1 : 0,
        toSize(offset, "an offset"),
        toSize(bytes.byteLength, "a size"),
        source,
        listEvents(wait),
        wait?.length ? waitList : null,
        eventOut,
      ),
      "clEnqueueWriteBuffer",
      { memory: source, finish: null, blocking, direct },
    );
  }

  /**
   * Copies a buffer into an array, as many bytes as the array has. Unless it is lent, the array changes when
   * the event, or the queue, was waited for.
   *
   * @throws {TypeError} If the array's memory may move or is gone.
   */
  read(buffer: Buffer, into: ArrayBufferView, options: TransferOptions = {}): Event {
    const { offset = 0, blocking = false, borrow = blocking, wait } = options;
    const bytes = transferable(into, "read into");
    const target = borrow ? bytes : new Uint8Array(bytes.byteLength);
    checkRange(offset, bytes.byteLength, buffer.nbytes, "a buffer");
    const direct = blocking && !hasWaitPolicy();
    return this.#transfer(
      cl.clEnqueueReadBuffer(
        this.unsafeHandle,
        buffer.unsafeHandle,
        direct ? 1 : 0,
        toSize(offset, "an offset"),
        toSize(bytes.byteLength, "a size"),
        target,
        listEvents(wait),
        wait?.length ? waitList : null,
        eventOut,
      ),
      "clEnqueueReadBuffer",
      { memory: target, finish: borrow ? null : () => deliver(target, into), blocking, direct },
    );
  }

  /** Copies bytes from buffer to buffer. */
  copy(
    source: Buffer,
    destination: Buffer,
    options: {
      readonly sourceOffset?: number;
      readonly destinationOffset?: number;
      readonly nbytes?: number;
      readonly wait?: readonly Event[];
    } = {},
  ): Event {
    const { sourceOffset = 0, destinationOffset = 0, wait } = options;
    const { nbytes = source.nbytes - sourceOffset } = options;
    checkRange(sourceOffset, nbytes, source.nbytes, "the source");
    checkRange(destinationOffset, nbytes, destination.nbytes, "the destination");
    const status = cl.clEnqueueCopyBuffer(
      this.unsafeHandle,
      source.unsafeHandle,
      destination.unsafeHandle,
      toSize(sourceOffset, "an offset"),
      toSize(destinationOffset, "an offset"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      wait?.length ? waitList : null,
      eventOut,
    );
    return this.#event(status, "clEnqueueCopyBuffer");
  }

  /** Repeats a pattern over a buffer: 1, 2, 4 ... 128 bytes, which must divide offset and size. */
  fill(
    buffer: Buffer,
    pattern: ArrayBufferView,
    options: {
      readonly offset?: number;
      readonly nbytes?: number;
      readonly wait?: readonly Event[];
    } = {},
  ): Event {
    const { offset = 0, wait } = options;
    const { nbytes = buffer.nbytes - offset } = options;
    checkRange(offset, nbytes, buffer.nbytes, "a buffer");
    const status = cl.clEnqueueFillBuffer(
      this.unsafeHandle,
      buffer.unsafeHandle,
      transferable(pattern, "fill with"),
      toSize(pattern.byteLength, "a size"),
      toSize(offset, "an offset"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      wait?.length ? waitList : null,
      eventOut,
    );
    return this.#event(status, "clEnqueueFillBuffer");
  }

  /**
   * Launches a kernel.
   *
   * @throws {OpenCLError} If an argument or a size does not fit.
   */
  run(kernel: Kernel, options: LaunchOptions): Event {
    const { global, local, args, offset, wait } = options;
    if (args !== undefined) kernel.setArgs(args);
    checkDimensions(kernel, options);
    const status = cl.clEnqueueNDRangeKernel(
      this.unsafeHandle,
      kernel.unsafeHandle,
      global.length,
      offset ? writeSizes(offset, offsetOut) : null,
      writeSizes(global, globalOut),
      local ? writeSizes(local, localOut) : null,
      listEvents(wait),
      wait?.length ? waitList : null,
      eventOut,
    );
    if (status < 0) throw launchError(status, kernel, global, local);
    return new Event(eventOut[0] as Handle<"Event">, this);
  }

  /** Launches a kernel whose arguments are set, without an event and without making any object. */
  enqueueKernel(
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): void {
    const status = cl.clEnqueueNDRangeKernel(
      this.unsafeHandle,
      kernel.unsafeHandle,
      workDim,
      null,
      global,
      local,
      0,
      null,
      null,
    );
    if (status < 0) throw launchError(status, kernel, numbers(global), local && numbers(local));
  }

  /** The same with an event. */
  enqueueKernelEvent(
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): Event {
    const status = cl.clEnqueueNDRangeKernel(
      this.unsafeHandle,
      kernel.unsafeHandle,
      workDim,
      null,
      global,
      local,
      0,
      null,
      eventOut,
    );
    if (status < 0) throw launchError(status, kernel, numbers(global), local && numbers(local));
    return new Event(eventOut[0] as Handle<"Event">, this);
  }

  /** Maps a buffer, so that the host can touch its memory. */
  map(buffer: Buffer, options: MapOptions = {}): MappedRegion {
    const { offset = 0, blocking = true, wait } = options;
    const { nbytes = buffer.nbytes - offset } = options;
    checkRange(offset, nbytes, buffer.nbytes, "a buffer");
    const direct = blocking && !hasWaitPolicy();
    const address = cl.clEnqueueMapBuffer(
      this.unsafeHandle,
      buffer.unsafeHandle,
      direct ? 1 : 0,
      mapFlags(options),
      toSize(offset, "an offset"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      wait?.length ? waitList : null,
      eventOut,
      errorCode,
    );
    const event = this.#event(errorCode[0]!, "clEnqueueMapBuffer");
    if (blocking && !direct) event.waitSync();
    return new MappedRegion(address, nbytes, event, () => this.#unmap(buffer, address));
  }

  #unmap(buffer: Buffer, address: bigint): Event {
    const status = cl.clEnqueueUnmapMemObject(
      this.unsafeHandle,
      buffer.unsafeHandle,
      address,
      0,
      null,
      eventOut,
    );
    return this.#event(status, "clEnqueueUnmapMemObject");
  }

  /**
   * Moves buffers to this queue's device, or to the host. With `contentUndefined` it only makes sure that the memory
   * is there.
   */
  migrate(
    buffers: readonly Buffer[],
    options: {
      readonly toHost?: boolean;
      readonly contentUndefined?: boolean;
      readonly wait?: readonly Event[];
    } = {},
  ): Event {
    const { wait } = options;
    const flags = (options.toHost ? MigrationFlags.HOST : 0n) |
      (options.contentUndefined ? MigrationFlags.CONTENT_UNDEFINED : 0n);
    const status = cl.clEnqueueMigrateMemObjects(
      this.unsafeHandle,
      buffers.length,
      new BigUint64Array(buffers.map((buffer) => buffer.unsafeHandle)),
      flags,
      listEvents(wait),
      wait?.length ? waitList : null,
      eventOut,
    );
    return this.#event(status, "clEnqueueMigrateMemObjects");
  }

  /** An event that completes after `wait`, or after everything enqueued so far. */
  marker(wait?: readonly Event[]): Event {
    const count = listEvents(wait);
    const list = count ? waitList : null;
    const status = cl.clEnqueueMarkerWithWaitList(this.unsafeHandle, count, list, eventOut);
    return this.#event(status, "clEnqueueMarkerWithWaitList");
  }

  /** The same, and nothing enqueued later begins before it. */
  barrier(wait?: readonly Event[]): Event {
    const count = listEvents(wait);
    const list = count ? waitList : null;
    const status = cl.clEnqueueBarrierWithWaitList(this.unsafeHandle, count, list, eventOut);
    return this.#event(status, "clEnqueueBarrierWithWaitList");
  }

  /** Sends everything that was enqueued to the device. */
  flush(): void {
    check(cl.clFlush(this.unsafeHandle), "clFlush");
  }

  /** Waits for everything enqueued so far, without blocking the event loop. */
  finish(): Promise<void> {
    return underPolicy(this.#finishShared());
  }

  // A wait that has begun may not cover what was enqueued since, so a second caller gets the next one.
  #finishShared(): Promise<void> {
    if (this.#finishing === null) return this.#beginFinish();
    return this.#finishingNext ??= this.#finishing.then(
      () => this.#beginFinish(),
      () => this.#beginFinish(),
    );
  }

  #beginFinish(): Promise<void> {
    this.#finishingNext = null;
    return this.#finishing = this.#finishElsewhere().finally(() => this.#finishing = null);
  }

  async #finishElsewhere(): Promise<void> {
    const handle = this.unsafeHandle;
    check(cl.clRetainCommandQueue(handle), "clRetainCommandQueue"); // may be released meanwhile
    try {
      check(await cl.clFinishAsync(handle), "clFinish");
    } finally {
      settleTransfers();
      check(cl.clReleaseCommandQueue(handle), "clReleaseCommandQueue");
    }
  }

  /** Waits for everything enqueued so far and blocks the thread. */
  finishSync(): void {
    if (hasWaitPolicy()) {
      using marker = this.marker();
      this.flush();
      waitForEventSync(marker.unsafeHandle);
    }
    check(cl.clFinish(this.unsafeHandle), "clFinish");
    settleTransfers();
  }

  #event(status: number, call: string): Event {
    check(status, call);
    return new Event(eventOut[0] as Handle<"Event">, this);
  }

  #transfer(
    status: number,
    call: string,
    { memory, finish, blocking, direct }: {
      memory: Uint8Array;
      finish: (() => void) | null;
      blocking: boolean;
      direct: boolean;
    },
  ): Event {
    const event = this.#event(status, call);
    if (!direct) this.#transfers.add(event.unsafeHandle, memory, finish);
    if (blocking && !direct) event.waitSync();
    return event;
  }
}

function createQueue(
  context: Context,
  device: Device,
  { profiling, outOfOrder }: QueueOptions,
): Handle<"CommandQueue"> {
  const properties = (profiling ? QueueProperties.PROFILING_ENABLE : 0n) |
    (outOfOrder ? QueueProperties.OUT_OF_ORDER_EXEC_MODE_ENABLE : 0n);
  // The 1.x function: deprecated, but present in every library, and all that these properties need.
  const { unsafeHandle } = device;
  const handle = cl.clCreateCommandQueue(context.unsafeHandle, unsafeHandle, properties, errorCode);
  check(errorCode[0]!, "clCreateCommandQueue");
  return handle;
}

/** Puts the events into the shared list and returns their number. */
function listEvents(events: readonly Event[] | undefined): number {
  if (events === undefined) return 0;
  if (events.length > waitList.length) waitList = new BigUint64Array(2 * events.length);
  for (let i = 0; i < events.length; i++) waitList[i] = events[i]!.unsafeHandle;
  return events.length;
}

function writeSizes(sizes: readonly number[], out: BigUint64Array): BigUint64Array {
  for (let i = 0; i < sizes.length; i++) out[i] = toSize(sizes[i]!, "a work size");
  return out;
}

function checkDimensions(kernel: Kernel, { global, local, offset }: LaunchOptions): void {
  const dimensions = global.length;
  if (dimensions < 1 || dimensions > 3) {
    throw new RangeError(
      `Cannot launch ${kernel.name} over [${global}]: work sizes have 1 to 3 dimensions`,
    );
  }
  for (const other of [local, offset]) {
    if (other && other.length !== dimensions) {
      throw new RangeError(
        `Cannot launch ${kernel.name} over [${global}] with [${other}]: the dimensions differ`,
      );
    }
  }
}

function numbers(sizes: BigUint64Array): number[] {
  return Array.from(sizes, Number);
}

function launchError(
  status: number,
  kernel: Kernel,
  global: readonly number[],
  local: readonly number[] | null | undefined,
): OpenCLError {
  const sizes = `[${global}]${local ? ` in groups of [${local}]` : ""}`;
  return new OpenCLError(status, "clEnqueueNDRangeKernel", `${kernel.name} over ${sizes}`);
}

function mapFlags({ read = true, write = true, discard = false }: MapOptions): bigint {
  if (discard) return MapFlags.WRITE_INVALIDATE_REGION;
  return (read ? MapFlags.READ : 0n) | (write ? MapFlags.WRITE : 0n);
}

function deliver(bytes: Uint8Array, into: ArrayBufferView): void {
  transferable(into, "finish a read into").set(bytes);
}
