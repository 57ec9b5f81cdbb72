/**
 * Buckets: tensors one behind the other in host memory, where ranks communicate. Large enough that a
 * message's latency does not count, small enough that one travels while the next is computed.
 *
 * This folder (`exchange/`) moves buckets between ranks. It imports `execution/`, `core/` and communicators
 * of `backend/`. Gradients and states come from `distributed/`; sums and values of others go back there.
 */
import {
  type Backend,
  backendOf,
  type BesideCopy,
  type Block,
  completedSync,
  dtypes,
  type Gate,
  type HostBlock,
  type HostCopy,
  Node,
  type NodeStorage,
  type Shape,
} from "../../../backend/internal.ts";
import { Storage } from "../../../memory/mod.ts";
import { makeTensor, nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/tensor.ts";

/** PyTorch's `bucket_cap_mb`: below, latency counts; above, less of it hides behind backward. */
export const BUCKET_BYTES = 25 * 2 ** 20;

/** Between devices of one host a chain of copies begins with the first bucket's end. */
export const DEVICE_BUCKET_BYTES = 4 * 2 ** 20;

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

/** The bytes of a tensor. */
export function bytesOf({ size, dtype }: Tensor): number {
  return size * dtypes[dtype].bytes;
}

/** What lies at one place of a bucket. */
interface Piece {
  readonly offset: number;
  readonly nbytes: number;
  /** The block that was read, held until it was written again. */
  storage: NodeStorage | null;
}

/** Host memory for tensors of fixed sizes, used again and again. */
export class Bucket implements HostBlock {
  readonly #backend: Backend;
  readonly #pieces: readonly Piece[];
  readonly #block: HostBlock;
  #reading: BesideCopy | null = null;
  #copies: BesideCopy[] = [];
  /** Blocks that copies under way may still read. */
  #held: NodeStorage[] = [];

  /**
   * Reserves the memory.
   *
   * @param backend Where the tensors are computed.
   * @param sizes Bytes of each tensor.
   * @param extraBytes Bytes behind them.
   * @param memory Where they are on the host; by default memory of its own.
   */
  constructor(
    backend: Backend,
    sizes: readonly number[],
    extraBytes = 0,
    memory: Uint8Array<ArrayBuffer> | null = null,
  ) {
    let offset = 0;
    this.#backend = backend;
    this.#pieces = sizes.map((nbytes) => {
      const piece = { offset, nbytes, storage: null };
      offset += nbytes;
      return piece;
    });
    this.#block = memory === null ? backend.stage(offset + extraBytes) : backend.pin(memory);
  }

  /** A bucket for these tensors. */
  static for(tensors: readonly Tensor[]): Bucket {
    return new Bucket(backendOf(tensors[0]!.device), tensors.map(bytesOf));
  }

  /** All of its memory. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#block.bytes;
  }

  /** The memory behind the tensors. */
  get extra(): Uint8Array<ArrayBuffer> {
    const last = this.#pieces.at(-1)!;
    return this.bytes.subarray(last.offset + last.nbytes);
  }

  /** Begins to copy computed tensors to the host; zeros stand for those that are null. */
  read(tensors: readonly (Tensor | null)[]): void {
    this.finishCopies();
    const copies: HostCopy[] = [];
    this.#pieces.forEach((piece, k) => {
      const tensor = tensors[k] ?? null, bytes = this.#bytesOf(piece);
      if (tensor === null) {
        bytes.fill(0);
        return;
      }
      piece.storage = nodeOf(tensor.realize()).storage!.retain();
      copies.push({ block: piece.storage.handle, bytes });
    });
    this.#reading = this.#backend.readBeside(copies);
    this.#copies.push(this.#reading);
  }

  /** The same for blocks that somebody else holds until they are read, see `hold`. */
  readBlocks(blocks: readonly (Block | null)[]): void {
    this.forget();
    this.finishCopies();
    const copies = blocks.flatMap((block, k): HostCopy[] =>
      block === null ? [] : [{ block, bytes: this.#bytesOf(this.#pieces[k]!) }]
    );
    this.#reading = this.#backend.readBeside(copies);
    this.#copies.push(this.#reading);
  }

  /** Whether everything that was read is there. */
  isRead(): boolean {
    return this.#reading === null || this.#reading.isDone();
  }

  /**
   * Copies the host's content back: into the blocks that were read, which must be the caller's own, or
   * into new ones where somebody else holds them, or there were none.
   *
   * @returns The blocks, in the order of the tensors, with a reference for the caller.
   */
  write(): NodeStorage[] {
    this.finishCopies();
    const own: HostCopy[] = [];
    const storages = this.#pieces.map((piece) => {
      const { storage } = piece;
      if (storage?.references !== 2) return null;
      piece.storage = null;
      storage.markWritten();
      own.push({ block: storage.handle, bytes: this.#bytesOf(piece) });
      return storage;
    });
    this.#copies.push(this.#backend.writeBeside(own));
    const others = this.#pieces.filter((_, k) => storages[k] === null);
    for (const piece of others) this.#letGo(piece);
    const uploaded = this.#upload(this.#backend, others);
    return storages.map((storage) => storage ?? uploaded.shift()!);
  }

  /**
   * Copies the host's content to new blocks.
   *
   * @param backend Of the device where they are, by default that of the tensors.
   * @param gate Of that device: opens when the content is there; by default it is.
   * @returns As {@linkcode Bucket.write}.
   */
  upload(backend: Backend = this.#backend, gate?: Gate): NodeStorage[] {
    this.forget();
    return this.#upload(backend, this.#pieces, this.bytes, gate);
  }

  /**
   * Copies the tensors' part of this bucket, or another one like it, to one new block.
   *
   * @param bytes The other's memory.
   * @param gate Opens when the bytes are there; by default they are.
   * @param backend Of the device where the block is, by default that of the tensors.
   */
  uploadWhole(
    bytes: Uint8Array<ArrayBuffer> = this.bytes,
    gate?: Gate,
    backend: Backend = this.#backend,
  ): NodeStorage {
    const last = this.#pieces.at(-1)!;
    const piece = { offset: 0, nbytes: last.offset + last.nbytes, storage: null };
    return this.#upload(backend, [piece], bytes, gate)[0]!;
  }

  #upload(
    backend: Backend,
    pieces: readonly Piece[],
    bytes = this.bytes,
    gate?: Gate,
  ): NodeStorage[] {
    if (pieces.length === 0) return [];
    const { blocks, copy } = backend.uploadBeside(
      pieces.map(({ offset, nbytes }) => bytes.subarray(offset, offset + nbytes)),
      gate,
    );
    this.#copies.push(copy);
    return blocks.map((block) => new Storage(backend.memory, block));
  }

  /** Lets go of what was read and needs not be written, once it is read. */
  forget(): void {
    for (const piece of this.#pieces) this.#letGo(piece);
  }

  #letGo(piece: Piece): void {
    if (piece.storage) this.#held.push(piece.storage);
    piece.storage = null;
  }

  /** Holds tensors whose blocks are read until that is over. */
  hold(tensors: readonly (Tensor | null)[]): void {
    for (const tensor of tensors) if (tensor) this.#held.push(nodeOf(tensor).storage!.retain());
  }

  /** Waits for copies of an earlier turn, which are long over as a rule. */
  finishCopies(): void {
    completedSync("copy a bucket", {
      isDone: () => this.#copies.every((copy) => copy.isDone()),
    });
    for (const copy of this.#copies.splice(0)) copy[Symbol.dispose]();
    for (const storage of this.#held.splice(0)) storage.release();
    this.#reading = null;
  }

  #bytesOf({ offset, nbytes }: Piece): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(offset, offset + nbytes);
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.forget();
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
