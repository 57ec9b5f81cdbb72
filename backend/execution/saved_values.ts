/**
 * Values that a read has computed on the way and that `backward` will ask for. They are in memory
 * until backward has used them, nobody can call it any more, or memory is short: then they are computed
 * again.
 */
import type { DeviceMemory, Reclaimer } from "../../memory/mod.ts";
import type { Node, Saved } from "../graph/node.ts";
import type { Storage } from "../graph/stored_value.ts";

/** Values kept by one read. */
export class SavedValues implements Saved {
  readonly #nodes: Node[] = [];
  readonly #all: SavedInMemory;
  #isUsed = false;
  #pins = 0;
  /** It was there when old ones were let go last. */
  isOld = false;

  constructor(all: SavedInMemory) {
    this.#all = all;
    all.add(this);
  }

  /** Saves a node's value; takes over one reference on `storage`. */
  take(node: Node, storage: Storage): void {
    node.save(storage, this);
    this.#nodes.push(node);
  }

  /** True once nothing but the pending computations that read them wants the values. */
  get isUsed(): boolean {
    return this.#isUsed;
  }

  /** Backward has been called: each value goes when its last reader has been computed. */
  use(): void {
    this.#isUsed = true;
    this.#all.delete(this);
    for (const node of this.#nodes) if (node.saved === this && node.users === 0) node.forget();
  }

  /** Lets the values go, unless a schedule is about to read them. */
  release(): void {
    if (this.#pins > 0) return;
    this.#all.delete(this);
    for (const node of this.#nodes) if (node.saved === this) node.forget();
  }

  /** Keeps the values while a schedule runs. */
  pin(): void {
    this.#pins++;
  }

  /** Takes a `pin` back. */
  unpin(): void {
    this.#pins--;
  }
}

/** All that is kept in one memory; it gives them up where that is short. */
export class SavedInMemory implements Reclaimer {
  readonly name = "values kept for backward";
  /** A new set whenever it is empty: V8 links former tables of a set to the present one. */
  #live = new Set<SavedValues>();

  // deno-lint-ignore no-explicit-any -- the buffer's type is the backend's own business
  constructor(memory: DeviceMemory<any>) {
    memory.addReclaimer(this);
  }

  /** Notes what was kept. */
  add(saved: SavedValues): void {
    this.#live.add(saved);
  }

  /** Forgets what was let go. */
  delete(saved: SavedValues): void {
    if (this.#live.delete(saved) && this.#live.size === 0) this.#live = new Set();
  }

  /** Lets go of what was kept before this was called last: backward may never come. */
  releaseOld(): void {
    for (const saved of [...this.#live]) {
      if (saved.isOld) saved.release();
      saved.isOld = true;
    }
  }

  /** Lets everything go. */
  reclaim(): void {
    for (const saved of this.#live) saved.release();
  }
}
