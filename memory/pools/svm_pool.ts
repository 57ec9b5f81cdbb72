import {
  Buffer,
  type CommandQueue,
  MemFlags,
  OpenCLUnavailableError,
  SvmBuffer,
} from "../../ffi/mod.ts";
import { asMemoryError, DeviceSource } from "../sources/device_source.ts";
import { detachableView } from "../sources/host_view.ts";
import type { AllocateOptions, BufferHandle } from "../core/pool.ts";
import { SlabPool, type SlabPoolOptions, slabRules } from "./slab_pool.ts";
import type { MemorySource } from "../sources/source.ts";
import { checkOptions } from "../../ffi/host/options.ts";
import { requireObject } from "../../ffi/objects/object.ts";

/** A block that host and device see at the same address. */
export interface SvmHandle extends BufferHandle<Buffer> {
  /**
   * The memory itself, `nbytes` of it; no copy and no mapping. Wait for the work that uses the
   * block before touching it. Detached at the release.
   */
  readonly view: Uint8Array<ArrayBuffer>;
}

/** Shared memory, with a buffer object over it so that every kernel and command takes it. */
class SvmSource implements MemorySource<Buffer> {
  readonly name: string;
  readonly alignment: number;
  readonly maxAllocationBytes: number;
  readonly subBuffersMayOverlap: boolean;
  readonly empty = null;
  readonly #memory = new Map<Buffer, SvmBuffer>();

  constructor(readonly defaultQueue: CommandQueue) {
    const { name, alignment, maxAllocationBytes, subBuffersMayOverlap } = new DeviceSource(
      defaultQueue.context,
    );
    this.name = `shared memory of ${name}`;
    this.alignment = alignment;
    this.subBuffersMayOverlap = subBuffersMayOverlap;
    this.maxAllocationBytes = maxAllocationBytes;
  }

  create(nbytes: number, flags = MemFlags.READ_WRITE): Buffer {
    const { context } = this.defaultQueue;
    let memory: SvmBuffer | undefined;
    try {
      memory = new SvmBuffer(context, nbytes, { fineGrain: true });
      const options = { flags: flags | MemFlags.USE_HOST_PTR, data: memory.bytes };
      const buffer = new Buffer(context, nbytes, options);
      this.#memory.set(buffer, memory);
      return buffer;
    } catch (error) {
      memory?.release();
      throw asMemoryError(error, this.name, nbytes);
    }
  }

  createSubBuffer(parent: Buffer, offset: number, nbytes: number): Buffer {
    return parent.subBuffer(offset, nbytes);
  }

  view(buffer: Buffer, nbytes: number): Uint8Array<ArrayBuffer> {
    const memory = this.#memory.get(buffer.parent ?? buffer)!;
    return detachableView(memory.bytes, buffer.offset, nbytes, memory);
  }

  destroy(buffer: Buffer): void {
    buffer.release();
    const memory = this.#memory.get(buffer);
    if (memory === undefined) return;
    this.#memory.delete(buffer);
    // Freed when the context's queues are done with their commands so far.
    memory.release();
  }
}

/**
 * Fine-grained shared virtual memory: the host reads and writes a block through `handle.view`,
 * kernels through `handle.buffer`, and nothing is copied or mapped.
 */
export class SvmPool extends SlabPool<Buffer> {
  /**
   * Begins with no memory.
   *
   * @param queue The queue whose context and device the memory is for.
   * @param options Sizes and limits.
   * @throws {OpenCLUnavailableError} When the device or the library offers no fine-grained shared memory.
   */
  constructor(queue: CommandQueue, options: SlabPoolOptions = {}) {
    checkOptions("make an SvmPool", options, slabRules);
    if (!SvmPool.isAvailable(queue)) {
      throw new OpenCLUnavailableError(
        `Cannot make an SvmPool: ${queue.device.name} has no fine-grained shared virtual memory, or ` +
          "the OpenCL library is too old for it. Use a SlabPool",
      );
    }
    super(new SvmSource(queue), options);
  }

  /** True when the queue's device and the OpenCL library offer fine-grained shared memory. */
  static isAvailable(queue: CommandQueue): boolean {
    requireObject("look for shared memory", queue, "CommandQueue");
    return SvmBuffer.isAvailable(queue.device, { fineGrain: true });
  }

  /** Lends a block; see {@linkcode Pool.allocate}. */
  override allocate(nbytes: number, options?: AllocateOptions): SvmHandle {
    return super.allocate(nbytes, options) as SvmHandle;
  }
}
