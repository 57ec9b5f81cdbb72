/**
 * Buckets: tensors one behind the other in host memory, where ranks communicate. Large enough that a
 * message's latency does not count, small enough that one travels while the next is computed.
 *
 * This folder (`exchange/`) moves buckets between ranks. It imports `execution/`, `core/` and communicators
 * of `backend/`. Gradients and states come from `distributed/`; sums and values of others go back there.
 */
import {
  type Backend,
  type BesideCopy,
  type Block,
  completedSync,
  dtypes,
  type Gate,
  type HostBlock,
  type HostCopy,
  Node,
  type NodeStorage,
  Pace,
  type Shape,
  type Sign,
} from "../../../backend/internal.ts";
import { makeTensor, nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";
import type { Packed } from "./packer.ts";

/** PyTorch's `bucket_cap_mb`: below, latency counts; above, less of it hides behind backward. */
export const BUCKET_BYTES = 25 * 2 ** 20;

/** Devices that wait for a bucket do so for 40 us at least (an H200's copy to the host and one back). */
const MIN_BUCKET_BYTES = 2 ** 20;
/** Of what is left, a bucket may have so much. */
const BUCKET_SHARE = 0.75;

/** No signal is seen for so long, where the device takes as long as before. */
const MAX_DRIVER_WAIT_MS = 100;

/** Consecutive items in groups of at most `maxBytes`, a larger one alone. */
export function groupBySize<T>(
  items: readonly T[],
  bytesOf: (item: T) => number,
  maxBytes: number,
): T[][] {
  const groups: T[][] = [];
  let bytes = Infinity;
  for (const item of items) {
    const size = bytesOf(item);
    if (bytes + size > maxBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(item);
    bytes += size;
  }
  return groups;
}

/**
 * The same in few groups of which the last are small: devices compute while the others travel, and wait for
 * the last.
 */
export function taperedGroups<T>(items: readonly T[], bytesOf: (item: T) => number): T[][] {
  const groups: T[][] = [];
  let left = items.reduce((sum, item) => sum + bytesOf(item), 0), room = 0;
  for (const item of items) {
    const size = bytesOf(item);
    if (groups.length === 0 || size > room) {
      groups.push([]);
      room = Math.min(BUCKET_BYTES, Math.max(MIN_BUCKET_BYTES, left * BUCKET_SHARE));
    }
    groups.at(-1)!.push(item);
    room -= size;
    left -= size;
  }
  return groups;
}

/** The bytes of a tensor. */
export function bytesOf({ size, dtype }: Tensor): number {
  return size * dtypes[dtype].bytes;
}

/** Memory of tensors; computes those that are not there yet. */
export function storagesOf(tensors: readonly Tensor[]): NodeStorage[] {
  return tensors.map((tensor) => nodeOf(tensor.realize()).storage!);
}

/** Host memory of a fixed size, used again and again. */
export class Bucket implements HostBlock {
  /** Of waits for what is read. */
  readonly pace: Pace = new Pace();
  /** Bytes that are copied, from the beginning. */
  readonly nbytes: number;
  readonly #backend: Backend;
  readonly #block: HostBlock;
  #reading: BesideCopy | null = null;
  readonly #uploads: BesideCopy[] = [];
  /** Memory still read by copies under way. */
  #held: Packed[] = [];

  /**
   * Reserves the memory.
   *
   * @param backend Where the tensors are computed.
   * @param nbytes Bytes that are copied.
   * @param extraBytes Bytes behind them.
   * @param memory Where they are on the host; by default memory of its own.
   */
  constructor(
    backend: Backend,
    nbytes: number,
    extraBytes = 0,
    memory: Uint8Array<ArrayBuffer> | null = null,
  ) {
    this.#backend = backend;
    this.nbytes = nbytes;
    this.#block = memory === null ? backend.stage(nbytes + extraBytes) : backend.pin(memory);
  }

  /** All of its memory. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#block.bytes;
  }

  /** Begins to copy a block of `nbytes` to the host; somebody holds it, see `hold`. */
  read(block: Block, sign?: Sign): void {
    this.readParts([{ block, bytes: this.bytes.subarray(0, this.nbytes) }], sign);
  }

  /** The same for several, to parts of its memory. */
  readParts(copies: readonly HostCopy[], sign?: Sign): void {
    this.finishCopies();
    this.#reading = this.#backend.readBeside(copies, sign);
  }

  /** True when everything that was read is there. */
  isRead(): boolean {
    return this.#reading === null || this.#reading.isDone();
  }

  /** Waits in the driver until it is read, if the last reads were short; false where it has not. */
  waitInDriver(): boolean {
    if (!this.#reading?.waitInDriver || this.pace.longestMs > MAX_DRIVER_WAIT_MS) return false;
    this.#reading.waitInDriver();
    return true;
  }

  /**
   * Copies this bucket, or another one like it, to a new block.
   *
   * @param bytes The other's memory.
   * @param gate Opens when the bytes are there; by default they are.
   * @param backend Of the device where the block is, by default that of the tensors.
   * @returns The caller's to release.
   */
  upload(
    bytes: Uint8Array<ArrayBuffer> = this.bytes,
    gate?: Gate,
    backend: Backend = this.#backend,
  ): Block {
    const { blocks, copy } = backend.uploadBeside([bytes.subarray(0, this.nbytes)], gate);
    this.#uploads.push(copy);
    return blocks[0]!;
  }

  /** Releases what is read when that is over. */
  hold(packed: Packed): void {
    this.#held.push(packed);
  }

  /** Releases it, where the reads are known to be over. */
  releaseHeld(): void {
    for (const packed of this.#held.splice(0)) packed.release();
  }

  /** True when everything that was uploaded is there. */
  isUploaded(): boolean {
    return this.#uploads.every((copy) => copy.isDone());
  }

  /** Waits for copies of an earlier turn, which are long over as a rule. */
  finishCopies(): void {
    completedSync("copy a bucket", { isDone: () => this.isRead() && this.isUploaded() });
    for (const copy of this.#uploads.splice(0)) copy[Symbol.dispose]();
    this.#reading?.[Symbol.dispose]();
    this.#reading = null;
    this.releaseHeld();
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.finishCopies();
    this.#block[Symbol.dispose]();
  }
}

/** A tensor of what lies in a block; takes over the caller's reference. */
export function storedTensor(storage: NodeStorage, like: Tensor): Tensor {
  return tensorOf(storage, like.shape, like);
}

/** The same with another shape. */
export function tensorOf(storage: NodeStorage, shape: Shape, like: Tensor): Tensor {
  return makeTensor(Node.stored(storage, shape, like.dtype), like.device);
}
