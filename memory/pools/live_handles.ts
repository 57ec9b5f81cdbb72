import type { PoolObservers } from "../core/observers.ts";
import type { LiveBlock, Pool } from "../core/pool.ts";
import type { PoolCounters } from "../core/stats.ts";
import type { FenceQueue } from "../fences/fence.ts";
import type { MemorySource } from "../sources/source.ts";
import { type Block, describeHandle, PooledHandle } from "./handle.ts";
import { ViewHandle } from "./view_handle.ts";

/**
 * The handles that callers hold, linked in the order in which they were lent. Makes them, counts
 * what they hold and tells the observers.
 */
export class LiveHandles<B> {
  readonly #pool: Pool<B>;
  readonly #source: MemorySource<B>;
  readonly #counters: PoolCounters;
  readonly #observers: PoolObservers;
  #newest: PooledHandle<B> | null = null;
  #lastId = 0;

  /**
   * Begins with none.
   *
   * @param pool What the handles are given back to.
   * @param source Where the pool's memory comes from.
   */
  constructor(
    pool: Pool<B>,
    source: MemorySource<B>,
    counters: PoolCounters,
    observers: PoolObservers,
  ) {
    this.#pool = pool;
    this.#source = source;
    this.#counters = counters;
    this.#observers = observers;
  }

  /** The one that was lent last. */
  get newest(): PooledHandle<B> | null {
    return this.#newest;
  }

  /** Makes the handle of a block; `null` is the block of zero bytes. */
  lend(
    block: Block<B> | null,
    nbytes: number,
    queue: FenceQueue | undefined,
    label: string | undefined,
  ): PooledHandle<B> {
    const id = ++this.#lastId;
    const source = this.#source;
    const handle = source.view === undefined
      ? new PooledHandle<B>(this.#pool, source, block, nbytes, id, label, queue)
      : new ViewHandle<B>(this.#pool, source, block, nbytes, id, label, queue);
    const counters = this.#counters;
    counters.numAllocs++;
    if (block !== null) {
      block.holder = handle;
      counters.requested.add(nbytes);
      counters.allocated.add(block.size);
    }
    handle.older = this.#newest;
    if (this.#newest !== null) this.#newest.newer = handle;
    this.#newest = handle;
    this.#observers.allocated(handle);
    return handle;
  }

  /** Ends a handle that is live; its block is the caller's. */
  end(handle: PooledHandle<B>): void {
    this.#observers.released(handle);
    handle.retire();
    this.#unlink(handle);
    const block = handle.block;
    if (block === null) return;
    block.holder = null;
    this.#counters.requested.subtract(handle.nbytes);
    this.#counters.allocated.subtract(block.size);
  }

  #unlink(handle: PooledHandle<B>): void {
    if (handle.newer === null) this.#newest = handle.older;
    else handle.newer.older = handle.older;
    if (handle.older !== null) handle.older.newer = handle.newer;
    handle.older = handle.newer = null;
  }

  /** Their figures, oldest first. */
  describe(): LiveBlock[] {
    const blocks: LiveBlock[] = [];
    for (let handle = this.#newest; handle !== null; handle = handle.older) {
      blocks.push(describeHandle(handle));
    }
    return blocks.reverse();
  }
}
