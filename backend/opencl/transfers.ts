/**
 * Bytes between the host and one device, and how far the host may run ahead of it.
 *
 * On a device with memory of its own, copies to it go through pinned memory, which the device
 * reads by itself at five times the rate of pageable memory, beside the kernels. Where host and
 * device share their memory, pinning was measured to gain nothing (0.95-1.07x on PoCL 3.1): an
 * idle queue is written to directly, a busy one through plain memory, so that the host goes on.
 */
import { type Buffer, CommandQueue, type Event } from "../../ffi/mod.ts";
import { runAll } from "../../ffi/run_all.ts";
import { throwIfInterrupted } from "../lifecycle/interruption.ts";
import { obeySignals } from "../lifecycle/waits.ts";
import { readSwitch } from "../switches.ts";
import { StagingRing } from "./staging_ring.ts";

/** How transfers are made; what is left out comes from the environment and the device. */
export interface TransferOptions {
  /** Whether a write returns before its copy is made. Default: NETCL_ASYNC_H2D, else true. */
  readonly async?: boolean;
  /** Whether copies pass through pinned memory. Default: NETCL_PINNED_H2D, else on discrete GPUs. */
  readonly pinned?: boolean;
  /** Bytes of host memory that copies pass through. Default: 16 MiB. */
  readonly stagingBytes?: number;
  /** The most launches ahead of the device. Default: 512. */
  readonly maxLaunchesAhead?: number;
}

/** How one write is made. */
export interface WriteOptions {
  /**
   * Promises that nothing enqueued so far touches these bytes, so that they may be copied beside
   * the kernels that run. Default: false.
   */
  readonly unused?: boolean;
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
export class TransferEngine {
  readonly #queue: CommandQueue;
  readonly #async: boolean;
  readonly #isPinned: boolean;
  readonly #overlaps: boolean;
  readonly #isUnified: boolean;
  readonly #ring: StagingRing;
  readonly #chunkBytes: number;
  readonly #launchesPerMark: number;
  #transferQueue: CommandQueue | null = null;
  #launches = 0;
  #marks: Event[] = [];
  /** Counts what was enqueued; with `#settled` it tells an idle queue from a busy one. */
  #enqueued = 0;
  #settled = 0;

  /**
   * @param queue The in-order compute queue.
   * @param options How transfers are made.
   * @throws {RangeError} When NETCL_ASYNC_H2D or NETCL_PINNED_H2D is neither 0 nor 1.
   */
  constructor(queue: CommandQueue, options: TransferOptions = {}) {
    const { stagingBytes = 16 * 1024 * 1024, maxLaunchesAhead = 512 } = options;
    const pinned = options.pinned ?? readSwitch("NETCL_PINNED_H2D") ??
      !queue.device.hostUnifiedMemory;
    this.#queue = queue;
    this.#async = options.async ?? readSwitch("NETCL_ASYNC_H2D") ?? true;
    this.#isUnified = queue.device.hostUnifiedMemory && !pinned;
    this.#isPinned = pinned;
    this.#overlaps = this.#async && pinned;
    this.#ring = new StagingRing(stagingBytes, pinned ? () => this.#transfer() : null);
    this.#chunkBytes = Math.ceil(stagingBytes / 4);
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
  write(buffer: Buffer, offset: number, data: Uint8Array, options: WriteOptions = {}): void {
    const nbytes = data.byteLength;
    if (nbytes === 0) return;
    const bytes = isFixed(data) ? data : data.slice(); // memory that may move is not the driver's
    const isIdle = this.#enqueued++ === this.#settled;
    if (!this.#async || (this.#isUnified && isIdle)) {
      this.#queue.write(buffer, bytes, { offset, blocking: true }).release();
      this.#settle(this.#enqueued);
    } else if (this.#isPinned && nbytes < MIN_PINNED_BYTES) {
      this.#queue.write(buffer, bytes, { offset }).release();
    } else if (this.#overlaps && options.unused && nbytes >= MIN_OVERLAPPED_BYTES) {
      const last = this.#writeStaged(this.#transfer(), buffer, offset, bytes);
      this.#queue.barrier([last]).release();
    } else {
      this.#writeStaged(this.#queue, buffer, offset, bytes);
    }
  }

  /** By chunks, so that the device copies one while the host fills the next. */
  #writeStaged(
    queue: CommandQueue,
    buffer: Buffer,
    offset: number,
    data: Uint8Array,
  ): Event {
    let last!: Event;
    for (let begin = 0; begin < data.byteLength; begin += this.#chunkBytes) {
      const chunk = data.subarray(begin, begin + this.#chunkBytes);
      last = this.#ring.pass(
        chunk,
        (staged) => queue.write(buffer, staged, { offset: offset + begin, borrow: true }),
      );
      queue.flush();
    }
    return last;
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
    try {
      // The last one ends last: one wait for all of them.
      for (const event of events.toReversed()) await event.wait();
    } finally {
      for (const event of events) event.release();
    }
    this.#settle(enqueued);
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
    try {
      for (const event of events.toReversed()) event.waitSync();
    } finally {
      for (const event of events) event.release();
    }
    this.#settle(this.#enqueued);
  }

  #copyAll(copies: readonly Copy[]): Event[] {
    const some = copies.filter(({ into }) => into.byteLength > 0);
    if (some.length > 0) this.#enqueued++;
    return some.map(({ buffer, offset, into }) =>
      this.#queue.read(buffer, into, { offset, borrow: true })
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
    this.#launches += isTiny ? TINY_SHARE : 1;
    if (this.#launches >= this.#launchesPerMark) this.#mark();
  }

  #mark(): void {
    this.#launches = 0;
    throwIfInterrupted();
    obeySignals();
    this.#marks.push(this.#queue.marker());
    this.#queue.flush();
    if (this.#marks.length <= MARKS) return;
    const [oldest] = this.#marks.splice(0, 1);
    using mark = oldest!;
    mark.waitSync();
  }

  /** Waits for everything enqueued so far without blocking the event loop. */
  async finish(): Promise<void> {
    const enqueued = this.#enqueued;
    await this.#queue.finish(); // waits for the transfer queue as well: by its barriers
    this.#settle(enqueued);
  }

  /** Waits for everything enqueued so far. */
  finishSync(): void {
    this.#queue.finishSync();
    this.#settle(this.#enqueued);
  }

  /** Waits for the copies under way and gives memory and queue back. */
  dispose(): void {
    runAll([
      () => this.#ring.release(),
      ...this.#marks.map((mark) => () => mark.release()),
      () => this.#transferQueue?.finishSync(),
      () => this.#transferQueue?.release(),
    ]);
    this.#marks = [];
    this.#transferQueue = null;
  }

  #settle(enqueued: number): void {
    this.#settled = Math.max(this.#settled, enqueued);
  }

  #transfer(): CommandQueue {
    return this.#transferQueue ??= new CommandQueue(this.#queue.context, this.#queue.device);
  }
}

/** Memory that cannot move under the driver. */
function isFixed({ buffer }: Uint8Array): boolean {
  return buffer instanceof ArrayBuffer ? !buffer.resizable : !buffer.growable;
}
