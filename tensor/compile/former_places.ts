/**
 * Places of the former values of tensors that a compiled function assigns: their next values take them, so that
 * parameters are in two places by turns and nearly all launches find their arguments set. A pool gives back the
 * same places in another order each time: a vision transformer's step set 1,200 arguments, 1 ms of the host.
 */
import type { Block } from "../../backend/internal.ts";
import type { AnyDeviceMemory, Storage } from "../../memory/mod.ts";

/** The one program that keeps places in a memory: the last that ran. It gives them back where memory is short. */
const holders = new WeakMap<AnyDeviceMemory, { present: FormerPlaces | null }>();

/** The places of one program, by the slots of next values. */
export class FormerPlaces implements Disposable {
  readonly #memory: AnyDeviceMemory;
  readonly #blocks = new Map<number, Block>();

  constructor(memory: AnyDeviceMemory) {
    this.#memory = memory;
  }

  /** The place of a slot's value before the last, the caller's from now on; null where it is not known. */
  take(slot: number): Block | null {
    const block = this.#blocks.get(slot);
    this.#blocks.delete(slot);
    return block ?? null;
  }

  /** Keeps the place of a value that nobody holds but the caller, whose reference it takes over. */
  keep(slot: number, storage: Storage<unknown>): void {
    const holder = this.#holder();
    if (holder.present !== this) holder.present?.[Symbol.dispose]();
    holder.present = this;
    this.#blocks.set(slot, storage.take() as Block);
  }

  #holder(): { present: FormerPlaces | null } {
    const known = holders.get(this.#memory);
    if (known) return known;
    const holder: { present: FormerPlaces | null } = { present: null };
    holders.set(this.#memory, holder);
    const reclaim = (): void => holder.present?.[Symbol.dispose]();
    this.#memory.addReclaimer({ name: "places of former values of compiled steps", reclaim });
    return holder;
  }

  /** Gives all places back; more may be kept. */
  [Symbol.dispose](): void {
    for (const block of this.#blocks.values()) block.release();
    this.#blocks.clear();
  }
}
