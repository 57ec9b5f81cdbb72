/**
 * The contract of everything that lends memory, and what all of `memory/` shares: this folder has the
 * contract with its options and handles, the statistics, the retry ladder, the error, byte sizes and
 * call stacks. It imports the types of `fences/` and nothing else of `memory/`. Requests come from the
 * backends through `devices/`; what a pool answers is a handle, or a shortage with what may help.
 *
 * @module
 */
import type { Buffer } from "../../ffi/mod.ts";
import type { FenceQueue } from "../fences/fence.ts";
import type { RetryLadder, Shortage } from "./retry_ladder.ts";
import type { PoolStats } from "./stats.ts";
import type { Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options of a block. */
export interface AllocateOptions {
  /** `cl_mem_flags`; blocks are only reused for the same ones. Default: READ_WRITE. */
  readonly flags?: bigint;
  /**
   * The queue whose commands will use the block; default: the pool's own. A later holder on the
   * same queue gets the block at once, one on another queue only behind a fence.
   */
  readonly queue?: FenceQueue;
  /** Its purpose, as reports and errors show it: "matmul [64, 64]"; none by default. */
  readonly label?: string;
}

/** Rules for the values of {@linkcode AllocateOptions}. */
export const allocateRules: Rules<AllocateOptions> = {
  flags: takes.flags,
  queue: takes.object("the queue that will use the block"),
  label: takes.text,
};

/** `live` in a caller's hands, `pooled` back in the pool, `destroyed` given back to the driver. */
export type HandleState = "live" | "pooled" | "destroyed";

/** A block of memory, lent by a pool until `release()`. */
export interface BufferHandle<B = Buffer> extends Disposable {
  /**
   * The memory object; it begins where the block begins. Pools that divide make a sub-buffer when
   * it is asked for; `base` with `offset` does without.
   *
   * @throws {ReferenceError} After the release, since it may be lent again by now.
   */
  readonly buffer: B;
  /**
   * The memory object that the block lies in, from byte `offset` on: for commands and kernels that
   * take an offset. Never calls the driver.
   *
   * @throws {ReferenceError} After the release.
   */
  readonly base: B;
  /** Bytes, as the caller asked for them. */
  readonly nbytes: number;
  /** Bytes that the pool set aside for them. */
  readonly bucketSize: number;
  /** The offset of the block in `base`; 0 where that is all its own. */
  readonly offset: number;
  /** The pool that `release()` gives it back to; `null` for memory that a user owns. */
  readonly pool: Pool<B> | null;
  /** The present place of the block. */
  readonly state: HandleState;
  /** Its purpose, as the caller said. */
  readonly label: string | undefined;
  /** Gives the block back; a second call is counted and changes nothing. */
  release(): void;
  /** Gives the block back. */
  [Symbol.dispose](): void;
}

/** A place in a block that is divided. */
export interface BlockPlace {
  /** The offset in bytes; places are in this order, the first at 0. */
  readonly offset: number;
  /** Its bytes, at most up to the next place. */
  readonly nbytes: number;
}

/** A live allocation, as reports and errors show it. */
export interface LiveBlock {
  /** Bytes, as the caller asked for them. */
  readonly nbytes: number;
  /** The same after rounding. */
  readonly bucketSize: number;
  /** Its purpose. */
  readonly label: string | undefined;
  /** Counts the pool's allocations; one number names one allocation. */
  readonly id: number;
  /** The segment that it lies in; -1 for no bytes. */
  readonly segment: number;
  /** The offset there. */
  readonly offset: number;
  /** The queue that uses it, by number; absent where there is none, as in memory of the host. */
  readonly queueNumber?: number | undefined;
  /** The queues that use it besides, as `recordQueue` said. */
  readonly userNumbers?: readonly number[] | undefined;
}

/** A block of a segment, in a snapshot. */
export interface BlockSnapshot {
  /** The offset in its segment. */
  readonly offset: number;
  /** Its bytes after rounding. */
  readonly nbytes: number;
  /** `live` has a holder, `free` can be handed out, `fenced` only behind another queue's work. */
  readonly state: "live" | "free" | "fenced";
  /** The live allocation that holds it. */
  readonly allocation?: LiveBlock;
}

/** A piece of memory from the driver, in a snapshot. */
export interface SegmentSnapshot {
  /** Counts the pool's segments. */
  readonly id: number;
  /** Its bytes. */
  readonly nbytes: number;
  /** Its blocks; they lie side by side and fill it. */
  readonly blocks: readonly BlockSnapshot[];
}

/** Is told of everything that a pool does; recorders are such. */
export interface PoolObserver {
  /** A block was handed out. */
  allocated(block: LiveBlock): void;
  /** A block came back. */
  released(block: LiveBlock): void;
  /** The driver gave a segment. */
  reserved(segment: number, nbytes: number): void;
  /** A segment went back to the driver. */
  unreserved(segment: number, nbytes: number): void;
  /** An allocation found no memory, whatever was tried. */
  exhausted(nbytes: number): void;
}

/** The contract of everything that lends memory. One conformance suite holds all of them to it. */
export interface Pool<B = Buffer> {
  /**
   * Lends a block, trying what the pool can do where memory is short.
   *
   * @param nbytes A whole number; 0 is legal and takes no memory.
   * @throws {RangeError} When `nbytes` is no whole number from 0.
   * @throws {TypeError} When the queue is an out-of-order one.
   * @throws {OutOfMemoryError} When there is no memory within the limit.
   */
  allocate(nbytes: number, options?: AllocateOptions): BufferHandle<B>;
  /**
   * Lends a block that needs no waiting, else says what is short and what may help. Whoever has
   * further steps to try runs them with these in one {@linkcode RetryLadder} and tells
   * `countRetries`. Throws what `allocate` throws, but no `OutOfMemoryError`.
   */
  tryAllocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> | Shortage;
  /**
   * Counts an allocation that had to be tried again, once.
   *
   * @param ladder What was tried.
   * @param nbytes What was asked for.
   * @param found Whether memory was found in the end.
   */
  countRetries(ladder: RetryLadder, nbytes: number, found: boolean): void;
  /**
   * Makes several blocks of one, which lie side by side in it and are released one by one. The handle is
   * of no use afterwards, as after its release.
   *
   * @returns Null where the pool cannot divide a block at these places, and nothing has changed; absent
   * where it divides none.
   */
  divide?(handle: BufferHandle<B>, places: readonly BlockPlace[]): BufferHandle<B>[] | null;
  /**
   * Takes a block back; the same as `handle.release()`.
   *
   * @throws {TypeError} When another pool lent it.
   */
  release(handle: BufferHandle<B>): void;
  /** Statistics of the pool so far; the object is live. */
  readonly stats: PoolStats;
  /** The most bytes that may be held from the driver; `Infinity` is no limit. */
  limitBytes: number;
  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  trim(bytes?: number): number;
  /** Gives all cached memory back to the driver, also what waits for other queues. */
  clear(): void;
  /** Ends the pool: every block becomes `destroyed`, also those that callers hold. */
  destroy(): void;
  /** Bytes of the largest block that could be handed out without asking the driver. */
  readonly largestFreeBytes: number;
  /** The blocks that callers hold, oldest first. */
  liveBlocks(): LiveBlock[];
  /** Every segment with its blocks. */
  segments(): SegmentSnapshot[];
  /** Tells `observer` of everything from now on, until the result is disposed of. */
  observe(observer: PoolObserver): Disposable;
  /** Takes back a block whose holder the garbage collector found; counted in `leaksReclaimed`. */
  reclaim(handle: BufferHandle<B>): void;
  /** Lets the peaks start again from the present values. */
  resetPeakStats(): void;
  /** Sets the accumulated counters to zero. */
  resetAccumulatedStats(): void;
}
