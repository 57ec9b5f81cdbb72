import type { Buffer, CommandQueue } from "../../ffi/mod.ts";
import { checkByteCount, formatBytes, MiB } from "../core/bytes.ts";
import { captureStack, placeOf, userFrames } from "../core/call_stack.ts";
import type { AllocateOptions, BufferHandle, Pool } from "../core/pool.ts";
import { retryStep, Shortage } from "../core/retry_ladder.ts";
import { PoolWrapper, WrappedHandle } from "./pool_wrapper.ts";
import type { HostBuffer } from "../sources/source.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Access of a GuardPool to the memory. Every call comes after the work enqueued so far. */
export interface GuardAccess<B> {
  /** Sets bytes `offset` to `offset + nbytes` to `value`. */
  fill(buffer: B, value: number, offset: number, nbytes: number): void;
  /** Those bytes. */
  read(buffer: B, offset: number, nbytes: number): Uint8Array;
}

const memoryAccess = takes.object("{ fill, read }, or call GuardPool.forHost or forQueue");

/** Memory was used in a way that corrupts it. The message names all the places that are known. */
export class MemoryCorruptionError extends Error {
  /** The class's name. */
  override readonly name = "MemoryCorruptionError";
}

// A float of each format is NaN, an integer -1, when all its bits are set.
const POISON = 0xff;
// Neither NaN nor infinity, neither true nor false: what a kernel leaves out is no usual result.
const FRESH = 0x5a;
const GUARD = 0xa5;
const GUARD_BYTES = 64;

class GuardedHandle<B> extends WrappedHandle<B> {
  readonly allocated: string;
  releasedAt: string | null = null;

  /** @param allocated The calls that led here, empty where nobody notes them. */
  constructor(pool: PoolWrapper<B>, upstream: BufferHandle<B>, nbytes: number, allocated: string) {
    super(pool, upstream, nbytes);
    this.allocated = allocated;
  }

  override get buffer(): B {
    if (this.releasedAt !== null) throw new ReferenceError(`Cannot use ${this.story()}`);
    return this.upstream.buffer;
  }

  override get base(): B {
    if (this.releasedAt !== null) throw new ReferenceError(`Cannot use ${this.story()}`);
    return this.upstream.base;
  }

  override get state(): "live" | "pooled" | "destroyed" {
    if (this.releasedAt === null || this.upstream.state !== "live") return this.upstream.state;
    return "pooled";
  }

  /** The block and where it was made and released. */
  story(): string {
    const label = this.label === undefined ? "" : ` (${this.label})`;
    const end = this.releasedAt === null ? "" : `, released at ${whereabouts(this.releasedAt)}`;
    return `a block of ${formatBytes(this.nbytes)}${label}, allocated at ${
      whereabouts(this.allocated)
    }${end}`;
  }
}

function whereabouts(stack: string): string {
  if (stack === "") return "a place that was not noted";
  return userFrames(stack).slice(0, 3).map(placeOf).join(" < ") || "an unknown place";
}

/** Options of a GuardPool. */
export interface GuardPoolOptions {
  /**
   * The most bytes of released blocks to keep back, so that late writes are noticed. Default: 64
   * MiB.
   */
  readonly quarantineBytes?: number;
  /**
   * True to note who allocates and who releases, for the messages. Deno maps every frame back to
   * its TypeScript, which costs 0.1 to 0.7 milliseconds a block. Default: true.
   */
  readonly stacks?: boolean;
}

const rules: Rules<GuardPoolOptions> = { quarantineBytes: takes.byteLimit, stacks: takes.bool };

/**
 * For debugging: fills what is lent with bytes of 0x5a, so that what is never written to is seen in
 * results (a float32 of 1.5e16, an int32 of 1515870810); fills what is released with NaN, keeps it
 * back for a while and checks that it is not written to, and puts guard words behind each
 * block that must be intact at its release. A second release and a use after release name the lines
 * that allocated and released the block.
 *
 * It waits for the device at every release: programs run much slower.
 *
 * @example
 * ```ts
 * import { GuardPool, HostPool, MemoryCorruptionError } from "@netcl/netcl/memory";
 * import { assertThrows } from "@std/assert";
 *
 * const pool = GuardPool.forHost(new HostPool());
 * const handle = pool.allocate(100);
 * handle.buffer.bytes[100] = 1; // one too far
 * assertThrows(() => handle.release(), MemoryCorruptionError, "behind its end");
 * ```
 */
export class GuardPool<B = Buffer> extends PoolWrapper<B> {
  readonly #access: GuardAccess<B>;
  readonly #quarantineBytes: number;
  /** True when it notes who allocates and who releases from now on. */
  stacks: boolean;
  #quarantine: GuardedHandle<B>[] = [];
  #quarantined = 0;

