/**
 * A device's handles in a worker that they are shared with. Every call asks first whether the owner has
 * taken them back.
 */
import { host } from "../../ffi/runtime/host.ts";
import {
  ArgAddressQualifier,
  check,
  DisposedError,
  type Handle,
  KernelArgInfo,
  type OpenCLSymbols,
  openLibrary,
} from "../../ffi/mod.ts";
import { checkDimensions } from "../../ffi/queue/launch.ts";
import { checkRange, toSize } from "../../ffi/host/size.ts";
import {
  CALLS,
  type HandleSnapshot,
  mapValues,
  type MemorySnapshot,
  REVOKED,
} from "./shared_handles.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** A buffer that another thread owns. */
export interface SharedBuffer {
  /** Its size in bytes. */
  readonly nbytes: number;
  /** Its cl_mem. */
  readonly unsafeHandle: Handle<"Mem">;
}

/** An argument: a buffer, local memory in bytes, or the bytes of a scalar, vector or struct. */
export type SharedArg = SharedBuffer | { readonly local: number } | ArrayBufferView;

/** Handles of a worker. */
export interface SharedHandles {
  /** The device's name. */
  readonly deviceName: string;
  /** Its compute queue. */
  readonly queue: SharedQueue;
  /** The buffers, by the names that they were shared under. */
  readonly buffers: Readonly<Record<string, SharedBuffer>>;
  /** The kernels, by the names that they were shared under. */
  readonly kernels: Readonly<Record<string, Handle<"Kernel">>>;
  /** The host memory, by the name that it was shared under: the same bytes as in the owner. */
  readonly memory: Readonly<Record<string, Uint8Array<ArrayBuffer>>>;
}

/**
 * Attaches a worker to the handles of a snapshot. Nothing becomes the worker's own, so there is
 * nothing to release.
 *
 * @param snapshot What {@linkcode snapshotHandles} returned in another thread of this process.
 * @throws {TypeError} For a snapshot of another process.
 * @throws {DisposedError} When the handles were revoked or the device was closed meanwhile.
 */
export function attach(snapshot: HandleSnapshot): SharedHandles {
  const rule = takes.object("what snapshotHandles() returned");
  requireValue("attach to handles", "snapshot", snapshot, rule);
  if (snapshot.pid !== host.pid) {
    throw new TypeError(
      `Cannot attach to handles of process ${snapshot.pid} in process ${host.pid}: ` +
        "they hold in the process that made them",
    );
  }
  const queue = new SharedQueue(snapshot);
  return {
    deviceName: snapshot.deviceName,
    queue,
    buffers: mapValues(snapshot.buffers, ({ handle, nbytes }) => ({
      nbytes,
      unsafeHandle: handle as Handle<"Mem">,
    })),
    kernels: mapValues(snapshot.kernels, (handle) => handle as Handle<"Kernel">),
    memory: mapValues(snapshot.memory, viewOf),
  };
}

function viewOf({ address, nbytes }: MemorySnapshot): Uint8Array<ArrayBuffer> {
  if (address === 0n) throw new TypeError("Cannot view memory at address 0");
  return new Uint8Array(host.memoryAt(address, nbytes));
}

interface SharedLaunch {
  readonly global: readonly number[];
  readonly local?: readonly number[];
  readonly args: readonly SharedArg[];
}

const launchRules: Rules<SharedLaunch> = {
  global: takes.wholeNumbers,
  local: takes.wholeNumbers,
  args: takes.list,
};

/**
 * The queue of another thread. Commands of all threads run in the order in which they are enqueued.
 * Copies and `finish` block the worker.
 */
export class SharedQueue {
  readonly #queue: Handle<"CommandQueue">;
  readonly #state: Int32Array<SharedArrayBuffer>;

  /** Made by {@linkcode attach}. */
  constructor(snapshot: HandleSnapshot) {
    this.#queue = snapshot.queue as Handle<"CommandQueue">;
    this.#state = new Int32Array(snapshot.state);
    this.#call(() => {}); // refuses what is revoked
  }

