import type { Buffer } from "../../ffi/mod.ts";
import type { DeviceMemory } from "./device_memory.ts";
import type { BufferHandle } from "../core/pool.ts";
import { transfer } from "./transfer.ts";

/**
 * Copies the bytes of one storage into another, which has the same size and may be another
 * device's. When it returns, work that is enqueued on the target's device may rely on the content.
 */
// deno-lint-ignore no-explicit-any -- the two ends may be of different kinds of memory
export type Transport = (source: Storage<any>, target: Storage<any>) => void;

/** The storages, one a device, that hold the same content. */
// deno-lint-ignore no-explicit-any -- devices of different kinds may hold the same content
type Replicas = Set<Storage<any>>;

/**
 * A reference-counted block of bytes on one device: what tensors and their views share.
 *
 * Copies of it on other devices are its replicas. They are made once and shared until either side
 * is written (one writer, many readers): moving an unchanged tensor back and forth copies nothing
 * the second time. Each replica lives as long as its own references.
 *
 * @example
 * ```ts
 * import { DeviceMemory, HostPool, Storage } from "@netcl/netcl/memory";
 * import { assertEquals } from "@std/assert";
 *
 * const memory = new DeviceMemory(new HostPool(), { name: "cpu" });
 * const storage = new Storage(memory, memory.allocate(4096));
 * const view = storage.retain();
 * storage.release();
 * assertEquals(view.disposed, false);
 * view.release();
 * assertEquals(memory.stats.currentAllocated, 0);
 * ```
 */
export class Storage<B = Buffer> {
  /** The memory that it lies in. */
  readonly memory: DeviceMemory<B>;
  /** Its bytes. */
  readonly nbytes: number;
  readonly #handle: BufferHandle<B>;
  #references = 1;
  #version = 0;
  #replicas: Replicas | null = null;

  /**
   * Takes the block over, with one reference for the caller.
   *
   * @param memory The device's memory that `handle` is from.
   * @param handle The block; the storage releases it with its last reference.
   */
  constructor(memory: DeviceMemory<B>, handle: BufferHandle<B>) {
    this.memory = memory;
    this.#handle = handle;
    this.nbytes = handle.nbytes;
  }

  /**
   * The block.
   *
   * @throws {ReferenceError} After the last reference is gone.
   */
  get handle(): BufferHandle<B> {
    this.#checkAlive("use");
    return this.#handle;
  }

  /** The number of holders. */
  get references(): number {
    return this.#references;
  }

  /** True once the last reference is gone. */
  get disposed(): boolean {
    return this.#references === 0;
  }

  /** Counts the writes to it; what was computed from an older version is out of date. */
  get version(): number {
    return this.#version;
  }

  /**
   * Adds a reference.
   *
   * @throws {ReferenceError} After the last one is gone.
   */
  retain(): this {
    this.#checkAlive("retain");
    this.#references++;
    return this;
  }

  /**
   * Gives a reference back; with the last one, the block returns to its pool.
   *
   * @throws {ReferenceError} When there is none left to give back.
   */
  release(): void {
    this.#checkAlive("release");
    if (--this.#references > 0) return;
    this.#leaveReplicas();
    this.#handle.release();
  }

  /**
   * Takes the block out, which is the caller's from now on; nobody has the storage any more.
   *
   * @throws {ReferenceError} When others than the caller hold it.
   */
  take(): BufferHandle<B> {
    this.#checkAlive("take");
    if (this.#references > 1) {
      throw new ReferenceError(`Cannot take the block of a storage that ${this.#references} hold`);
    }
    this.#references = 0;
    this.#leaveReplicas();
    return this.#handle;
  }

  /** Gives back the reference of a holder that the garbage collector found; counted as a leak. */
  reclaim(): void {
    this.#checkAlive("reclaim");
    if (--this.#references > 0) return;
    this.#leaveReplicas();
    this.memory.reclaim(this.#handle);
  }

  /** Says that the content changed: replicas elsewhere hold something else from now on. */
  markWritten(): void {
    this.#checkAlive("write");
    this.#version++;
    this.#leaveReplicas();
  }

  /**
   * The content in another device's memory, with a reference for the caller. A replica that is
   * there already is shared; else one is made. (A copy back to where the content came from is
   * shared too.)
   *
   * @param memory Where the content is needed; its own memory gives the storage itself.
   * @param transport How to copy, where a copy is needed. Default: {@linkcode transfer}.
   * @throws {OutOfMemoryError} When there is no memory for the copy.
   */
  copyOn<C>(memory: DeviceMemory<C>, transport: Transport = transfer): Storage<C> {
    this.#checkAlive("copy");
    const present = this.replicaOn(memory);
    if (present !== null) return present.retain();
    const target = new Storage(memory, memory.allocate(this.nbytes, { label: "replica" }));
    try {
      if (this.nbytes > 0) transport(this, target);
    } catch (error) {
      target.release();
      throw error;
    }
    this.#replicas ??= new Set([this]);
    this.#replicas.add(target);
    target.#replicas = this.#replicas;
    return target;
  }

  /** The storage in `memory` that holds the same content, `null` where there is none. */
  replicaOn<C>(memory: DeviceMemory<C>): Storage<C> | null {
    if (memory as unknown === this.memory) return this as unknown as Storage<C>;
    for (const replica of this.#replicas ?? []) {
      if (replica.memory === memory) return replica as Storage<C>;
    }
    return null;
  }

  #leaveReplicas(): void {
    this.#replicas?.delete(this);
    this.#replicas = null;
  }

  #checkAlive(action: string): void {
    if (this.#references === 0) {
      throw new ReferenceError(`Cannot ${action} a storage whose last reference is gone`);
    }
  }
}
