import type { Buffer } from "../../ffi/mod.ts";
import { checkByteCount } from "../core/bytes.ts";
import type { OutOfMemoryError } from "../core/errors.ts";
import type { AllocateOptions, BufferHandle, Pool } from "../pools/pool.ts";
import type { RetryLadder } from "../core/retry_ladder.ts";
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
  readonly maxBytes: number;
  #held = 0;

  /**
   * Begins with nothing lent.
   *
   * @param upstream The pool that lends the memory.
   * @param maxBytes The most bytes to lend.
   */
  constructor(upstream: Pool<B>, maxBytes: number) {
    requireValue("make a LimitPool", "maxBytes", maxBytes, takes.byteLimit);
    super(upstream);
    this.maxBytes = maxBytes;
  }

  /** Bytes that callers of this wrapper hold, rounding included. */
  get heldBytes(): number {
    return this.#held;
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  override allocate(
    nbytes: number,
    options?: AllocateOptions,
    ladder?: RetryLadder,
  ): BufferHandle<B> {
    checkByteCount(nbytes, "allocate");
    if (this.#held + nbytes > this.maxBytes) throw this.#exceeded(nbytes, ladder);
    const handle = super.allocate(nbytes, options, ladder);
    this.#held += handle.bucketSize;
    if (this.#held <= this.maxBytes) return handle;
    handle.release();
    throw this.#exceeded(nbytes, ladder);
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

  #exceeded(nbytes: number, ladder: RetryLadder | undefined): OutOfMemoryError {
    const free = this.maxBytes - this.#held;
    return this.refusal({
      requestedBytes: nbytes,
      freeBytes: free,
      largestFreeBytes: free,
      reservedBytes: this.maxBytes,
      limitBytes: this.maxBytes,
      maxAllocationBytes: Infinity,
      rungs: [],
      deviceName: "this share of the pool",
      liveAllocations: [],
    }, ladder);
  }
}