  /**
   * Watches over a pool.
   *
   * @param upstream The pool to watch over.
   * @param access How to reach its memory.
   * @param options How much to keep back.
   */
  constructor(upstream: Pool<B>, access: GuardAccess<B>, options: GuardPoolOptions = {}) {
    checkOptions("make a GuardPool", options, rules);
    requireValue("make a GuardPool", "access", access, memoryAccess);
    super(upstream);
    this.#access = access;
    this.#quarantineBytes = options.quarantineBytes ?? 64 * MiB;
    this.stacks = options.stacks ?? true;
  }

  /** Watches over a pool of the host's memory. */
  static forHost(upstream: Pool<HostBuffer>, options?: GuardPoolOptions): GuardPool<HostBuffer> {
    const part = (buffer: HostBuffer, offset: number, nbytes: number) =>
      buffer.bytes.subarray(offset, offset + nbytes);
    return new GuardPool(upstream, {
      fill: (buffer, value, offset, nbytes) => void part(buffer, offset, nbytes).fill(value),
      read: part,
    }, options);
  }

  /** Watches over a pool whose blocks are used on one queue. */
  static forQueue(upstream: Pool, queue: CommandQueue, options?: GuardPoolOptions): GuardPool {
    return new GuardPool(upstream, {
      fill: (buffer, value, offset, nbytes) =>
        queue.fill(buffer, new Uint8Array([value]), { offset, nbytes }).release(),
      read(buffer, offset, nbytes) {
        const bytes = new Uint8Array(nbytes);
        queue.read(buffer, bytes, { offset, blocking: true }).release();
        return bytes;
      },
    }, options);
  }

  /** Lends a block, at the cost of the quarantine where memory is short. */
  override tryAllocate(nbytes: number, options?: AllocateOptions): BufferHandle<B> | Shortage {
    checkByteCount(nbytes, "allocate");
    if (nbytes === 0) return super.tryAllocate(0, options);
    const block = this.upstream.tryAllocate(nbytes + GUARD_BYTES, options);
    if (block instanceof Shortage) {
      return block.with(retryStep("released blocks that are watched", () => this.#endQuarantine()));
    }
    const handle = new GuardedHandle(this, block, nbytes, this.#stack());
    this.#access.fill(handle.buffer, FRESH, 0, nbytes);
    this.#access.fill(handle.buffer, GUARD, nbytes, GUARD_BYTES);
    return handle;
  }

  #stack(): string {
    return this.stacks ? captureStack() : "";
  }

  #endQuarantine(): number {
    const bytes = this.#quarantined;
    this.#shrinkQuarantine(0);
    return bytes;
  }

  /** Takes a block back. */
  override release(handle: BufferHandle<B>): void {
    const own = this.own(handle);
    if (!(own instanceof GuardedHandle)) return own.upstream.release();
    if (own.releasedAt !== null) {
      throw new ReferenceError(`Cannot release again ${own.story()}`);
    }
    const { buffer } = own;
    own.releasedAt = this.#stack();
    this.#quarantine.push(own);
    this.#quarantined += own.bucketSize;
    this.#access.fill(buffer, POISON, 0, own.nbytes);
    this.#checkGuard(own, buffer);
    this.#shrinkQuarantine(this.#quarantineBytes);
  }

  /** Takes back a block whose holder the garbage collector found. */
  override reclaim(handle: BufferHandle<B>): void {
    const own = this.own(handle);
    if (!(own instanceof GuardedHandle) || own.releasedAt === null) {
      this.upstream.reclaim(own.upstream);
    }
  }

  #checkGuard(handle: GuardedHandle<B>, buffer: B): void {
    const at = this.#access.read(buffer, handle.nbytes, GUARD_BYTES).findIndex((b) => b !== GUARD);
    if (at < 0) return;
    throw new MemoryCorruptionError(
      `Somebody wrote ${at + 1} bytes behind its end to ${handle.story()}`,
    );
  }

  /** Gives the oldest blocks back, after a check that they were not written to. */
  #shrinkQuarantine(most: number): void {
    while (this.#quarantined > most) {
      const handle = this.#quarantine.shift()!;
      this.#quarantined -= handle.bucketSize;
      const { buffer } = handle.upstream;
      const at = this.#access.read(buffer, 0, handle.nbytes).findIndex((b) => b !== POISON);
      handle.upstream.release();
      if (at < 0) continue;
      throw new MemoryCorruptionError(
        `Somebody wrote to byte ${at} after the release of ${handle.story()}`,
      );
    }
  }

  /** Gives cached memory back to the driver, largest pieces first, until `bytes` (default: all). */
  override trim(bytes?: number): number {
    this.#shrinkQuarantine(0);
    return super.trim(bytes);
  }

  /** Gives all cached memory back to the driver. */
  override clear(): void {
    this.#shrinkQuarantine(0);
    super.clear();
  }

  /** Ends the pool: every block becomes `destroyed`. */
  override destroy(): void {
    this.#shrinkQuarantine(0);
    super.destroy();
  }
}
