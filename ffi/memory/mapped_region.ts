/**
 * Memory of a buffer, mapped into the address space of the host.
 *
 * @module
 */
import type { Buffer } from "./buffer.ts";
import type { EnqueueTarget } from "../events/enqueue_target.ts";
import { MapFlags } from "../library/constants.ts";
import { check } from "../library/errors.ts";
import { Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { cl } from "../library/library.ts";
import { detach, memoryView } from "../library/memory_view.ts";
import { OpenCLObject, type Releaser, requireObject } from "../objects/object.ts";
import { type MapOptions, mapRules, partOf } from "./access_options.ts";
import { runAll } from "../host/run_all.ts";
import { toSize } from "../host/size.ts";
import type { Handle } from "../symbols/types.ts";
import { hasWaitPolicy } from "../events/waiting.ts";
import { checkOptions } from "../host/options.ts";

const errorCode = new Int32Array(1);

/**
 * A mapped region: `bytes` is the buffer's memory itself, where host and device share it, and else
 * a copy that is written back at `unmap()`. The memory stays valid until then, also when the buffer
 * or the queue is released.
 */
export class MappedRegion extends OpenCLObject<"Mem"> {
  /** Completes when the region may be touched; released by `unmap()`. */
  readonly event: Event;
  readonly #queue: EnqueueTarget;
  readonly #mapping: Mapping;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #unmapped: Event | null = null;

  /** Queues make regions: see `CommandQueue.map`. */
  constructor(queue: EnqueueTarget, buffer: Buffer, address: bigint, nbytes: number, event: Event) {
    const mapping = new Mapping(queue.unsafeHandle, buffer.unsafeHandle, address);
    super("MappedRegion", buffer.unsafeHandle, mapping);
    this.#queue = queue;
    this.#mapping = mapping;
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
    void this.unsafeHandle;
    // What a queue holds back must begin before the end of the mapping.
    if (!this.#queue.released) void this.#queue.unsafeHandle;
    detach(this.#bytes);
    runAll([() => this.event.release(), () => super.release()]);
    return this.#unmapped = new Event(this.#mapping.unmapped!, this.#queue);
  }

  /** Unmaps the region, for `using`. */
  override release(): void {
    if (!this.released) this.unmap().release();
  }
}

/**
 * The driver's side of a region. It refers to the queue and the buffer by references of its
 * own, so that the mapping can be ended whatever was released before, also by the collector.
 */
class Mapping implements Releaser {
  readonly call = "clEnqueueUnmapMemObject";
  /** The event of the unmapping; its reader owns it. */
  unmapped: Handle<"Event"> | null = null;
  readonly #queue: Handle<"CommandQueue">;
  readonly #address: bigint;

  constructor(queue: Handle<"CommandQueue">, memory: Handle<"Mem">, address: bigint) {
    check(cl.clRetainMemObject(memory), "clRetainMemObject");
    const status = cl.clRetainCommandQueue(queue);
    if (status < 0) {
      cl.clReleaseMemObject(memory);
      check(status, "clRetainCommandQueue");
    }
    this.#queue = queue;
    this.#address = address;
  }

  run(handle: bigint): number {
    const memory = handle as Handle<"Mem">, queue = this.#queue;
    runAll([
      () => {
        this.unmapped = enqueueUnmap(queue, memory, this.#address);
        check(cl.clFlush(queue), "clFlush");
      },
      () => check(cl.clReleaseMemObject(memory), "clReleaseMemObject"),
      () => check(cl.clReleaseCommandQueue(queue), "clReleaseCommandQueue"),
    ]);
    return 0;
  }
}

/** Maps a part of a buffer. */
export function mapRegion(queue: EnqueueTarget, buffer: Buffer, options: MapOptions): MappedRegion {
  checkOptions("map a buffer", options, mapRules);
  requireObject("map a buffer", buffer, "Buffer");
  const { blocking = true, wait } = options;
  const { offset, nbytes } = partOf(options, buffer.nbytes, "a buffer");
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
    new Event(enqueueUnmap(queue.unsafeHandle, buffer.unsafeHandle, address), queue).release();
    throw error;
  }
}

/** The use of a mapping. */
export function mapFlags({ read = true, write = true, discard = false }: MapOptions): bigint {
  if (discard) return MapFlags.WRITE_INVALIDATE_REGION;
  return (read ? MapFlags.READ : 0n) | (write ? MapFlags.WRITE : 0n);
}

/** Enqueues the end of a mapping. */
function enqueueUnmap(
  queue: Handle<"CommandQueue">,
  memory: Handle<"Mem">,
  address: bigint,
): Handle<"Event"> {
  const status = cl.clEnqueueUnmapMemObject(queue, memory, address, 0, null, eventOut);
  check(status, "clEnqueueUnmapMemObject");
  return eventOut[0] as Handle<"Event">;
}
