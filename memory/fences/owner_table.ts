import { type FenceEvent, type FenceQueue, hasEnded, Marker } from "./fence.ts";

/** The owner of free blocks, and the events that others must wait for before they use them. */
export class Owner {
  /** Small, and no two owners of a table have the same at one time: an index into arrays. */
  readonly id: number;
  /** The queue that may have the blocks at once; `undefined` where no queue used them. */
  readonly queue: FenceQueue | undefined;
  #fence: FenceEvent | null = null;

  /** Tables make owners; a region that is used by itself takes any with different ids. */
  constructor(id: number, queue?: FenceQueue) {
    this.id = id;
    this.queue = queue;
  }

  /** Events that others than `queue` wait for; `null` where there is none, or a new marker only. */
  get fence(): FenceEvent | null {
    return this.#fence;
  }

  /**
   * Adds a fence, which passes to the owner. The later marker of an in-order queue stands for the
   * earlier ones too; a block whose free was deferred comes with an earlier one than its queue may
   * have by now.
   */
  addFence(fence: FenceEvent): void {
    const isOlder = this.#fence instanceof Marker && fence instanceof Marker &&
      fence.serial < this.#fence.serial;
    const former = isOlder ? fence : this.#fence;
    if (!isOlder) this.#fence = fence;
    former?.release();
  }

  /** True when its blocks can be used at once by anybody. Asks, but does not wait. */
  get isIdle(): boolean {
    return this.#fence === null ? this.queue === undefined : hasEnded(this.#fence);
  }

  /** Lets the fence go. */
  releaseFence(): void {
    this.#fence?.release();
    this.#fence = null;
  }
}

/** The owners of a pool's free blocks: one for each queue that released any, and two more. */
export class OwnerTable {
  /** Of what the default queue used, or no queue. */
  readonly default: Owner;
  /** Of discarded blocks, which are never lent again. */
  readonly nobody: Owner = new Owner(1);
  readonly #owners: Owner[];
  readonly #hasFree: (owner: Owner) => boolean;

  /**
   * Begins with no queue but the default one.
   *
   * @param defaultQueue The queue of requests that name none.
   * @param hasFree Whether an owner has a free block: without one, the owner of a queue that is
   *   released makes room for another.
   */
  constructor(defaultQueue: FenceQueue | undefined, hasFree: (owner: Owner) => boolean) {
    this.default = new Owner(0, defaultQueue);
    this.#owners = [this.default, this.nobody];
    this.#hasFree = hasFree;
  }

  /** True when all requests came from the default queue: no owner can have another's blocks. */
  get isSingleQueue(): boolean {
    return this.#owners.length === 2;
  }

  /** The owner of what a queue uses. */
  of(queue: FenceQueue | undefined): Owner {
    if (queue === undefined || queue === this.default.queue) return this.default;
    return this.#owners.find((owner) => owner.queue === queue) ?? this.#add(queue);
  }

  /** The owners of free blocks that `owner` might take over. */
  othersWithFree(owner: Owner): Owner[] {
    return this.#owners.filter((other) =>
      other !== owner && other !== this.nobody && this.#hasFree(other)
    );
  }

  #add(queue: FenceQueue): Owner {
    const isGone = (owner: Owner) => owner.queue?.released && !this.#hasFree(owner);
    // The default owner is asked for by its place even when its queue is gone.
    const gone = this.#owners.findIndex((owner) => owner !== this.default && isGone(owner));
    const id = gone < 0 ? this.#owners.length : gone;
    this.#owners[gone]?.releaseFence();
    return this.#owners[id] = new Owner(id, queue);
  }

  /** Lets all fences go. */
  releaseFences(): void {
    for (const owner of this.#owners) owner.releaseFence();
  }
}
