import type { Buffer } from "../../ffi/mod.ts";
import type { AllocateOptions, BufferHandle } from "../core/pool.ts";
import { Shortage, type ShortageDetails } from "../core/retry_ladder.ts";
import { PoolWrapper } from "./pool_wrapper.ts";
import * as takes from "../../ffi/host/option_rules.ts";
import { requireValue } from "../../ffi/host/options.ts";

/**
 * Lets allocations fail on demand: for testing what a program does when memory is short, on
 * machines where it never is.
 *
 * @example
 * ```ts
 * import { FaultPool, HostPool, OutOfMemoryError } from "@netcl/netcl/memory";
 * import { assertThrows } from "@std/assert";
 *
 * const pool = new FaultPool(new HostPool());
 * pool.failAllocation(2);
 * pool.allocate(64).release();
 * assertThrows(() => pool.allocate(64), OutOfMemoryError);
 * ```
 */
export class FaultPool<B = Buffer> extends PoolWrapper<B> {
  #allocations = 0;
  readonly #failures = new Map<number, unknown>();

  /**
   * Lets the `nth` next allocation fail. One that is tried again, since memory is short, counts
   * again.
   *
   * @param nth 1 is the next one.
   * @param error What it throws. Default: an `OutOfMemoryError` with the pool's figures.
   */
  failAllocation(nth = 1, error?: unknown): void {
    requireValue("let an allocation fail", "nth", nth, takes.count);
    this.#failures.set(this.#allocations + nth, error);
  }

  /** Lends a block; see {@linkcode Pool.tryAllocate}. */
  override tryAllocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> | Shortage {
    const nth = ++this.#allocations;
    if (!this.#failures.has(nth)) return super.tryAllocate(nbytes, options);
    const error = this.#failures.get(nth);
    this.#failures.delete(nth);
    if (error !== undefined) throw error;
    return new Shortage([], () => this.#details(nbytes));
  }

  #details(nbytes: number): ShortageDetails {
    const { bytesCached, reservedBytes } = this.stats;
    return {
      requestedBytes: nbytes,
      freeBytes: bytesCached,
      largestFreeBytes: this.largestFreeBytes,
      reservedBytes,
      limitBytes: this.limitBytes,
      maxAllocationBytes: Infinity,
      deviceName: "a pool with an injected failure",
      liveAllocations: [],
    };
  }
}
