/**
 * Bytes between the host and one device, and how far the host may run ahead of it.
 *
 * This folder (`transfers/`) copies bytes for `runtime/`, through pinned memory and beside the kernels.
 * It imports `execution/`, `lifecycle/`, `profiling/`, memory and ffi. Arrays come from the backend;
 * commands go to the queues, events to who waits.
 *
 * Copies to the device go through blocks of the pinned pool, which a device with memory of its own
 * reads by itself at five times the rate of pageable memory. Where host and device share their
 * memory, an idle queue is written to directly: that is one copy, and pinning gains nothing there
 * (0.95-1.07x on PoCL 3.1).
 *
 * Content for a new block ({@linkcode Transfers.upload}) is copied on a queue of its own,
 * beside the kernels. The block comes from the pool for that queue, so it is one that no kernel
 * uses; kernels that use it later wait for its copy alone (`DeviceMemory.uploads`).
 */
import { type Buffer, CommandQueue, type Event } from "../../../ffi/mod.ts";
import { readEnvironment } from "../../../ffi/host/environment.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import {
  type BufferHandle,
  type DeviceMemory,
  getPinnedPool,
  type PinnedBufferPool,
  recordQueue,
} from "../../../memory/mod.ts";
import { activeTrace } from "../../profiling/trace.ts";
import type { UploadOptions } from "../../execution/backend.ts";
import { advanceAtTimes } from "../../lifecycle/background.ts";
import { throwIfInterrupted } from "../../lifecycle/interruption.ts";
import { obeySignals } from "../../lifecycle/waits.ts";
import { readSwitch } from "../../../ffi/host/switches.ts";
import { traceCommand, tracedWait } from "./traced_command.ts";
import { BesideCopies } from "./beside_copies.ts";
import type { GateKind } from "./gates.ts";
import { fixed, Staging, type StagingOptions } from "./staging.ts";

/** Options of transfers; what is left out comes from the environment and the device. */
export interface TransferOptions {
  /** True when a write returns before its copy is made. Default: NETCL_ASYNC_H2D, else true. */
  readonly async?: boolean;
  /** True when copies use pinned memory. Default: NETCL_PINNED_H2D, else on discrete GPUs. */
  readonly pinned?: boolean;
  /** The most bytes on their way through staging blocks. Default: 16 MiB. */
  readonly stagingBytes?: number;
  /** Pool of staging blocks. Default: the context's pinned pool. */
  readonly pinnedPool?: PinnedBufferPool;
  /** The most launches ahead of the device. Default: 512. */
  readonly maxLaunchesAhead?: number;
  /** Form of gates; null: none. Default: events. */
  readonly gates?: GateKind | null;
}

/** Bytes to copy to the host: from where in a buffer, and to where, of fixed size. */
export interface Copy {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly into: Uint8Array;
}

/** Smaller writes a driver puts into its command stream at once (4 KiB on an H200: 34 us, not 56). */
const MIN_PINNED_BYTES = 64 * 1024;
/** Below this a second queue costs more (two commands, 5 us on an H100) than it hides. */
const MIN_OVERLAPPED_BYTES = 256 * 1024;
/** Marks divide the launches ahead; NVIDIA's driver blocks the thread at about 1,020 launches. */
const MARKS = 8;
/** A tiny launch puts the host that much less ahead than another one. */
const TINY_SHARE = 1 / 8;

/** The transfers of one compute queue. */
export class Transfers {
  readonly #queue: CommandQueue;
  readonly #async: boolean;
  readonly #overlaps: boolean;
  readonly #isUnified: boolean;
  /** Copies beside the kernels, from and to memory that stays as it is. */
  readonly beside: BesideCopies;
  readonly #staging: Staging;
  readonly #chunks: StagingOptions;
  readonly #launchesPerMark: number;
  #transferQueue: CommandQueue | null = null;
  #launches = 0;
  #marks: Event[] = [];
  /** Counts what was enqueued; with `#completed` it tells an idle queue from a busy one. */
  #enqueued = 0;
  #completed = 0;

  /**
   * @param queue The in-order compute queue.
   * @param options How transfers are made.
   * @throws {RangeError} When NETCL_ASYNC_H2D or NETCL_PINNED_H2D is neither 0 nor 1.
   */
  constructor(queue: CommandQueue, options: TransferOptions = {}) {
    const { stagingBytes = 16 * 1024 * 1024, maxLaunchesAhead = 512, pinnedPool } = options;
    const chosen = options.pinned ?? readSwitch("NETCL_PINNED_H2D");
    this.#queue = queue;
    this.#async = options.async ?? readSwitch("NETCL_ASYNC_H2D") ?? true;
    this.#isUnified = queue.device.hostUnifiedMemory && !chosen;
    // The guards of NETCL_DEBUG are written on the compute queue, over what was copied beside it.
    this.#overlaps = this.#async && readEnvironment("NETCL_DEBUG") !== "1";
    this.beside = new BesideCopies(queue, {
      isUnified: this.#isUnified,
      overlaps: this.#overlaps,
      gates: options.gates === undefined ? "events" : options.gates,
    });
    this.#staging = new Staging(() => pinnedPool ?? getPinnedPool(queue));
    this.#chunks = { pinned: chosen !== false, maxBytes: stagingBytes };
    this.#launchesPerMark = Math.max(1, Math.ceil(maxLaunchesAhead / MARKS));
  }

