import { SlabPool, type SlabPoolOptions } from "./slab_pool.ts";
import { type HostBuffer, HostSource } from "../sources/source.ts";

/**
 * The CPU backend's pool: the slab pool over the host's own memory. Its blocks are `Uint8Array`
 * views of the segments, so nothing is copied between host and "device".
 */
export class HostPool extends SlabPool<HostBuffer> {
  /**
   * Begins with no memory.
   *
   * @param options Sizes and limits.
   */
  constructor(options: SlabPoolOptions = {}) {
    super(new HostSource(), options);
  }
}
