import type { FenceQueue } from "../fences/fence.ts";
import { type Block, PooledHandle } from "./handle.ts";
import type { Pool } from "../core/pool.ts";
import type { MemorySource } from "../sources/source.ts";

/** The handle of a block that the host can see. */
export class ViewHandle<B> extends PooledHandle<B> {
  readonly #source: MemorySource<B>;
  #view: Uint8Array<ArrayBuffer> | null = null;

  constructor(
    source: MemorySource<B>,
    pool: Pool<B>,
    block: Block<B> | null,
    nbytes: number,
    id: number,
    label: string | undefined,
    queue: FenceQueue | undefined,
  ) {
    super(pool, block, nbytes, id, label, queue, source.empty);
    this.#source = source;
  }

  /** The memory, made visible at the first look; detached at the release. */
  get view(): Uint8Array<ArrayBuffer> {
    if (this.nbytes === 0) return new Uint8Array(0);
    // Reading `buffer` throws after the release.
    const { buffer } = this;
    return this.#view ??= this.#source.view!(buffer, this.nbytes);
  }

  override retire(): void {
    super.retire();
    this.#view?.buffer.transfer(0);
  }
}
