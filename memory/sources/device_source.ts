import {
  Buffer,
  type CommandQueue,
  type Context,
  MemFlags,
  OpenCLError,
  Status,
} from "../../ffi/mod.ts";
import { awaitDeferred } from "../../ffi/events/context_work.ts";
import { formatBytes } from "../core/bytes.ts";
import { type MemorySource, NoMemoryError } from "./source.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import { kindOf, requireObject } from "../../ffi/objects/object.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options of device memory. */
export interface DeviceSourceOptions {
  /** `cl_mem_flags` of requests that name none. Default: READ_WRITE. */
  readonly flags?: bigint;
  /** The queue that uses the memory where a request names none. */
  readonly defaultQueue?: CommandQueue;
  /**
   * True to commit new memory on that queue. OpenCL promises memory lazily: clCreateBuffer
   * succeeds and the first command that uses the buffer fails. Committed, it fails here, where
   * something can be done about it. Default: false.
   */
  readonly commit?: boolean;
}

const rules: Rules<DeviceSourceOptions> = {
  flags: takes.flags,
  defaultQueue: takes.object("the queue that uses the memory"),
  commit: takes.bool,
};

/** Memory objects of an OpenCL context. */
export class DeviceSource implements MemorySource<Buffer> {
  /** The devices' names. */
  readonly name: string;
  /** The alignment of sub-buffers, in bytes. */
  readonly alignment: number;
  /** Not on GPUs: NVIDIA's driver crashes over it, and other GPUs were not tested. */
  readonly subBuffersMayOverlap: boolean;
  /** The most bytes that one buffer may have. */
  readonly maxAllocationBytes: number;
  /** OpenCL has no buffer of zero bytes. */
  readonly empty = null;
  readonly #context: Context;
  readonly #flags: bigint;
  /** The queue that uses the memory where a request names none. */
  declare readonly defaultQueue?: CommandQueue;
  readonly #commit: CommandQueue | null;

  /**
   * Asks the context's devices what they allow.
   *
   * @param context The context that the memory belongs to.
   * @param options Flags, and whether to commit memory.
   */
  constructor(context: Context, options: DeviceSourceOptions = {}) {
    checkOptions("make a DeviceSource", options, rules);
    requireObject("make a DeviceSource", context, "Context");
    const { devices } = context;
    this.#context = context;
    this.#flags = options.flags ?? MemFlags.READ_WRITE;
    if (options.defaultQueue !== undefined) this.defaultQueue = options.defaultQueue;
    this.#commit = options.commit ? options.defaultQueue ?? null : null;
    this.name = devices.map((device) => device.name).join(" and ");
    // In bits. A sub-buffer must suit every device of the context.
    this.alignment = Math.max(...devices.map((device) => device.memBaseAddrAlign / 8));
    this.subBuffersMayOverlap = devices.every((device) => device.type === "cpu");
    this.maxAllocationBytes = Math.min(...devices.map((device) => device.maxMemAllocSize));
  }

  /** Makes a buffer, and commits it where that was asked for. */
  create(nbytes: number, flags: bigint | undefined): Buffer {
    try {
      return this.#create(nbytes, flags);
    } catch (error) {
      if (!isShortage(error) || !awaitDeferred(this.#context.unsafeHandle)) {
        throw asMemoryError(error, this.name, nbytes);
      }
    }
    // Some had been given back that the device still used.
    try {
      return this.#create(nbytes, flags);
    } catch (error) {
      throw asMemoryError(error, this.name, nbytes);
    }
  }

  #create(nbytes: number, flags: bigint | undefined): Buffer {
    const buffer = new Buffer(this.#context, nbytes, { flags: flags ?? this.#flags });
    try {
      this.#commit?.migrate([buffer], { contentUndefined: true }).release();
      return buffer;
    } catch (error) {
      buffer.release();
      throw error;
    }
  }

  /** Makes a sub-buffer. */
  createSubBuffer(parent: Buffer, offset: number, nbytes: number): Buffer {
    return parent.subBuffer(offset, nbytes);
  }

  /** Releases the buffer; the driver keeps its memory until the commands that use it are done. */
  destroy(buffer: Buffer): void {
    buffer.release();
  }
}

/**
 * True for an error that says that memory is short. Its code differs by driver and moment. CL_INVALID_BUFFER_SIZE
 * stands for more than the driver makes in one piece just now: sizes above `maxAllocationBytes` come no further
 * than the pool.
 */
function isShortage(error: unknown): boolean {
  return error instanceof OpenCLError &&
    (error.outOfMemory || error.code === Status.CL_INVALID_BUFFER_SIZE);
}

/** The error that a source throws: what says that memory is short becomes a `NoMemoryError`. */
export function asMemoryError(error: unknown, name: string, nbytes: number): unknown {
  if (!isShortage(error)) return error;
  return new NoMemoryError(`${name} has no ${formatBytes(nbytes)}`, { cause: error });
}

/** The source that a pool means: itself, or device memory for a queue or a context. */
export function sourceOf<B>(from: CommandQueue | Context | MemorySource<B>): MemorySource<B> {
  if (typeof from === "object" && from !== null && "create" in from) return from;
  if (kindOf(from) !== "CommandQueue") requireObject("make a pool", from, "Context");
  const source = "device" in from ? queueSource(from) : new DeviceSource(from);
  // A pool that is made from a queue or a context is one of buffers: B is Buffer there.
  return source as MemorySource<unknown> as MemorySource<B>;
}

/** The memory that suits a queue's device best. */
function queueSource(queue: CommandQueue): DeviceSource {
  const sharesHostMemory = queue.device.hostUnifiedMemory;
  return new DeviceSource(queue.context, {
    // The host's memory is mapped without a copy.
    flags: MemFlags.READ_WRITE | (sharesHostMemory ? MemFlags.ALLOC_HOST_PTR : 0n),
    defaultQueue: queue,
    // Where memory is the host's, a shortage shows in swapping and not here.
    commit: !sharesHostMemory,
  });
}
