import type { Buffer, CommandQueue, Event } from "../../ffi/mod.ts";
import { MiB } from "../core/bytes.ts";
import { getPinnedPool } from "./context_pools.ts";
import type { BufferHandle } from "../core/pool.ts";
import type { HostBuffer } from "../sources/source.ts";
import type { PendingUploads } from "./pending_uploads.ts";

/**
 * The way of bytes from one device to another: `host` to or from the host's own memory, `device` by
 * the driver within a context, `mapped` straight out of or into memory that a device shares with
 * the host, `staged` through two slots of pinned host memory, one filling while the other drains.
 */
export type TransferPath = "host" | "device" | "mapped" | "staged";

/** One end of a copy, as `Storage` is one: bytes in the memory of a device. */
export interface TransferEnd {
  /** Its bytes. */
  readonly nbytes: number;
  /** The block that they lie in. */
  readonly handle: BufferHandle<unknown>;
  /** The device's memory: the queue that its commands go to, and copies to it that are under way. */
  readonly memory: { readonly queue: CommandQueue | null; readonly uploads: PendingUploads };
}

// Large enough to hide a command's cost (5 us at 50 GB/s is 256 KiB), small enough to start early.
const CHUNK_BYTES = 4 * MiB;

/**
 * Copies a storage's bytes into another one by the best path there is. Work that is enqueued on
 * either device afterwards comes after the copy.
 *
 * @returns The path that it took.
 */
export function transfer(source: TransferEnd, target: TransferEnd): TransferPath {
  const from = source.memory.queue, to = target.memory.queue;
  if (source.nbytes !== target.nbytes) {
    throw new RangeError(`Cannot copy ${source.nbytes} bytes into ${target.nbytes}`);
  }
  if (from === null && to === null) hostBytes(target).set(hostBytes(source));
  else if (from === null) to!.write(bufferOf(target), hostBytes(source)).release();
  else if (to === null) {
    from.read(bufferOf(source), hostBytes(target), { blocking: true }).release();
  } else {
    return copy({
      from,
      source: bufferOf(source),
      to,
      target: bufferOf(target),
      nbytes: source.nbytes,
    });
  }
  return "host";
}

function hostBytes(storage: TransferEnd): Uint8Array {
  return (storage.handle.buffer as HostBuffer).bytes.subarray(0, storage.nbytes);
}

function bufferOf(storage: TransferEnd): Buffer {
  storage.memory.uploads.await(storage.handle);
  return storage.handle.buffer as Buffer;
}

/** A copy from a buffer of one device to a buffer of another, whose commands go to these queues. */
export interface DeviceCopy {
  /** The queue of the source. */
  readonly from: CommandQueue;
  readonly source: Buffer;
  /** The queue of the target. */
  readonly to: CommandQueue;
  readonly target: Buffer;
  readonly nbytes: number;
}

function copy(between: DeviceCopy): TransferPath {
  const { from, source, to, target, nbytes } = between;
  if (from.context === to.context) {
    copyWithinContext(between);
    return "device";
  }
  if (from.device.hostUnifiedMemory) {
    using region = from.map(source, { write: false, nbytes });
    to.write(target, region.bytes, { blocking: true }).release();
    return "mapped";
  }
  if (to.device.hostUnifiedMemory) {
    using region = to.map(target, { discard: true, nbytes });
    from.read(source, region.bytes, { blocking: true }).release();
    return "mapped";
  }
  copyStaged(between);
  return "staged";
}

/** The driver copies; each queue waits for the other on the device, the host for neither. */
function copyWithinContext({ from, source, to, target, nbytes }: DeviceCopy): void {
  using ready = from.marker();
  from.flush();
  using copied = to.copy(source, target, { nbytes, wait: [ready] });
  to.flush();
  // What the source's queue does to it later must not overtake the copy.
  if (from !== to) from.barrier([copied]).release();
}

/** While one slot is written to the target, the other is filled from the source. */
export function copyStaged({ from, source, to, target, nbytes }: DeviceCopy): void {
  const pool = getPinnedPool(to);
  const slots = [0, 1].map(() => pool.allocate(Math.min(CHUNK_BYTES, nbytes), { queue: to }));
  const written: (Event | null)[] = [null, null];
  try {
    for (let offset = 0, turn = 0; offset < nbytes; offset += CHUNK_BYTES, turn ^= 1) {
      written[turn]?.waitSync();
      written[turn]?.release();
      const chunk = slots[turn]!.view.subarray(0, Math.min(CHUNK_BYTES, nbytes - offset));
      from.read(source, chunk, { offset, blocking: true }).release();
      written[turn] = to.write(target, chunk, { offset, noCopy: true });
      to.flush();
    }
  } finally {
    for (const event of written) event?.release();
    for (const slot of slots) slot.release();
  }
}