  /**
   * Copies bytes to a buffer, in the order of the compute queue. `data` may be changed, transferred
   * or forgotten as soon as this returns.
   *
   * @param buffer Where to.
   * @param offset Where in it, in bytes.
   * @param data The bytes.
   * @throws {OpenCLError} When the device refuses or an earlier copy failed.
   * @throws {InterruptedError} After Ctrl+C, where it has to wait.
   */
  write(buffer: Buffer, offset: number, data: Uint8Array): void {
    const nbytes = data.byteLength;
    if (nbytes === 0) return;
    const bytes = fixed(data);
    const isIdle = this.#enqueued++ === this.#completed;
    if (!this.#async || (this.#isUnified && isIdle)) {
      this.#queue.write(buffer, bytes, { offset, blocking: true }).release();
      this.#retireCompleted(this.#enqueued);
    } else if (!this.#isUnified && nbytes < MIN_PINNED_BYTES) {
      this.#queue.write(buffer, bytes, { offset }).release();
    } else {
      this.#writeStaged(this.#queue, buffer, offset, bytes);
    }
  }

  /**
   * Makes a block with the given content. Kernels that were enqueued before and that are enqueued
   * later run beside the copy, except for those that use the block.
   *
   * @param memory The device's memory.
   * @param data The content, which may be changed as soon as this returns.
   * @returns The block, the caller's to release.
   * @throws {OutOfMemoryError} When there is no memory for it.
   * @throws {OpenCLError} When the device refuses or an earlier copy failed.
   * @throws {InterruptedError} After Ctrl+C, where it has to wait.
   */
  upload(memory: DeviceMemory, data: Uint8Array, options: UploadOptions = {}): BufferHandle {
    const { pinMemory = false, persistent = false } = options;
    const queue = this.#queueFor(data.byteLength, pinMemory);
    const block = memory.allocate(data.byteLength, { queue, persistent });
    if (data.byteLength === 0) return block;
    try {
      if (queue === this.#queue && !pinMemory) this.write(block.base, block.offset, data);
      else this.#copy(queue, memory, block, fixed(data), pinMemory);
      return block;
    } catch (error) {
      block.release();
      throw error;
    }
  }

  /** The queue to fill a new block on: the transfer queue where that hides the copy. */
  #queueFor(nbytes: number, pinMemory: boolean): CommandQueue {
    const isDirect = this.#isUnified && !pinMemory && this.#enqueued === this.#completed;
    const overlaps = this.#overlaps && !isDirect && nbytes >= MIN_OVERLAPPED_BYTES;
    return overlaps ? this.#transfer() : this.#queue;
  }

