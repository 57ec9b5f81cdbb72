/**
 * Devices shared with workers. The threads of a process share its OpenCL objects, so a worker gets
 * their handles and may enqueue and copy; what owns them stays the thread that made them, so that
 * a worker which is terminated leaks nothing.
 */
import {
  type Buffer,
  check,
  type Context,
  DisposedError,
  type Handle,
  type Kernel,
  type OpenCLSymbols,
  openLibrary,
} from "../ffi/mod.ts";
import type { DeviceHandle } from "./device_handle.ts";

/** What is lent to a worker, beside the device's context and queue. */
export interface Loan {
  /** Buffers by name, or what holds one. */
  readonly buffers?: Readonly<Record<string, Buffer | { readonly buffer: Buffer }>>;
  /** Kernels by name; each worker needs one of its own, since arguments are set on the kernel. */
  readonly kernels?: Readonly<Record<string, Kernel>>;
  /** Host memory by name, such as the `view` of a pinned block: the worker sees the same bytes. */
  readonly memory?: Readonly<Record<string, Uint8Array<ArrayBuffer>>>;
}

/** A buffer in a snapshot. */
export interface BufferSnapshot {
  /** Its cl_mem. */
  readonly handle: bigint;
  /** Its size in bytes. */
  readonly nbytes: number;
}

/** Host memory in a snapshot. */
export interface MemorySnapshot {
  /** Where it begins. */
  readonly address: bigint;
  /** Its size in bytes. */
  readonly nbytes: number;
}

/** What {@linkcode snapshotHandles} returns: plain data for `postMessage`. */
export interface HandleSnapshot {
  /** The process whose handles these are. */
  readonly pid: number;
  /** The device, as its handle names it. */
  readonly deviceName: string;
  /** Its cl_context. */
  readonly context: bigint;
  /** Its in-order compute queue. */
  readonly queue: bigint;
  /** Whether the handles may still be used, and how many calls use them now. */
  readonly state: SharedArrayBuffer;
  /** The buffers that were lent. */
  readonly buffers: Readonly<Record<string, BufferSnapshot>>;
  /** The kernels that were lent. */
  readonly kernels: Readonly<Record<string, bigint>>;
  /** The host memory that was lent. */
  readonly memory: Readonly<Record<string, MemorySnapshot>>;
}

/** Fields of the state that owner and workers share. */
const REVOKED = 0, CALLS = 1;
/** A call takes microseconds, unless it waits for the device. */
const REVOKE_TIMEOUT_MS = 10_000;

/** What is lent, by the context that it belongs to. */
const loans = new WeakMap<Context, Set<SharedArrayBuffer>>();

/**
 * Describes the live handles of a device, so that a worker can {@linkcode attach} to them. Release
 * nothing of it before {@linkcode revokeHandles}; closing the device revokes them as well.
 *
 * @param device An OpenCL device.
 * @param loan What the worker gets beside context and queue.
 * @returns Plain data for `postMessage`.
 * @throws {TypeError} For the built-in backend, which has no handles.
 *
 * @example Lending a buffer to a worker
 * ```ts ignore
 * import { manager, snapshotHandles } from "@netcl/netcl/backend";
 * import { Buffer } from "@netcl/netcl/ffi";
 *
 * const device = manager.default("cl");
 * const x = new Buffer(device.context!, 1024);
 * const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
 * worker.postMessage(snapshotHandles(device, { buffers: { x } }));
 * // worker.ts: onmessage = ({ data }) => { const { queue, buffers } = attach(data); ... }
 * ```
 */
export function snapshotHandles(device: DeviceHandle, loan: Loan = {}): HandleSnapshot {
  const { context, queue } = device;
  if (context === null || queue === null) {
    throw new TypeError(`Cannot share ${device} with a worker: it has no OpenCL handles`);
  }
  return {
    pid: Deno.pid,
    deviceName: device.deviceName,
    context: context.unsafeHandle,
    queue: queue.unsafeHandle,
    state: newState(context),
    buffers: mapValues(loan.buffers, (lent) => {
      const buffer = "buffer" in lent ? lent.buffer : lent;
      return { handle: buffer.unsafeHandle, nbytes: buffer.nbytes };
    }),
    kernels: mapValues(loan.kernels, (kernel) => kernel.unsafeHandle),
    memory: mapValues(loan.memory, (view) => ({
      address: Deno.UnsafePointer.value(Deno.UnsafePointer.of(view)),
      nbytes: view.byteLength,
    })),
  };
}

/**
 * Ends what a snapshot lent: when this returns, no worker uses its handles, and every further call
 * on them throws there. To be called before what was lent is released, and before
 * `worker.terminate()`: a worker runs on for a moment after that.
 *
 * @param snapshot What {@linkcode snapshotHandles} returned.
 * @throws {Error} When a worker's call does not return within 10 seconds.
 */
