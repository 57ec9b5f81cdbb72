import { PooledHandle } from "./handle.ts";

/** The handle of a block that the host can see. */
export class ViewHandle<B> extends PooledHandle<B> {
  #view: Uint8Array<ArrayBuffer> | null = null;

  /** The memory, made visible at the first look; detached at the release. */
  get view(): Uint8Array<ArrayBuffer> {
    if (this.nbytes === 0) return new Uint8Array(0);
    // Reading `buffer` throws after the release.
    const { buffer } = this;
    return this.#view ??= this.source.view!(buffer, this.nbytes);
  }

  override retire(): void {
    super.retire();
    this.#view?.buffer.transfer(0);
  }
}
