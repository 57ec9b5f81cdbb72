import {
  Buffer,
  CommandQueue,
  type Context,
  type Device,
  liveQueues,
  type MappedRegion,
  MemFlags,
  transfersWith,
} from "../../ffi/mod.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { asMemoryError } from "./device_source.ts";
import { type FenceEvent, type FenceQueue, markerOf } from "../fences/fence.ts";
import { AllEnded } from "../fences/host_fence.ts";
import { detachableView } from "./host_view.ts";
import type { MemorySource } from "./source.ts";

/** Buffers that the driver made in host memory and that stay mapped for as long as they live. */
export class PinnedSource implements MemorySource<Buffer> {
  readonly name: string;
  readonly alignment: number;
  readonly maxAllocationBytes: number;
  readonly empty = null;
  readonly #context: Context;
  readonly #device: Device;
  readonly #regions = new Map<Buffer, MappedRegion>();
  /** For mapping only: never busy, and private, so that no caller can release it. */
  #queue: CommandQueue | null = null;

  /** @param alignment What sizes are rounded to: the bytes of a page. */
  constructor(context: Context, device: Device, alignment: number) {
    this.#context = context;
    this.#device = device;
    this.alignment = alignment;
    this.name = `pinned host memory of ${device.name}`;
    this.maxAllocationBytes = device.maxMemAllocSize;
  }

  create(nbytes: number, flags = MemFlags.READ_WRITE): Buffer {
    let buffer: Buffer | undefined;
    try {
      buffer = new Buffer(this.#context, nbytes, { flags: flags | MemFlags.ALLOC_HOST_PTR });
      this.#queue ??= new CommandQueue(this.#context, this.#device);
      this.#regions.set(buffer, this.#queue.map(buffer));
      return buffer;
    } catch (error) {
      buffer?.release();
      throw asMemoryError(error, this.name, nbytes);
    }
  }

  /** A new view of the buffer's memory, which can be detached without the others. */
  view(buffer: Buffer, nbytes: number): Uint8Array<ArrayBuffer> {
    const region = this.#regions.get(buffer)!;
    return detachableView(region.bytes, 0, nbytes, region);
  }

  /**
   * Events of everything that may use a buffer: what `queue` was given until now, without one all
   * queues of the context, and the copies of queues that were released since.
   */
  usersOf(buffer: Buffer, queue?: FenceQueue): FenceEvent[] {
    const queues = queue === undefined
      ? liveQueues().filter(({ context }) => context === this.#context)
      : [queue].filter(({ released }) => !released);
    return [
      ...queues.filter((queue) => queue !== this.#queue).map(markerOf),
      ...transfersWith(this.#regions.get(buffer)!),
    ];
  }

  /** Waits for what uses the buffer, on whatever queue, and gives it back to the driver. */
  destroy(buffer: Buffer): void {
    const users = new AllEnded(this.usersOf(buffer));
    const region = this.#regions.get(buffer)!;
    this.#regions.delete(buffer);
    runAll([
      () => users.waitSync(),
      () => users.release(),
      () => region.unmap().release(),
      () => buffer.release(),
    ]);
  }

  /** Lets the queue go, after the last buffer. */
  close(): void {
    this.#queue?.release();
    this.#queue = null;
  }
}
