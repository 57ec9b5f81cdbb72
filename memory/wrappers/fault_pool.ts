import type { Buffer } from "../../ffi/mod.ts";
import type { OutOfMemoryError } from "../core/errors.ts";
import type { AllocateOptions, BufferHandle } from "../pools/pool.ts";
import type { RetryLadder } from "../core/retry_ladder.ts";
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
   * Lets the `nth` next allocation fail.
   *
   * @param nth 1 is the next one.
   * @param error What it throws. Default: an `OutOfMemoryError` with the pool's figures.
   */
  failAllocation(nth = 1, error?: unknown): void {
    requireValue("let an allocation fail", "nth", nth, takes.count);
    this.#failures.set(this.#allocations + nth, error);
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  override allocate(
    nbytes: number,
    options?: AllocateOptions,
    ladder?: RetryLadder,
  ): BufferHandle<B> {
    const nth = ++this.#allocations;
    if (!this.#failures.has(nth)) return super.allocate(nbytes, options, ladder);
    const error = this.#failures.get(nth) ?? this.#outOfMemory(nbytes, ladder);
    this.#failures.delete(nth);
    throw error;
  }

  #outOfMemory(nbytes: number, ladder: RetryLadder | undefined): OutOfMemoryError {
    const { bytesCached, reservedBytes } = this.stats;
    return this.refusal({
      requestedBytes: nbytes,
      freeBytes: bytesCached,
      largestFreeBytes: this.largestFreeBytes,
      reservedBytes,
      limitBytes: this.limitBytes,
      maxAllocationBytes: Infinity,
      rungs: [],
      deviceName: "a pool with an injected failure",
      liveAllocations: [],
    }, ladder);
  }
}
