import { DisposedError } from "../../ffi/mod.ts";
import { formatBytes } from "../core/bytes.ts";
import { checkInOrder, type FenceQueue, queueNumber } from "../fences/fence.ts";
import type { BufferHandle, HandleState, LiveBlock, Pool } from "../core/pool.ts";
import type { MemorySource } from "../sources/source.ts";

/** A piece of memory that a pool hands out again and again; its holders come and go. */
export interface Block<B> {
  /** The memory object of just this piece. */
  readonly buffer: B;
  /** The memory object that it lies in, at `offset`. */
  readonly base: B;
  /** Bytes after rounding. */
  readonly size: number;
  /** The piece of memory that it lies in. */
  readonly segment: number;
  /** The offset in its segment. */
  readonly offset: number;
  /** True once its memory is the driver's again. */
  readonly destroyed: boolean;
  /** The handle that holds it now. */
  holder: PooledHandle<B> | null;
}

/** Handles whose holders did not release them: their pool was destroyed. */
const outlived = new WeakSet<object>();

/** Says that the pool of a live handle is destroyed, and its holder does not know it. */
export function outlivePool(handle: object): void {
  outlived.add(handle);
}

/**
 * The handle of every pool that owns memory. Each allocation makes a new one, so a stale one stays
 * stale.
 */
export class PooledHandle<B> implements BufferHandle<B>, LiveBlock {
  /** The pool that lent it. */
  readonly pool: Pool<B>;
  /** Bytes, as the caller asked for them. */
  readonly nbytes: number;
  /** Bytes that the pool set aside. */
  readonly bucketSize: number;
  /** Its purpose. */
  readonly label: string | undefined;
  /** Counts the pool's allocations. */
  readonly id: number;
  /** `null` for an allocation of zero bytes. */
  readonly block: Block<B> | null;
  /** The queue whose commands use the block, as far as the pool was told. */
  readonly queue: FenceQueue | undefined;
  /** Queues besides `queue` whose work uses the block. */
  users: FenceQueue[] | null = null;
  /** True when a caller holds it. */
  live = true;
  /** The one before it in the pool's list of live handles. */
  older: PooledHandle<B> | null = null;
  /** The one after it there. */
  newer: PooledHandle<B> | null = null;
  /** The source of the pool's memory. */
  protected readonly source: MemorySource<B>;

  /** Pools make handles. */
  constructor(
    pool: Pool<B>,
    source: MemorySource<B>,
    block: Block<B> | null,
    nbytes: number,
    id: number,
    label: string | undefined,
    queue: FenceQueue | undefined,
  ) {
    this.pool = pool;
    this.block = block;
    this.nbytes = nbytes;
    this.bucketSize = block === null ? 0 : block.size;
    this.id = id;
    this.label = label;
    this.queue = queue;
    this.source = source;
  }

  /**
   * The memory object; it begins where the block begins.
   *
   * @throws {DisposedError} After the release, since it may be lent again by now; or after the pool's
   *   end.
   * @throws {RangeError} When there are no bytes, and nothing that stands for them.
   */
  get buffer(): B {
    if (this.live && this.block !== null) return this.block.buffer;
    return this.#withoutBlock();
  }

  /** The memory object that the block lies in, at `offset`. Throws where `buffer` does. */
  get base(): B {
    if (this.live && this.block !== null) return this.block.base;
    return this.#withoutBlock();
  }

  #withoutBlock(): B {
    if (!this.live) {
      const label = this.label ? ` (${this.label})` : "";
      throw new DisposedError(
        `Cannot use a block of ${formatBytes(this.nbytes)}${label} after ${
          outlived.has(this)
            ? "its pool was destroyed: shutdown() ends all tensors that were made before it; read or " +
              "save their values before, and make them anew after it"
            : "its release"
        }`,
      );
    }
    if (this.source.empty !== null) return this.source.empty;
    throw new RangeError("An allocation of 0 bytes has no buffer: skip the command");
  }

  /** The segment that it lies in; -1 for no bytes. */
  get segment(): number {
    return this.block === null ? -1 : this.block.segment;
  }

  /** The offset there. */
  get offset(): number {
    return this.block === null ? 0 : this.block.offset;
  }

  /** The number of `queue` in recordings. */
  get queueNumber(): number | undefined {
    return this.queue && queueNumber(this.queue);
  }

  /** The numbers of the other users. */
  get userNumbers(): number[] | undefined {
    return this.users?.map(queueNumber);
  }

  /** The present place of the block. */
  get state(): HandleState {
    if (this.live) return "live";
    return this.block === null || this.block.destroyed ? "destroyed" : "pooled";
  }

  /** Called once, when the pool takes the block back. */
  retire(): void {
    this.live = false;
  }

  /** Lets the block also wait for what `queue` was given until the release. */
  addUser(queue: FenceQueue): void {
    checkInOrder(queue);
    if (!this.live) throw new ReferenceError("Cannot record a queue on a block after its release");
    if (queue === this.queue || this.users?.includes(queue)) return;
    this.users = [...this.users ?? [], queue];
  }

  /** Gives the block back; a second call is counted and changes nothing. */
  release(): void {
    this.pool.release(this);
  }

  /** Gives the block back. */
  [Symbol.dispose](): void {
    this.pool.release(this);
  }
}

/** A live handle's figures, without the handle: keeping them keeps no block alive. */
export function describeHandle<B>(handle: PooledHandle<B>): LiveBlock {
  const { nbytes, bucketSize, label, id, segment, offset, queueNumber, userNumbers } = handle;
  const block = { nbytes, bucketSize, label, id, segment, offset };
  return {
    ...block,
    ...queueNumber !== undefined && { queueNumber },
    ...userNumbers !== undefined && { userNumbers },
  };
}

/**
 * Says that commands of another queue use a block too: after its release it may be lent again only
 * when the work enqueued on `queue` until then is done. Nobody waits on the host.
 *
 * @param handle The block.
 * @param queue The queue that uses it besides the one that it was allocated for.
 * @throws {TypeError} When the handle is none of netcl's, or the queue is out of order.
 * @throws {ReferenceError} When the block was released.
 */
export function recordQueue<B>(handle: BufferHandle<B>, queue: FenceQueue): void {
  const recorder = handle as Partial<Pick<PooledHandle<B>, "addUser">>;
  if (recorder.addUser === undefined) {
    throw new TypeError("Cannot record a queue on a handle that does not come from a pool");
  }
  recorder.addUser(queue);
}
