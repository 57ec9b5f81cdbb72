/**
 * Buffers and parts of them.
 *
 * This folder (`memory/`) has the memory objects: buffers, images, samplers, shared virtual memory,
 * mapped regions, and boxes of bytes. It imports `events/`, `objects/`, `library/`, `symbols/` and
 * `host/`.
 * Bytes come from arrays and go to them through a queue, which is passed to each method.
 *
 * @module
 */
import { BufferCreateType, MemFlags, MemInfo } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { addUser, whenIdle } from "../events/context_work.ts";
import { check } from "../library/errors.ts";
import { readers } from "../library/info.ts";
import { cl } from "../library/library.ts";
import { OpenCLObject, type Releaser, releasers, requireObject } from "../objects/object.ts";
import { checkRange, toSize } from "../host/size.ts";
import type { Handle } from "../symbols/types.ts";
import { transferable } from "../events/transfers.ts";
import * as takes from "../host/option_rules.ts";
import { checkOptions, type Rules } from "../host/options.ts";

/** Options of a new buffer. */
export interface BufferOptions {
  /** A combination of {@linkcode MemFlags}; by default kernels may read and write it. */
  readonly flags?: bigint;
  /**
   * The first bytes of it, copied by the driver. With `MemFlags.USE_HOST_PTR` the array itself
   * becomes the buffer's memory and is kept alive with it, and until the work is done that was
   * enqueued before its release.
   */
  readonly data?: ArrayBufferView;
  /** Makes a part of that buffer, which shares its memory and keeps it alive. */
  readonly parent?: Buffer;
  /**
   * The offset of the part in bytes: a multiple of the device's `memBaseAddrAlign / 8`; 0 by
   * default.
   */
  readonly offset?: number;
}

/** The array that a buffer is to live in, or its parent lives in. */
let hostMemoryOf: (options: BufferOptions) => ArrayBufferView | null;

const rules: Rules<BufferOptions> = {
  flags: takes.flags,
  data: takes.arrayView,
  parent: takes.object("the buffer that it is a part of"),
  offset: takes.whole,
};

const errorCode = new Int32Array(1);
const region = new BigUint64Array(2);

/**
 * Memory of a device.
 *
 * @example
 * ```ts
 * import { Buffer, Context, platforms } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices()[0]!);
 * using buffer = new Buffer(context, 1024);
 * console.log(buffer.nbytes);
 * ```
 */
export class Buffer extends OpenCLObject<"Mem"> {
  /** The context that it belongs to. */
  readonly context: Context;
  /** Its size in bytes. */
  readonly nbytes: number;
  /** The buffer that this one is a part of, or null. */
  readonly parent: Buffer | null;
  /** The offset in its parent, in bytes. */
  readonly offset: number;
  /** The driver uses it for as long as the buffer and its parts live, and their commands run. */
  readonly #hostMemory: ArrayBufferView | null;

  /**
   * Makes a buffer.
   *
   * @param context The context that it belongs to.
   * @param nbytes Its size in bytes; OpenCL has no buffer of 0 bytes.
   * @throws {OpenCLError} If the size is out of range or the flags contradict each other. Many
   *   drivers find out only at the first use that memory is short.
   */
  constructor(context: Context, nbytes: number, options: BufferOptions = {}) {
    checkOptions("make a Buffer", options, rules);
    requireObject("make a Buffer", context, "Context");
    if (options.parent) requireObject("make a part of a buffer", options.parent, "Buffer");
    const hostMemory = hostMemoryOf(options);
    super("Buffer", createBuffer(context, nbytes, options), releaserFor(context, hostMemory));
    this.context = context;
    this.nbytes = nbytes;
    this.parent = options.parent ?? null;
    this.offset = options.offset ?? 0;
    this.#hostMemory = hostMemory;
  }

  /**
   * A part of this buffer that is used like a buffer. It shares the memory, and keeps it alive.
   *
   * @param offset Where it begins, in bytes: a multiple of the device's `memBaseAddrAlign / 8`.
   * @param nbytes Its size in bytes.
   */
  subBuffer(offset: number, nbytes: number): Buffer {
    return new Buffer(this.context, nbytes, { parent: this, offset });
  }