export function revokeHandles(snapshot: HandleSnapshot): void {
  revoke(snapshot.state);
}

/** Ends everything that was lent of a context, which is about to be released. */
export function revokeAll(context: Context): void {
  for (const state of loans.get(context) ?? []) revoke(state);
  loans.delete(context);
}

function newState(context: Context): SharedArrayBuffer {
  const states = loans.get(context) ?? new Set();
  for (const state of states) if (new Int32Array(state)[REVOKED]) states.delete(state);
  const state = new SharedArrayBuffer(8);
  loans.set(context, states.add(state));
  return state;
}

function revoke(buffer: SharedArrayBuffer): void {
  const state = new Int32Array(buffer);
  Atomics.store(state, REVOKED, 1);
  const deadline = performance.now() + REVOKE_TIMEOUT_MS;
  for (let calls; (calls = Atomics.load(state, CALLS)) > 0;) {
    if (performance.now() > deadline) {
      throw new Error(
        "Cannot take handles back from a worker: its call has not returned for " +
          `${REVOKE_TIMEOUT_MS / 1000} s, or it was terminated before revokeHandles()`,
      );
    }
    Atomics.wait(state, CALLS, calls, 100);
  }
}

/** A buffer that another thread owns. */
export interface LentBuffer {
  /** Its size in bytes. */
  readonly nbytes: number;
  /** Its cl_mem. */
  readonly unsafeHandle: Handle<"Mem">;
}

/** An argument: a buffer, local memory in bytes, or the bytes of a scalar, vector or struct. */
export type LentArg = LentBuffer | { readonly local: number } | ArrayBufferView;

/** What a worker works with. */
export interface LentHandles {
  /** The device's name. */
  readonly deviceName: string;
  /** Its compute queue. */
  readonly queue: LentQueue;
  /** The buffers, by the names that they were lent under. */
  readonly buffers: Readonly<Record<string, LentBuffer>>;
  /** The kernels, by the names that they were lent under. */
  readonly kernels: Readonly<Record<string, Handle<"Kernel">>>;
  /** The host memory, by the names that it was lent under: the same bytes as in the owner. */
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
export function attach(snapshot: HandleSnapshot): LentHandles {
  if (snapshot.pid !== Deno.pid) {
    throw new TypeError(
      `Cannot attach to handles of process ${snapshot.pid} in process ${Deno.pid}: ` +
        "they hold in the process that made them",
    );
  }
  const queue = new LentQueue(snapshot);
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
  const pointer = Deno.UnsafePointer.create(address);
  if (pointer === null) throw new TypeError("Cannot view memory at address 0");
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, nbytes));
}

function mapValues<T, R>(
  record: Readonly<Record<string, T>> | undefined,
  fn: (value: T) => R,
): Record<string, R> {
  return Object.fromEntries(
    Object.entries(record ?? {}).map(([name, value]) => [name, fn(value)]),
  );
}

/**
 * The queue of another thread. Commands of all threads run in the order in which they are enqueued.
 * Copies and `finish` block the worker.
 */
export class LentQueue {
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
   * @throws {DisposedError} When the handles were revoked or the device was closed.
   */
  run(
    kernel: Handle<"Kernel">,
    options: {
      readonly global: readonly number[];
      readonly local?: readonly number[];
      readonly args: readonly LentArg[];
    },
  ): void {
    const { global, local, args } = options;
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

  /** Copies an array into a buffer, and returns when it is done. */
  write(buffer: LentBuffer, data: ArrayBufferView, offset = 0): void {
    const { unsafeHandle } = buffer;
    const size = BigInt(data.byteLength), start = BigInt(offset);
    this.#call((cl) =>
      check(
        cl.clEnqueueWriteBuffer(this.#queue, unsafeHandle, 1, start, size, data, 0, null, null),
        "clEnqueueWriteBuffer",
        `${size} bytes at ${offset} of a buffer of ${buffer.nbytes}`,
      )
    );
  }

  /** Copies a buffer into an array, as many bytes as it has, and returns when it is done. */
  read(buffer: LentBuffer, into: ArrayBufferView, offset = 0): void {
    const { unsafeHandle } = buffer;
    const size = BigInt(into.byteLength), start = BigInt(offset);
    this.#call((cl) =>
      check(
        cl.clEnqueueReadBuffer(this.#queue, unsafeHandle, 1, start, size, into, 0, null, null),
        "clEnqueueReadBuffer",
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

function setArg(kernel: Handle<"Kernel">, index: number, value: LentArg): void {
  const { clSetKernelArg } = openLibrary();
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

function scratchHandle({ unsafeHandle }: LentBuffer): BigUint64Array {
  handleOut[0] = unsafeHandle;
  return handleOut;
}

function sizes(values: readonly number[]): BigUint64Array {
  return BigUint64Array.from(values, BigInt);
}
