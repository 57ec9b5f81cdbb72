/**
 * Command queues: everything that a device is told to do.
 *
 * This folder (`queue/`) has the queues, recorded command buffers and launches. It may import every
 * other folder of `ffi/`, and none imports it. Commands come from `memory/` and the backends; what
 * is left of them is an event.
 *
 * @module
 */
import type { Buffer } from "../memory/buffer.ts";
import { MigrationFlags } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { addQueue } from "../events/context_work.ts";
import { Device } from "../objects/device.ts";
import { check } from "../library/errors.ts";
import { Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { HeldLaunches } from "./held_launches.ts";
import type { Kernel } from "../kernels/kernel.ts";
import { checkLaunch, launch, prepareLaunch, writeSizes } from "./launch.ts";
import { cl } from "../library/library.ts";
import { type MappedRegion, mapRegion } from "../memory/mapped_region.ts";
import { OpenCLObject, requireObject } from "../objects/object.ts";
import { checkOptions } from "../host/options.ts";
import * as rules from "./queue_options.ts";
import {
  filledPart,
  type FillOptions,
  fillRules,
  type MapOptions,
} from "../memory/access_options.ts";
import { createQueue, queueReleaser } from "./queue_handle.ts";
import { Registry } from "./registry.ts";
import { copyRect, readRect, writeRect } from "./rect_transfers.ts";
import { runAll } from "../host/run_all.ts";
import { SharedWait } from "../events/shared_wait.ts";
import { checkRange, toSize } from "../host/size.ts";
import type { OpenCLSymbols } from "../library/symbols.ts";
import type { Handle } from "../symbols/types.ts";
import {
  download,
  retireTransfers,
  transferable,
  TransferList,
  upload,
} from "../events/transfers.ts";
import { hasWaitPolicy, underPolicy, waitForEventSync } from "../events/waiting.ts";

/** The queues of this process; see `live_queues.ts`. */
export const queues: Registry<CommandQueue> = new Registry();

// Parameters of one call at a time: every call below is synchronous.
const globalOut = new BigUint64Array(3);
const localOut = new BigUint64Array(3);
const offsetOut = new BigUint64Array(3);

/**
 * A queue of commands for one device. Commands run in the order of the calls, unless it was made
 * with `outOfOrder`.
 *
 * @example
 * ```ts
 * import { Buffer, CommandQueue, Context, platforms } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices()[0]!);
 * using queue = new CommandQueue(context);
 * using buffer = new Buffer(context, 12);
 * queue.write(buffer, new Float32Array([1, 2, 3]));
 * const result = new Float32Array(3);
 * await queue.read(buffer, result).wait();
 * console.log(result);
 * ```
 */
export class CommandQueue extends OpenCLObject<"CommandQueue"> {
  /** The context that it belongs to. */
  readonly context: Context;
  /** The device that it feeds. */
  readonly device: Device;
  /** True when events carry time stamps. */
  readonly profiling: boolean;
  /** True when commands may overtake each other. */
  readonly outOfOrder: boolean;
  readonly #transfers: TransferList;
  readonly #finishing = new SharedWait(() => this.#finishElsewhere());
  readonly #held: HeldLaunches;
  /** The handle was used since the last finish. */
  #isUsed = false;

  /**
   * Makes a queue.
   *
   * @param context The context that it belongs to.
   * @param device One of the context's devices; the first one by default.
   */
  constructor(context: Context, device?: Device, options: rules.QueueOptions = {}) {
    checkOptions("make a CommandQueue", options, rules.queueRules);
    requireObject("make a CommandQueue", context, "Context");
    const target = device ?? context.devices[0]!;
    Device.require("make a CommandQueue", target);
    const handle = createQueue(context, target, options);
    super("CommandQueue", handle, queueReleaser);
    addQueue(handle, context.unsafeHandle);
    this.context = context;
    this.device = target;
    this.profiling = options.profiling ?? false;
    this.outOfOrder = options.outOfOrder ?? false;
    this.#transfers = new TransferList(!this.outOfOrder);
    this.#held = new HeldLaunches(this);
    queues.add(this);
  }

  /** The raw handle. Launches that were held back start first: a caller may wait for the queue. */
  override get unsafeHandle(): Handle<"CommandQueue"> {
    if (!this.#held.isEmpty) this.#held.start();
    this.#isUsed = true;
    return super.unsafeHandle;
  }

  /** False where the queue has done all that it was given by way of this object. */
  get mayBeBusy(): boolean {
    return this.#isUsed || !this.#held.isEmpty;
  }

  /** Gives the queue back to the driver, which runs what was enqueued. */
  override release(): void {
    runAll([() => this.#held.start(), () => this.#held.abandon(), () => super.release()]);
  }

  /**
   * Copies an array into a buffer. The array may be changed as soon as this returns, unless
   * `noCopy` hands it to the driver.
   *
   * @throws {TypeError} If the array's memory may move or is gone.
   */
  write(buffer: Buffer, data: ArrayBufferView, options: rules.TransferOptions = {}): Event {
    checkOptions("write to a buffer", options, rules.transferRules);
    return upload(this, data, options, (bytes, blocking) => {
      const args = this.#transferArgs(buffer, bytes, blocking, options);
      return takeEvent(cl.clEnqueueWriteBuffer(...args), "clEnqueueWriteBuffer", this);
    });
  }

  /**
   * Copies a buffer into an array, as many bytes as the array has. The array changes when
   * the event, or the queue, was waited for; with `noCopy` as soon as the driver copies.
   *
   * @throws {TypeError} If the array's memory may move or is gone.
   */
  read(buffer: Buffer, into: ArrayBufferView, options: rules.TransferOptions = {}): Event {
    checkOptions("read a buffer", options, rules.transferRules);
    return download(this, into, options, (bytes, blocking) => {
      const args = this.#transferArgs(buffer, bytes, blocking, options);
      return takeEvent(cl.clEnqueueReadBuffer(...args), "clEnqueueReadBuffer", this);
    });
  }

  /** Arguments of reading and writing, as C takes them. */
  #transferArgs(
    buffer: Buffer,
    bytes: Uint8Array,
    blocking: number,
    { offset = 0, wait }: rules.TransferOptions,
  ): Parameters<OpenCLSymbols["clEnqueueReadBuffer"]> {
    requireObject("copy between host and buffer", buffer, "Buffer");
    checkRange(offset, bytes.byteLength, buffer.nbytes, "a buffer");
    return [
      this.unsafeHandle,
      buffer.unsafeHandle,
      blocking,
      toSize(offset, "an offset"),
      toSize(bytes.byteLength, "a size"),
      bytes,
      listEvents(wait),
      eventList(wait),
      eventOut,
    ];
  }

  /** Copies bytes from buffer to buffer. */
  copy(
    source: Buffer,
    destination: Buffer,
    options: rules.BufferCopyOptions = {},
  ): Event {
    checkOptions("copy a buffer", options, rules.bufferCopyRules);
    requireObject("copy from a buffer", source, "Buffer");
    requireObject("copy to a buffer", destination, "Buffer");
    const { wait } = options;
    const { from, to, nbytes } = rules.copiedParts(options, source.nbytes, destination.nbytes);
    const status = cl.clEnqueueCopyBuffer(
      this.unsafeHandle,
      source.unsafeHandle,
      destination.unsafeHandle,
      toSize(from, "an offset"),
      toSize(to, "an offset"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueCopyBuffer", this);
  }

  /** Copies a box of an array into a box of a buffer. */
  writeRect(buffer: Buffer, data: ArrayBufferView, options: rules.RectOptions): Event {
    return writeRect(this, buffer, data, options);
  }

  /** Copies a box of a buffer into a box of an array; the rest of the array stays as it is. */
  readRect(buffer: Buffer, into: ArrayBufferView, options: rules.RectOptions): Event {
    return readRect(this, buffer, into, options);
  }

  /** Copies a box of a buffer into a box of another. */
  copyRect(source: Buffer, destination: Buffer, options: rules.RectCopyOptions): Event {
    return copyRect(this, source, destination, options);
  }

  /** Repeats a pattern over a buffer: 1, 2, 4 ... 128 bytes, which must divide offset and size. */
  fill(
    buffer: Buffer,
    pattern: ArrayBufferView,
    options: FillOptions = {},
  ): Event {
    checkOptions("fill a buffer", options, fillRules);
    requireObject("fill a buffer", buffer, "Buffer");
    const { wait } = options;
    const { offset, nbytes } = filledPart(options, pattern, buffer.nbytes, "a buffer");
    const status = cl.clEnqueueFillBuffer(
      this.unsafeHandle,
      buffer.unsafeHandle,
      transferable(pattern, "fill with"),
      toSize(pattern.byteLength, "a size"),
      toSize(offset, "an offset"),
      toSize(nbytes, "a size"),
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueFillBuffer", this);
  }

  /**
   * Launches a kernel.
   *
   * @throws {OpenCLError} If an argument or a size does not fit.
   */
  run(kernel: Kernel, options: rules.LaunchOptions): Event {
    checkOptions("launch a kernel", options, rules.launchRules);
    requireObject("launch a kernel", kernel, "Kernel");
    prepareLaunch(kernel, options);
    const { global, local, offset, wait } = options;
    launch(
      this.unsafeHandle,
      kernel,
      global.length,
      offset ? writeSizes(offset, offsetOut) : null,
      writeSizes(global, globalOut),
      local ? writeSizes(local, localOut) : null,
      wait,
      eventOut,
    );
    return new Event(eventOut[0] as Handle<"Event">, this);
  }

  /**
   * Launches a kernel whose arguments are set, without an event and without making any object.
   *
   * @param workDim Dimensions, 1 to 3.
   * @param global Work-items in each dimension.
   * @param local Work-items of a work-group in each dimension; `null` lets the driver choose.
   * @throws {RangeError} If there are fewer sizes than dimensions.
   * @throws {DisposedError} If the memory that an argument refers to was released.
   */
  enqueueKernel(
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): void {
    checkLaunch(kernel, workDim, global, local);
    launch(this.unsafeHandle, kernel, workDim, null, global, local, undefined, null);
  }

  /**
   * Launches one of many tiny kernels: the device need not begin before there are a few, or the
   * queue is used in another way. A driver whose threads sleep wakes them once for all (on PoCL 3.1
   * waking costs 4-9 us, enqueuing 1.3 us). In-order queues only.
   */
  enqueueKernelHeld(
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): void {
    checkLaunch(kernel, workDim, global, local);
    this.#held.add(super.unsafeHandle, kernel, workDim, global, local);
  }

  /** A launch as of {@linkcode CommandQueue.enqueueKernel}, with its event. */
  enqueueKernelEvent(
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): Event {
    checkLaunch(kernel, workDim, global, local);
    launch(this.unsafeHandle, kernel, workDim, null, global, local, undefined, eventOut);
    return new Event(eventOut[0] as Handle<"Event">, this);
  }

  /** Maps a buffer, so that the host can touch its memory. */
  map(buffer: Buffer, options: MapOptions = {}): MappedRegion {
    return mapRegion(this, buffer, options);
  }

  /**
   * Moves buffers to this queue's device, or to the host. With `contentUndefined` it only makes
   * sure that the memory is there.
   */
  migrate(
    buffers: readonly Buffer[],
    options: rules.MigrateOptions = {},
  ): Event {
    checkOptions("migrate buffers", options, rules.migrateRules);
    for (const buffer of buffers) requireObject("migrate buffers", buffer, "Buffer");
    const { wait } = options;
    const flags = (options.toHost ? MigrationFlags.HOST : 0n) |
      (options.contentUndefined ? MigrationFlags.CONTENT_UNDEFINED : 0n);
    const status = cl.clEnqueueMigrateMemObjects(
      this.unsafeHandle,
      buffers.length,
      new BigUint64Array(buffers.map((buffer) => buffer.unsafeHandle)),
      flags,
      listEvents(wait),
      eventList(wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueMigrateMemObjects", this);
  }

  /** An event that completes after `wait`, or after everything enqueued so far. */
  marker(wait?: readonly Event[]): Event {
    const count = listEvents(wait), list = eventList(wait);
    const status = cl.clEnqueueMarkerWithWaitList(this.unsafeHandle, count, list, eventOut);
    return takeEvent(status, "clEnqueueMarkerWithWaitList", this);
  }

  /** A {@linkcode CommandQueue.marker} before which nothing begins that is enqueued later. */
  barrier(wait?: readonly Event[]): Event {
    const count = listEvents(wait), list = eventList(wait);
    const status = cl.clEnqueueBarrierWithWaitList(this.unsafeHandle, count, list, eventOut);
    return takeEvent(status, "clEnqueueBarrierWithWaitList", this);
  }

  /** Sends everything that was enqueued to the device. */
  flush(): void {
    check(cl.clFlush(this.unsafeHandle), "clFlush");
  }

  /** Waits for everything enqueued so far, without blocking the event loop. */
  finish(): Promise<void> {
    return underPolicy(this.#finishing.join());
  }

  async #finishElsewhere(): Promise<void> {
    const handle = this.unsafeHandle;
    check(cl.clRetainCommandQueue(handle), "clRetainCommandQueue"); // may be released meanwhile
    try {
      check(await cl.clFinishAsync(handle), "clFinish");
    } finally {
      retireTransfers();
      check(cl.clReleaseCommandQueue(handle), "clReleaseCommandQueue");
    }
    this.#transfers.throwFailure();
  }

  /** Waits for everything enqueued so far and blocks the thread. */
  finishSync(): void {
    if (hasWaitPolicy()) {
      using marker = this.marker();
      this.flush();
      waitForEventSync(marker.unsafeHandle);
    }
    check(cl.clFinish(this.unsafeHandle), "clFinish");
    this.#isUsed = false;
    retireTransfers();
    this.#transfers.throwFailure();
  }

  /**
   * Keeps memory of JavaScript alive until an event is complete: for transfers that are enqueued by
   * calls that the caller makes itself.
   *
   * @param finish Runs in the first wait after the event is complete, unless it failed.
   */
  hold(event: Event, memory: ArrayBufferView, finish: (() => void) | null = null): void {
    this.#transfers.add(event, memory, finish);
  }
}
