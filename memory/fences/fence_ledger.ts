/**
 * Rights to released blocks: events and queues as pools need them, the ledger of
 * released blocks, the owners of free ones. This folder imports `ffi/` only. Released blocks come from
 * `pools/`, which gets them back as free ones; events come from the queues and are released here.
 *
 * @module
 */
import { runAll } from "../../ffi/host/run_all.ts";
import { type DeferredFree, DeferredFrees, type Sized } from "./deferred_frees.ts";
import {
  awaitEnd,
  checkInOrder,
  type FenceEvent,
  type FenceQueue,
  markerOf,
  orderAfter,
} from "./fence.ts";

export type { Sized };

/** Receiver of released blocks: the part of a pool that a {@linkcode FenceLedger} needs. */
export interface BlockReceiver<T> {
  /**
   * Takes a block back.
   *
   * @param queue Who may have it at once; `undefined` is anyone.
   * @param fence What others must wait for. Without one, a marker on `queue` (the default queue)
   *   will do.
   */
  deallocate(block: T, queue: FenceQueue | undefined, fence: FenceEvent | null): void;
  /** Takes a block back whose last use cannot be waited for: it is never lent again. */
  discard(block: T): void;
  /** Does the same with all free blocks of the default queue, which can be waited for no longer. */
  discardFreeOfDefault(): void;
  /** Lets `taker` come after `events`, and after the work of `owner` where that has no marker. */
  orderAfter(
    taker: FenceQueue | undefined,
    owner: FenceQueue | undefined,
    events: readonly FenceEvent[],
  ): void;
}

/**
 * Decides which queue may have a released block, and behind what. It passes at once to the queue that
 * used it; to another one behind a marker, for which the device waits, not the host. What a further
 * queue uses (`recordQueue`) is a deferred free: the pool gets it back when that queue is done.
 *
 * Work of the default queue has no marker until another queue waits for it, since a marker is a call
 * into the driver: so an ordinary step makes none.
 */
export class FenceLedger<T extends Sized> {
  /** The queue of requests that name none. */
  readonly defaultQueue: FenceQueue | undefined;
  readonly #pool: BlockReceiver<T>;
  readonly #deferred: DeferredFrees<T> = new DeferredFrees();
  #watchesDefault: boolean;

  /**
   * Begins with no released block.
   *
   * @param defaultQueue The queue of requests that name none.
   * @param pool Gets the blocks back.
   * @throws {TypeError} When the queue is out of order.
   */
  constructor(defaultQueue: FenceQueue | undefined, pool: BlockReceiver<T>) {
    checkInOrder(defaultQueue);
    this.defaultQueue = defaultQueue;
    this.#watchesDefault = defaultQueue !== undefined;
    this.#pool = pool;
  }

  /** Gives the pool what is done by now; to be called before each allocation. Waits for nothing. */
  update(): void {
    if (this.#watchesDefault && this.defaultQueue!.released) {
      this.#watchesDefault = false;
      this.#pool.discardFreeOfDefault();
    }
    if (this.#deferred.count > 0) this.#return(this.#deferred.takeDone());
  }

  /**
   * Decides about a block that its holder released.
   *
   * @param queue The queue that it was allocated for.
   * @param users The queues that use it besides.
   */
  release(block: T, queue: FenceQueue | undefined, users: readonly FenceQueue[] | null): void {
    if (queue?.released || users?.some((user) => user.released)) return this.#pool.discard(block);
    const fence = this.fenceOn(queue);
    if (users === null) this.#pool.deallocate(block, queue, fence);
    else this.#deferred.add(block, queue, fence, users);
  }

  /** Events before others may use what `queue` used; `null` for the default queue. */
  fenceOn(queue: FenceQueue | undefined): FenceEvent | null {
    return queue === undefined || queue === this.defaultQueue ? null : markerOf(queue);
  }

  /**
   * Lets `taker` come after `events`, and after the work of the default queue where that was the
   * `owner`: on the device, or without a taker by waiting for it.
   *
   * @returns Whether there was anything to wait for.
   */
  orderAfter(
    taker: FenceQueue | undefined,
    owner: FenceQueue | undefined,
    events: readonly FenceEvent[],
  ): boolean {
    const isDefault = owner !== undefined && owner === this.defaultQueue && taker !== owner;
    return orderAfter(taker, events, isDefault ? owner : undefined);
  }

  /**
   * Retry step: lets `taker` wait, on the device, for the users of all deferred frees, and makes
   * the blocks its own; returns their bytes.
   */
  mergeDeferred(taker: FenceQueue | undefined): number {
    if (taker === undefined || this.#deferred.count === 0) return 0;
    const frees = this.#deferred.all();
    if (frees.some(({ fence, queue }) => fence === null && queue?.released)) return 0;
    const usesDefault = frees.some(({ queue }) =>
      queue !== undefined && queue === this.defaultQueue
    );
    const events = frees.flatMap(({ events, fence }) => fence ? [...events, fence] : events);
    this.#pool.orderAfter(taker, usesDefault ? this.defaultQueue : taker, events);
    for (const { block, fence } of this.#deferred.takeAll()) {
      fence?.release();
      this.#pool.deallocate(block, taker, this.fenceOn(taker));
    }
    return bytesOf(frees);
  }

  /** Retry step: waits, on the host, for the users of the oldest deferred free; returns its bytes. */
  awaitOldest(): number {
    return this.#return(this.#deferred.awaitOldest());
  }

  /** Waits for the users of all deferred frees. */
  awaitAll(): void {
    while (this.awaitOldest() > 0);
  }

  /** Gives the pool blocks back whose further users are done; returns their bytes. */
  #return(frees: readonly DeferredFree<T>[]): number {
    for (const { block, queue, fence } of frees) {
      // Its own queue may be gone since, and with it the order of what comes next.
      if (fence === null && queue?.released) this.#pool.discard(block);
      else this.#pool.deallocate(block, queue, fence);
    }
    return bytesOf(frees);
  }

  /**
   * Waits for the users of all deferred frees and lets the pool discard the blocks. One that cannot
   * be waited for keeps none of the others; the first error is thrown at the end.
   */
  discardAll(): void {
    const frees = this.#deferred.all();
    runAll([
      ...frees.flatMap(({ events }) => events.map((event) => () => awaitEnd(event))),
      () => this.#deferred.takeAll(),
      ...frees.map(({ block, fence }) => () => {
        fence?.release();
        this.#pool.discard(block);
      }),
    ]);
  }
}

function bytesOf(frees: readonly DeferredFree<Sized>[]): number {
  return frees.reduce((bytes, { block }) => bytes + block.size, 0);
}