  /**
   * Launches a kernel.
   *
   * @param kernel A kernel that no other thread uses.
   * @param options Work-items and arguments.
   * @throws {OpenCLError} When an argument or a size does not fit.
   * @throws {RangeError} When the sizes differ in their dimensions.
   * @throws {TypeError} When bytes are passed where the kernel declares memory.
   * @throws {DisposedError} When the handles were revoked or the device was closed.
   */
  run(
    kernel: Handle<"Kernel">,
    options: {
      readonly global: readonly number[];
      readonly local?: readonly number[];
      readonly args: readonly SharedArg[];
    },
  ): void {
    checkOptions<SharedLaunch>("launch a kernel", options, launchRules, ["global", "args"]);
    const { global, local, args } = options;
    checkDimensions("a shared kernel", global, local);
    const queue = this.#queue;
    this.#call((cl) => {
      args.forEach((value, index) => setArg(kernel, index, value));
      const work = sizes(global), group = local ? sizes(local) : null;
      const dimensions = global.length;
      check(
        cl.clEnqueueNDRangeKernel(queue, kernel, dimensions, null, work, group, 0, null, null),
        "clEnqueueNDRangeKernel",
        `work sizes [${global}]`,
      );
      check(cl.clFlush(queue), "clFlush");
    });
  }

  /**
   * Copies an array into a buffer, from byte `offset` (default 0) on, and returns when it is done.
   *
   * @throws {RangeError} When the bytes do not lie within the buffer.
   */
  write(buffer: SharedBuffer, data: ArrayBufferView, offset = 0): void {
    this.#copy("clEnqueueWriteBuffer", buffer, data, offset);
  }

  /**
   * Copies a buffer, from byte `offset` (default 0) on, into an array, as many bytes as it has, and
   * returns when it is done.
   *
   * @throws {RangeError} When the bytes do not lie within the buffer.
   */
  read(buffer: SharedBuffer, into: ArrayBufferView, offset = 0): void {
    this.#copy("clEnqueueReadBuffer", buffer, into, offset);
  }

  #copy(
    call: "clEnqueueWriteBuffer" | "clEnqueueReadBuffer",
    buffer: SharedBuffer,
    data: ArrayBufferView,
    offset: number,
  ): void {
    checkRange(offset, data.byteLength, buffer.nbytes, "a shared buffer");
    const size = BigInt(data.byteLength), start = BigInt(offset);
    this.#call((cl) =>
      check(
        cl[call](this.#queue, buffer.unsafeHandle, 1, start, size, data, 0, null, null),
        call,
        `${size} bytes at ${offset} of a buffer of ${buffer.nbytes}`,
      )
    );
  }

  /** Waits for everything that any thread enqueued so far. */
  finish(): void {
    this.#call((cl) => check(cl.clFinish(this.#queue), "clFinish"));
  }

  /** The owner takes the handles back only between two calls. */
  #call(action: (cl: OpenCLSymbols) => void): void {
    Atomics.add(this.#state, CALLS, 1);
    try {
      if (Atomics.load(this.#state, REVOKED)) {
        throw new DisposedError("Cannot use the device: the thread that owns it took it back");
      }
      action(openLibrary());
    } finally {
      Atomics.sub(this.#state, CALLS, 1);
      Atomics.notify(this.#state, CALLS);
    }
  }
}

const handleOut = new BigUint64Array(1);

function setArg(kernel: Handle<"Kernel">, index: number, value: SharedArg): void {
  const { clSetKernelArg } = openLibrary();
  // Eight bytes may be taken for a handle, which the driver would follow.
  if (ArrayBuffer.isView(value) && value.byteLength === 8) requireByValue(kernel, index);
  check(
    ArrayBuffer.isView(value)
      ? clSetKernelArg(kernel, index, BigInt(value.byteLength), value)
      : "local" in value
      ? clSetKernelArg(kernel, index, BigInt(value.local), null)
      : clSetKernelArg(kernel, index, 8n, scratchHandle(value)),
    "clSetKernelArg",
    `argument ${index}`,
  );
}

const addressSpaceOut = new Uint32Array(1);

/** Refuses an argument that is memory, where the driver tells. */
function requireByValue(kernel: Handle<"Kernel">, index: number): void {
  const { clGetKernelArgInfo } = openLibrary();
  const parameter = KernelArgInfo.ADDRESS_QUALIFIER;
  const status = clGetKernelArgInfo(kernel, index, parameter, 4n, addressSpaceOut, null);
  if (status < 0 || addressSpaceOut[0] === ArgAddressQualifier.PRIVATE) return;
  throw new TypeError(`Cannot set argument ${index} to bytes: the kernel declares memory there`);
}

function scratchHandle({ unsafeHandle }: SharedBuffer): BigUint64Array {
  handleOut[0] = unsafeHandle;
  return handleOut;
}

function sizes(values: readonly number[]): BigUint64Array {
  return BigUint64Array.from(values, (value) => toSize(value, "a work size"));
}
