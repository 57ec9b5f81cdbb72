import { Buffer, type CommandQueue, type MappedRegion, MemFlags } from "../ffi/mod.ts";
import { BucketPool } from "./bucket_pool.ts";
import { GiB, KiB, MiB, nextPowerOfTwo, roundUp } from "./bytes.ts";
import { asMemoryError } from "./device_source.ts";
import { detachableView } from "./host_view.ts";
import type { AllocateOptions, BufferHandle } from "./pool.ts";
import type { MemorySource } from "./source.ts";

/** A block of page-locked host memory. */
export interface PinnedHandle extends BufferHandle<Buffer> {
  /**
   * The memory itself, `nbytes` of it. Detached at the release: a view that somebody kept is empty
   * then, and cannot reach what the memory is used for next.
   */
  readonly view: Uint8Array<ArrayBuffer>;
}

const PAGE = 4 * KiB;

/** Buffers that the driver made in host memory and that stay mapped for as long as they live. */
class PinnedSource implements MemorySource<Buffer> {
  readonly name: string;
  readonly alignment = PAGE;
  readonly maxAllocationBytes: number;
  readonly empty = null;
  readonly #regions = new Map<Buffer, MappedRegion>();

  constructor(readonly queue: CommandQueue) {
    this.name = `pinned host memory of ${queue.device.name}`;
    this.maxAllocationBytes = queue.device.maxMemAllocSize;
  }

  create(nbytes: number, flags = MemFlags.READ_WRITE): Buffer {
    let buffer: Buffer | undefined;
    try {
      buffer = new Buffer(this.queue.context, nbytes, { flags: flags | MemFlags.ALLOC_HOST_PTR });
      this.#regions.set(buffer, this.queue.map(buffer));
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

  destroy(buffer: Buffer): void {
    const region = this.#regions.get(buffer)!;
    this.#regions.delete(buffer);
    if (!this.queue.released) region.unmap().release();
    buffer.release();
  }
}

/** How a PinnedBufferPool is set up. */
export interface PinnedBufferPoolOptions {
  /** The most bytes of page-locked memory to hold. Default: 1 GiB. */
  readonly maxBytes?: number;
}

/**
 * Page-locked host memory for copies to and from a device, which such memory reaches several times
 * as fast on discrete GPUs. Where host and device share memory it is a detour: map the buffer
 * itself there.
 *
 * Its buffers stay mapped: fill `handle.view` and enqueue a write from it. Before the block is
 * released with that write under way, `recordQueue(handle, queue)`: its next user fills it from the
 * host, and so gets it only when the copy is done.
 */
export class PinnedBufferPool extends BucketPool<Buffer> {
  /**
   * Begins with no memory.
   *
   * @param queue A queue of the context that the copies are made in; buffers are mapped on it.
   * @param options The limit.
   */
  constructor(queue: CommandQueue, options: PinnedBufferPoolOptions = {}) {
    super(new PinnedSource(queue), options.maxBytes ?? GiB);
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  override allocate(nbytes: number, options?: AllocateOptions): PinnedHandle {
    return super.allocate(nbytes, options) as PinnedHandle;
  }

  /**
   * Powers of two up to 1 MiB; above, whole pages: what is page-locked is lost to everybody else.
   */
  protected override bucketSize(nbytes: number): number {
    return nbytes <= MiB ? Math.max(PAGE, nextPowerOfTwo(nbytes)) : roundUp(nbytes, PAGE);
  }
}
