/**
 * Memory of a buffer, mapped into the address space of the host.
 *
 * @module
 */
import type { Buffer } from "./buffer.ts";
import type { CommandQueue } from "./command_queue.ts";
import { MapFlags } from "./constants.ts";
import { check } from "./errors.ts";
import { type Event, takeEvent } from "./event.ts";
import { eventList, eventOut, listEvents } from "./event_list.ts";
import { cl } from "./library.ts";
import { memoryView } from "./memory_view.ts";
import { OpenCLObject, releasers } from "./object.ts";
import type { MapOptions } from "./queue_options.ts";
import { checkRange, toSize } from "./size.ts";
import { hasWaitPolicy } from "./waiting.ts";

const errorCode = new Int32Array(1);

/**
 * A mapped region: `bytes` is the buffer's memory itself, where host and device share it, and else
 * a copy that is written back at `unmap()`. The memory stays valid until then, also when the buffer
 * is released.
 */
export class MappedRegion extends OpenCLObject<"Mem"> {
  /** Completes when the region may be touched; released by `unmap()`. */
  readonly event: Event;
  readonly #queue: CommandQueue;
  readonly #address: bigint;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #unmapped: Event | null = null;

  /** Queues make regions: see {@linkcode CommandQueue.map}. */
  constructor(queue: CommandQueue, buffer: Buffer, address: bigint, nbytes: number, event: Event) {
    check(cl.clRetainMemObject(buffer.unsafeHandle), "clRetainMemObject");
    super("MappedRegion", buffer.unsafeHandle, releasers.memory);
    this.#queue = queue;
    this.#address = address;
    this.event = event;
    this.#bytes = memoryView(address, nbytes, this);
  }

  /** The memory. Detached by `unmap()`, so that no stale view reaches what is freed. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  /** Gives the memory back to the device. A second call returns the event of the first. */
  unmap(): Event {
    if (this.#unmapped !== null) return this.#unmapped;
    this.#bytes.buffer.transfer(0);
    try {
      return this.#unmapped = enqueueUnmap(this.#queue, this.unsafeHandle, this.#address);
    } finally {
      this.event.release();
      super.release();
    }
  }

  /** The same as `unmap()`, for `using`. */
  override release(): void {
    if (!this.released) this.unmap().release();
  }
}

/** Maps a part of a buffer. */
export function mapRegion(queue: CommandQueue, buffer: Buffer, options: MapOptions): MappedRegion {
  const { offset = 0, blocking = true, wait } = options;
  const { nbytes = buffer.nbytes - offset } = options;
  checkRange(offset, nbytes, buffer.nbytes, "a buffer");
  const direct = blocking && !hasWaitPolicy();
  const address = cl.clEnqueueMapBuffer(
    queue.unsafeHandle,
    buffer.unsafeHandle,
    direct ? 1 : 0,
    mapFlags(options),
    toSize(offset, "an offset"),
    toSize(nbytes, "a size"),
    listEvents(wait),
    eventList(wait),
    eventOut,
    errorCode,
  );
  const event = takeEvent(errorCode[0]!, "clEnqueueMapBuffer", queue);
  try {
    if (blocking && !direct) event.waitSync();
    return new MappedRegion(queue, buffer, address, nbytes, event);
  } catch (error) {
    event.release();
    enqueueUnmap(queue, buffer.unsafeHandle, address).release();
    throw error;
  }
}

/** What a mapping is for. */
export function mapFlags({ read = true, write = true, discard = false }: MapOptions): bigint {
  if (discard) return MapFlags.WRITE_INVALIDATE_REGION;
  return (read ? MapFlags.READ : 0n) | (write ? MapFlags.WRITE : 0n);
}

/** Enqueues the end of a mapping. */
function enqueueUnmap(
  queue: CommandQueue,
  memory: Buffer["unsafeHandle"],
  address: bigint,
): Event {
  const { unsafeHandle } = queue;
  const status = cl.clEnqueueUnmapMemObject(unsafeHandle, memory, address, 0, null, eventOut);
  return takeEvent(status, "clEnqueueUnmapMemObject", queue);
}