  /**
   * Keeps the memory, from now on, until the work is done that was enqueued before its release: of kernels that
   * were told its address the driver does not know that they use it.
   */
  keepUntilIdle(): void {
    const handle = this.unsafeHandle, owner = this.context.unsafeHandle;
    if (keptUntilIdle.has(handle)) return;
    keptUntilIdle.set(handle, owner);
    addUser(owner);
  }

  /** The flags that it was made with. */
  get flags(): bigint {
    const handle = this.unsafeHandle;
    return readers.bits(
      (parameter, size, value, out) => cl.clGetMemObjectInfo(handle, parameter, size, value, out),
      MemInfo.FLAGS,
      "clGetMemObjectInfo",
    );
  }

  /** True when it lives in memory of JavaScript. */
  get usesHostMemory(): boolean {
    void this.unsafeHandle;
    return this.#hostMemory !== null;
  }

  static {
    hostMemoryOf = ({ flags = 0n, data, parent }) =>
      parent ? parent.#hostMemory : data && (flags & MemFlags.USE_HOST_PTR) ? data : null;
  }
}

/** The contexts of buffers that are given back when it is idle, by the buffer. */
const keptUntilIdle = new Map<bigint, Handle<"Context">>();

const { call } = releasers.memory;

/** Gives a buffer back: now, as the driver keeps it for the commands that it knows to use it, or when they are done. */
const releaser: Releaser = {
  call,
  run(buffer) {
    const owner = keptUntilIdle.get(buffer);
    if (owner === undefined) return releasers.memory.run(buffer);
    keptUntilIdle.delete(buffer);
    whenIdle(owner, () => check(releasers.memory.run(buffer), call));
    return 0;
  },
};

/** Gives the buffer back; the array stays until the commands are done that may use it. */
function releaserFor(context: Context, hostMemory: ArrayBufferView | null): Releaser {
  if (hostMemory === null) return releaser;
  const owner = context.unsafeHandle;
  addUser(owner);
  return {
    call,
    run(buffer) {
      whenIdle(owner, () => void hostMemory);
      return releaser.run(buffer);
    },
  };
}

function createBuffer(context: Context, nbytes: number, options: BufferOptions): Handle<"Mem"> {
  const size = toSize(nbytes, "a buffer's size in bytes");
  if (options.parent) {
    // NVIDIA's driver makes parts that end beyond the buffer.
    checkRange(options.offset ?? 0, nbytes, options.parent.nbytes, "a buffer");
    return createSubBuffer(options.parent, size, options);
  }
  const handle = cl.clCreateBuffer(
    context.unsafeHandle,
    bufferFlags(options),
    size,
    options.data ? hostBytes(options.data, nbytes) : null,
    errorCode,
  );
  check(errorCode[0]!, "clCreateBuffer", `a buffer of ${nbytes} bytes`);
  return handle;
}

function createSubBuffer(parent: Buffer, size: bigint, options: BufferOptions): Handle<"Mem"> {
  const { offset = 0, flags = 0n } = options;
  region[0] = toSize(offset, "a sub-buffer's offset");
  region[1] = size;
  const type = BufferCreateType.REGION;
  const handle = cl.clCreateSubBuffer(parent.unsafeHandle, flags, type, region, errorCode);
  const part = `${size} bytes from offset ${offset} of a buffer of ${parent.nbytes} bytes`;
  check(errorCode[0]!, "clCreateSubBuffer", part);
  return handle;
}

function bufferFlags({ flags = MemFlags.READ_WRITE, data }: BufferOptions): bigint {
  return data && !(flags & MemFlags.USE_HOST_PTR) ? flags | MemFlags.COPY_HOST_PTR : flags;
}

function hostBytes(data: ArrayBufferView, nbytes: number): Uint8Array {
  if (data.byteLength < nbytes) {
    throw new RangeError(
      `Cannot create a buffer of ${nbytes} bytes from an array of ${data.byteLength} bytes`,
    );
  }
  return transferable(data, "create a buffer from");
}
