/**
 * Sources of pools' memory: OpenCL buffers, pinned and host memory, a simulated device. A source
 * neither caches nor counts. This folder imports `core/`, `fences/` and `ffi/`; `pools/` asks it for
 * segments and gives them back.
 *
 * @module
 */
import { formatBytes } from "../core/bytes.ts";
import type { FenceQueue } from "../fences/fence.ts";

/**
 * The source of a pool's memory: the driver, the host's heap or a simulation. It neither caches nor
 * counts; that is the pool's work.
 */
export interface MemorySource<B> {
  /** The owner of the memory, as errors name it. */
  readonly name: string;
  /** Blocks of one segment begin at multiples of this. */
  readonly alignment: number;
  /** The most that one piece may have. */
  readonly maxAllocationBytes: number;
  /** The queue that uses the memory where a request names none. */
  readonly defaultQueue?: FenceQueue;
  /** A stand-in for zero bytes; `null` where nothing can. */
  readonly empty: B | null;
  /**
   * Makes a piece of memory.
   *
   * @throws {NoMemoryError} When there is none; anything else that it throws is no matter of
   *   memory.
   */
  create(nbytes: number, flags: bigint | undefined): B;
  /** Part of a piece, as an object of its own; absent where a piece cannot be divided. */
  createSubBuffer?(parent: B, offset: number, nbytes: number): B;
  /**
   * True when parts of a piece may overlap, as long as only one of them is used at a time. NVIDIA's
   * driver (580.159) crashes when overlapping sub-buffers are released in another order than last
   * in, first out.
   */
  readonly subBuffersMayOverlap?: boolean;
  /**
   * The first bytes of what `create` or `createSubBuffer` made, in a view that can be detached by itself;
   * absent where the host does not see the memory.
   */
  view?(buffer: B, nbytes: number): Uint8Array<ArrayBuffer>;
  /** Gives back what `create` or `createSubBuffer` made. */
  destroy(buffer: B): void;
}

/**
 * The source is out of memory. Pools run their retry steps; callers see an `OutOfMemoryError`.
 */
export class NoMemoryError extends Error {
  /** The class's name. */
  override readonly name = "NoMemoryError";
}

/** A piece of the host's memory, as the CPU backend works on it. */
export class HostBuffer {
  /** Bytes of the piece, a multiple of 64. */
  readonly nbytes: number;
  /** The memory itself; every read of it gives the same view. */
  readonly bytes: Uint8Array<ArrayBuffer>;

  /**
   * Wraps memory.
   *
   * @param bytes The memory that the buffer stands for.
   */
  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
    this.nbytes = bytes.byteLength;
  }
}

/** The host's memory, by ArrayBuffers that the garbage collector takes back. */
export class HostSource implements MemorySource<HostBuffer> {
  /** Its name in errors. */
  readonly name: string = "host memory";
  /** A cache line. */
  readonly alignment: number = 64;
  /** V8's ArrayBuffers end at 2^33 or more, depending on the build; a refusal is a RangeError. */
  readonly maxAllocationBytes: number = Number.MAX_SAFE_INTEGER;
  /** A buffer of zero bytes. */
  readonly empty: HostBuffer = new HostBuffer(new Uint8Array(0));

  /** Makes an ArrayBuffer. */
  create(nbytes: number): HostBuffer {
    try {
      return new HostBuffer(new Uint8Array(new ArrayBuffer(nbytes)));
    } catch (cause) {
      throw new NoMemoryError(`The host has no ${formatBytes(nbytes)}`, { cause });
    }
  }

  /** Views of an ArrayBuffer may overlap. */
  readonly subBuffersMayOverlap = true;

  /** A view of part of a piece. */
  createSubBuffer(parent: HostBuffer, offset: number, nbytes: number): HostBuffer {
    return new HostBuffer(parent.bytes.subarray(offset, offset + nbytes));
  }

  /** Leaves the memory to the garbage collector. */
  destroy(_buffer: HostBuffer): void {}
}
