/**
 * Memory of a buffer, mapped into the address space of the host.
 *
 * @module
 */
import type { Event } from "./event.ts";

/**
 * A mapped region: `bytes` is the buffer's memory itself, where host and device share it, and else a copy
 * that is written back at `unmap()`.
 */
export class MappedRegion implements Disposable {
  /** Completes when the region may be touched. */
  readonly event: Event;
  readonly #unmap: () => Event;
  #bytes: Uint8Array<ArrayBuffer>;
  #unmapped: Event | null = null;

  /** Queues make regions. */
  constructor(address: bigint, nbytes: number, event: Event, unmap: () => Event) {
    this.#bytes = viewOf(address, nbytes);
    this.event = event;
    this.#unmap = unmap;
  }

  /** The memory. Detached by `unmap()`, so that no stale view reaches what is freed. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  /** Gives the memory back to the device. A second call returns the event of the first. */
  unmap(): Event {
    if (this.#unmapped !== null) return this.#unmapped;
    this.#bytes.buffer.transfer(0);
    this.#unmapped = this.#unmap();
    return this.#unmapped;
  }

  /** The same as `unmap()`, for `using`. */
  [Symbol.dispose](): void {
    this.unmap();
  }
}

function viewOf(address: bigint, nbytes: number): Uint8Array<ArrayBuffer> {
  const pointer = Deno.UnsafePointer.create(address);
  if (pointer === null) throw new TypeError("Cannot map a buffer: the driver returned no address");
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, nbytes));
}
