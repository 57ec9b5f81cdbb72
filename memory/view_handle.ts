import type { Buffer } from "../ffi/mod.ts";
import type { FenceQueue } from "./fences.ts";
import { type Block, PooledHandle } from "./handle.ts";
import type { Pool } from "./pool.ts";

/** Whatever can show the memory of a buffer. */
export interface ViewSource {
  /** The first `nbytes` of the buffer, in a view that can be detached by itself. */
  view(buffer: Buffer, nbytes: number): Uint8Array<ArrayBuffer>;
}

/** The handle of a block that the host can see. */
export class ViewHandle extends PooledHandle<Buffer> {
  readonly #source: ViewSource;
  #view: Uint8Array<ArrayBuffer> | null = null;

  constructor(
    source: ViewSource,
    pool: Pool<Buffer>,
    block: Block<Buffer> | null,
    nbytes: number,
    id: number,
    label: string | undefined,
    queue: FenceQueue | undefined,
  ) {
    super(pool, block, nbytes, id, label, queue, null);
    this.#source = source;
  }

  /** The memory, made visible at the first look; detached at the release. */
  get view(): Uint8Array<ArrayBuffer> {
    if (this.nbytes === 0) return new Uint8Array(0);
    // Reading `buffer` throws after the release.
    const { buffer } = this;
    return this.#view ??= this.#source.view(buffer, this.nbytes);
  }

  override retire(): void {
    super.retire();
    this.#view?.buffer.transfer(0);
  }
}
