/**
 * Devices shared with workers. The threads of a process share its OpenCL objects, so a worker gets
 * their handles and may enqueue and copy; what owns them stays the thread that made them, so that
 * a worker which is terminated leaks nothing.
 *
 * This folder (`sharing/`) has both sides: snapshots of handles here, the worker's use of them in
 * attached_handles.ts. It imports `ffi/` only and knows a device by what it shares. A snapshot goes
 * to the worker as a message; whether it still holds is told by memory that both threads see.
 */
import { host } from "../../ffi/runtime/host.ts";
import type { Buffer, CommandQueue, Context, Kernel } from "../../ffi/mod.ts";
import { checkOptions, requireValue, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options beside the device's context and queue. */
export interface ShareOptions {
  /** Buffers by name, or what holds one. */
  readonly buffers?: Readonly<Record<string, Buffer | { readonly buffer: Buffer }>>;
  /** Kernels by name; each worker needs one of its own, since arguments are set on the kernel. */
  readonly kernels?: Readonly<Record<string, Kernel>>;
  /** Host memory by name, such as the `view` of a pinned block: the worker sees the same bytes. */
  readonly memory?: Readonly<Record<string, Uint8Array<ArrayBuffer>>>;
}

const named = takes.object("an object, by name");
const rules: Rules<ShareOptions> = { buffers: named, kernels: named, memory: named };

/** Shared part of a device; a `DeviceHandle` is one. */
export interface ShareableDevice {
  /** The device, as its handle names it. */
  readonly deviceName: string;
  /** Its context, `null` for the built-in backend. */
  readonly context: Context | null;
  /** Its in-order compute queue, `null` for the built-in backend. */
  readonly queue: CommandQueue | null;
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
  /** Address of its start. */
  readonly address: bigint;
  /** Its size in bytes. */
  readonly nbytes: number;
}

/** Result of {@linkcode snapshotHandles}: plain data for `postMessage`. */
export interface HandleSnapshot {
  /** The process whose handles these are. */
  readonly pid: number;
  /** The device, as its handle names it. */
  readonly deviceName: string;
  /** Its cl_context. */
  readonly context: bigint;
  /** Its in-order compute queue. */
  readonly queue: bigint;
  /** Validity of the handles, and number of calls that use them now. */
  readonly state: SharedArrayBuffer;
  /** The buffers that are shared. */
  readonly buffers: Readonly<Record<string, BufferSnapshot>>;
  /** The kernels that are shared. */
  readonly kernels: Readonly<Record<string, bigint>>;
  /** The host memory that is shared. */
  readonly memory: Readonly<Record<string, MemorySnapshot>>;
}

/** Fields of the state that owner and workers share: whether it is over, and the calls under way. */
export const REVOKED = 0, CALLS = 1;
/** A call takes microseconds, unless it waits for the device. */
const REVOKE_TIMEOUT_MS = 10_000;

/** The states of what is shared, by the context that it belongs to. */
const shared = new WeakMap<Context, Set<SharedArrayBuffer>>();

/**
 * Describes the live handles of a device, so that a worker can {@linkcode attach} to them. Release
 * nothing of it before {@linkcode revokeHandles}; closing the device revokes them as well.
 *
 * @param device An OpenCL device.
 * @param options What the worker gets beside context and queue.
 * @returns Plain data for `postMessage`.
 * @throws {TypeError} For the built-in backend, which has no handles.
 *
 * @example Sharing a buffer with a worker
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
export function snapshotHandles(
  device: ShareableDevice,
  options: ShareOptions = {},
): HandleSnapshot {
  const action = "share a device with a worker";
  checkOptions(action, options, rules);
  requireValue(action, "device", device, takes.object("a handle of the manager"));
  const { context, queue } = device;
  if (context === null || queue === null) {
    throw new TypeError(`Cannot share ${device} with a worker: it has no OpenCL handles`);
  }
  return {
    pid: host.pid,
    deviceName: device.deviceName,
    context: context.unsafeHandle,
    queue: queue.unsafeHandle,
    state: newState(context),
    buffers: mapValues(options.buffers, (holder) => {
      const buffer = "buffer" in holder ? holder.buffer : holder;
      return { handle: buffer.unsafeHandle, nbytes: buffer.nbytes };
    }),
    kernels: mapValues(options.kernels, (kernel) => kernel.unsafeHandle),
    memory: mapValues(options.memory, (view) => ({
      address: host.addressOf(view),
      nbytes: view.byteLength,
    })),
  };
}

/**
 * Ends what a snapshot shares: when this returns, no worker uses its handles, and every further call
 * on them throws there. To be called before what is shared is released, and before
 * `worker.terminate()`: a worker runs on for a moment after that.
 *
 * @param snapshot What {@linkcode snapshotHandles} returned.
 * @throws {Error} When a worker's call does not return within 10 seconds.
 */
export function revokeHandles(snapshot: HandleSnapshot): void {
  revoke(snapshot.state);
}

/** Ends everything that is shared of a context, which is about to be released. */
export function revokeAll(context: Context): void {
  for (const state of shared.get(context) ?? []) revoke(state);
  shared.delete(context);
}

function newState(context: Context): SharedArrayBuffer {
  const states = shared.get(context) ?? new Set();
  for (const state of states) if (new Int32Array(state)[REVOKED]) states.delete(state);
  const state = new SharedArrayBuffer(8);
  shared.set(context, states.add(state));
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

/** The same names with other values. */
export function mapValues<T, R>(
  record: Readonly<Record<string, T>> | undefined,
  fn: (value: T) => R,
): Record<string, R> {
  return Object.fromEntries(
    Object.entries(record ?? {}).map(([name, value]) => [name, fn(value)]),
  );
}