  #copy(
    queue: CommandQueue,
    memory: DeviceMemory,
    block: BufferHandle,
    bytes: Uint8Array,
    pinMemory: boolean,
  ): void {
    const { base, offset } = block;
    const last = pinMemory
      ? this.#writePinned(queue, base, offset, bytes)
      : this.#writeStaged(queue, base, offset, bytes);
    this.#enqueued++;
    if (!this.#async) {
      last.waitSync();
      this.#retireCompleted(this.#enqueued);
    } else if (queue !== this.#queue) {
      recordQueue(block, this.#queue);
      memory.uploads.add(block, last.share());
    }
  }

  /** From one pinned block, which holds all of it. */
  #writePinned(queue: CommandQueue, buffer: Buffer, offset: number, data: Uint8Array): Event {
    const copy = (bytes: Uint8Array) => this.#enqueue(queue, buffer, offset, bytes);
    return this.#staging.pass(data, { pinned: true, maxBytes: Infinity }, copy);
  }

  /** By chunks, so that the device copies one while the host fills the next. */
  #writeStaged(queue: CommandQueue, buffer: Buffer, offset: number, data: Uint8Array): Event {
    const { maxBytes } = this.#chunks, chunkBytes = Math.ceil(maxBytes / 4);
    // A device that shares memory copies a few bytes from an array as fast; a block's view takes 10 us.
    const isLittle = this.#isUnified && data.byteLength < MIN_PINNED_BYTES;
    const options = { maxBytes, pinned: this.#chunks.pinned && !isLittle };
    let last!: Event;
    for (let begin = 0; begin < data.byteLength; begin += chunkBytes) {
      const chunk = data.subarray(begin, begin + chunkBytes);
      const copy = (bytes: Uint8Array) => this.#enqueue(queue, buffer, offset + begin, bytes);
      last = this.#staging.pass(chunk, options, copy);
    }
    return last;
  }

  /** From memory that stays as it is until the event is complete. */
  #enqueue(queue: CommandQueue, buffer: Buffer, offset: number, bytes: Uint8Array): Event {
    const enqueuedAt = performance.now();
    const event = queue.write(buffer, bytes, { offset, noCopy: true });
    queue.flush();
    const trace = activeTrace();
    if (trace) {
      const work = { name: "upload", isCopy: true, bytes: bytes.byteLength, enqueuedAt };
      traceCommand(trace, event.share(), queue, work);
    }
    return event;
  }

  /**
   * Copies bytes from buffers once everything enqueued before is done.
   *
   * @param copies What to copy; the device writes to host memory until the promise settles.
   * @throws {OpenCLError} When a copy or a command before it failed.
   * @throws {InterruptedError} When Ctrl+C comes meanwhile.
   */
  async read(copies: readonly Copy[]): Promise<void> {
    const events = this.#copyAll(copies), enqueued = this.#enqueued;
    if (events.length === 0) return;
    using _wait = tracedWait();
    try {
      // The last one ends last: one wait for all of them.
      for (const event of events.toReversed()) await event.wait();
    } finally {
      for (const event of events) event.release();
    }
    this.#retireCompleted(enqueued);
  }

  /**
   * The same, blocking the event loop.
   *
   * @throws {OpenCLError} When a copy or a command before it failed.
   * @throws {InterruptedError} When Ctrl+C comes meanwhile; on Linux.
   */
  readSync(copies: readonly Copy[]): void {
    const events = this.#copyAll(copies);
    if (events.length === 0) return;
    using _wait = tracedWait();
    try {
      for (const event of events.toReversed()) event.waitSync();
    } finally {
      for (const event of events) event.release();
    }
    this.#retireCompleted(this.#enqueued);
  }

  #copyAll(copies: readonly Copy[]): Event[] {
    const some = copies.filter(({ into }) => into.byteLength > 0);
    if (some.length > 0) this.#enqueued++;
    return some.map(({ buffer, offset, into }) =>
      this.#queue.read(buffer, into, { offset, noCopy: true })
    );
  }

  /**
   * To be called after each launch: holds the host back when it is too far ahead of the device,
   * and lets a loop that only launches notice Ctrl+C.
   *
   * @param isTiny The launch takes the device no longer than the host.
   * @throws {InterruptedError} After Ctrl+C.
   */
  afterLaunch(isTiny = false): void {
    this.#enqueued++;
    advanceAtTimes();
    this.#launches += isTiny ? TINY_SHARE : 1;
    if (this.#launches >= this.#launchesPerMark) this.#mark();
  }

  #mark(): void {
    this.#launches = 0;
    throwIfInterrupted();
    obeySignals();
    this.#marks.push(this.#queue.marker());
    this.#queue.flush();
    // More than one too many are there after a flush that failed.
    while (this.#marks.length > MARKS) {
      using oldest = this.#marks.shift()!;
      oldest.waitSync();
    }
  }

  /** Waits for everything enqueued so far without blocking the event loop. */
  async finish(): Promise<void> {
    const enqueued = this.#enqueued;
    using _wait = tracedWait();
    await Promise.all(this.#queues.map((queue) => queue.finish()));
    this.#retireCompleted(enqueued);
  }

  /**
   * Waits for everything that the compute queue was given; cheap where it has done that.
   *
   * @throws {InterruptedError} After Ctrl+C.
   */
  finishComputeSync(): void {
    throwIfInterrupted();
    obeySignals();
    advanceAtTimes();
    if (!this.#queue.mayBeBusy) return;
    using _wait = tracedWait();
    const enqueued = this.#enqueued;
    this.#queue.finishSync();
    this.#retireCompleted(enqueued);
  }

  /** Waits for everything enqueued so far. */
  finishSync(): void {
    using _wait = tracedWait();
    for (const queue of this.#queues) queue.finishSync();
    this.#retireCompleted(this.#enqueued);
  }

  get #queues(): CommandQueue[] {
    const transfer = this.#transferQueue;
    return [this.#queue, ...transfer ? [transfer] : [], ...this.beside.queues];
  }

  /** Waits for the uploads that were begun so far, and for no kernel. */
  awaitUploads(): void {
    this.#transferQueue?.finishSync();
  }

  /** Waits for the copies under way and gives memory and queue back. */
  dispose(): void {
    runAll([
      () => this.#staging.release(),
      ...this.#marks.map((mark) => () => mark.release()),
      () => this.#transferQueue?.finishSync(),
      () => this.#transferQueue?.release(),
      () => this.beside.dispose(),
    ]);
    this.#marks = [];
    this.#transferQueue = null;
  }

  /** Everything up to this count is complete: staging blocks are free again. */
  #retireCompleted(enqueued: number): void {
    this.#completed = Math.max(this.#completed, enqueued);
    this.#staging.retire();
  }

  #transfer(): CommandQueue {
    const { context, device, profiling } = this.#queue;
    return this.#transferQueue ??= new CommandQueue(context, device, { profiling });
  }
}
