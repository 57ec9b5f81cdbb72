import type { Buffer } from "../../ffi/mod.ts";
import { checkByteCount } from "../core/bytes.ts";
import type { AllocateOptions, BufferHandle, Pool } from "../core/pool.ts";
import { Shortage } from "../core/retry_ladder.ts";
import { PoolWrapper } from "./pool_wrapper.ts";
import { requireValue } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/**
 * Lets one part of a program have at most so many bytes of a pool that it shares with others. (The
 * limit of a pool itself, `limitBytes`, is on what it holds from the driver.)
 *
 * @example
 * ```ts
 * import { HostPool, LimitPool, OutOfMemoryError } from "@netcl/netcl/memory";
 * import { assertThrows } from "@std/assert";
 *
 * const share = new LimitPool(new HostPool(), 1 << 20);
 * using half = share.allocate(1 << 19);
 * assertThrows(() => share.allocate(1 << 20), OutOfMemoryError);
 * ```
 */
export class LimitPool<B = Buffer> extends PoolWrapper<B> {
  /** The most bytes that callers of this wrapper may hold, rounding included. */
  readonly lendingLimitBytes: number;
  #held = 0;

  /**
   * Begins with nothing lent.
   *
   * @param upstream The pool that lends the memory.
   * @param lendingLimitBytes The most bytes to lend.
   */
  constructor(upstream: Pool<B>, lendingLimitBytes: number) {
    requireValue("make a LimitPool", "lendingLimitBytes", lendingLimitBytes, takes.byteLimit);
    super(upstream);
    this.lendingLimitBytes = lendingLimitBytes;
  }

  /** Bytes that callers of this wrapper hold, rounding included. */
  get heldBytes(): number {
    return this.#held;
  }

  /** Lends a block; see {@linkcode Pool.tryAllocate}. */
  override tryAllocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> | Shortage {
    checkByteCount(nbytes, "allocate");
    if (this.#held + nbytes > this.lendingLimitBytes) return this.#shortage(nbytes);
    const handle = super.tryAllocate(nbytes, options);
    if (handle instanceof Shortage) return handle;
    this.#held += handle.bucketSize;
    if (this.#held <= this.lendingLimitBytes) return handle;
    handle.release();
    return this.#shortage(nbytes);
  }

  /** Takes a block back. */
  override release(handle: BufferHandle<B>): void {
    const { upstream } = this.own(handle);
    if (upstream.state === "live") this.#held -= upstream.bucketSize;
    upstream.release();
  }

  /** Takes back a block whose holder the garbage collector found. */
  override reclaim(handle: BufferHandle<B>): void {
    if (handle.state === "live") this.#held -= handle.bucketSize;
    super.reclaim(handle);
  }

  /** No step helps: what the upstream may free is not this wrapper's. */
  #shortage(nbytes: number): Shortage {
    const free = this.lendingLimitBytes - this.#held;
    return new Shortage([], () => ({
      requestedBytes: nbytes,
      freeBytes: free,
      largestFreeBytes: free,
      reservedBytes: this.lendingLimitBytes,
      limitBytes: this.lendingLimitBytes,
      maxAllocationBytes: Infinity,
      deviceName: "this share of the pool",
      liveAllocations: [],
    }));
  }
}
