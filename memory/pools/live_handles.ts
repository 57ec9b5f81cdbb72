import { describeHandle, type PooledHandle } from "./handle.ts";
import type { LiveBlock } from "./pool.ts";

/** The handles that callers hold, linked in the order in which they were lent. */
export class LiveHandles<B> {
  #newest: PooledHandle<B> | null = null;

  /** The one that was lent last. */
  get newest(): PooledHandle<B> | null {
    return this.#newest;
  }

  /** Adds the newest one. */
  add(handle: PooledHandle<B>): void {
    handle.older = this.#newest;
    if (this.#newest !== null) this.#newest.newer = handle;
    this.#newest = handle;
  }

  /** Takes one out. */
  remove(handle: PooledHandle<B>): void {
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
