import type { Buffer, CommandQueue, Context } from "../../ffi/mod.ts";
import { BucketPool } from "./bucket_pool.ts";
import { nextPowerOfTwo } from "../core/bytes.ts";
import { sourceOf } from "../sources/device_source.ts";
import type { MemorySource } from "../sources/source.ts";

/**
 * Power-of-two buckets with a list of free buffers each: simple, fast, and up to twice as large as
 * what is asked for. {@linkcode SlabPool} wastes far less; this one never divides a buffer.
 *
 * A pool of a context knows no queue: name the queue in each `allocate` when more than one uses its
 * buffers.
 */
export class BufferPool<B = Buffer> extends BucketPool<B> {
  /**
   * Begins with no memory.
   *
   * @param from The context or the queue that the buffers are for, or any other source.
   */
  constructor(from: Context | CommandQueue | MemorySource<B>) {
    super(sourceOf<B>(from));
  }

  /** The size that a request is rounded up to. */
  protected override bucketSize(nbytes: number): number {
    return nextPowerOfTwo(nbytes);
  }
}
