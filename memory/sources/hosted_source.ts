import { addUser, whenIdle } from "../../ffi/events/context_work.ts";
import { Buffer, type CommandQueue, MemFlags } from "../../ffi/mod.ts";
import { asMemoryError, DeviceSource } from "./device_source.ts";

/** Memory of the host that others compute in as well. */
export interface LentMemory {
  /** Memory that begins at a page; null where there is no more of it. */
  lend(nbytes: number): Uint8Array<ArrayBuffer> | null;
  /** Takes back what was lent: nobody uses it any more. */
  takeBack(bytes: Uint8Array<ArrayBuffer>): void;
}

/**
 * Buffers of a device that computes in the host's own memory: as far as it goes they lie in arrays that
 * somebody lends, who may compute in them while the device does not.
 */
export class HostedSource extends DeviceSource {
  readonly #queue: CommandQueue;
  readonly #lender: LentMemory;
  readonly #arrays = new WeakMap<Buffer, Uint8Array<ArrayBuffer>>();

  /**
   * Begins with no memory.
   *
   * @param queue The queue that uses it.
   * @param lender Whose memory it is.
   */
  constructor(queue: CommandQueue, lender: LentMemory) {
    const flags = MemFlags.READ_WRITE | MemFlags.ALLOC_HOST_PTR;
    super(queue.context, { flags, defaultQueue: queue });
    this.#queue = queue;
    this.#lender = lender;
  }

  /** The array that a buffer lies in; undefined where it is the driver's. */
  arrayOf(buffer: Buffer): Uint8Array<ArrayBuffer> | undefined {
    return this.#arrays.get(buffer);
  }

  /** Makes a buffer in an array, or where the driver has room. */
  override create(nbytes: number, flags: bigint | undefined): Buffer {
    const array = flags === undefined ? this.#lender.lend(nbytes) : null;
    if (array === null) return super.create(nbytes, flags);
    const { context } = this.#queue;
    try {
      const options = { flags: MemFlags.READ_WRITE | MemFlags.USE_HOST_PTR, data: array };
      const buffer = new Buffer(context, nbytes, options);
      addUser(context.unsafeHandle);
      this.#arrays.set(buffer, array);
      return buffer;
    } catch (error) {
      this.#lender.takeBack(array);
      throw asMemoryError(error, this.name, nbytes);
    }
  }

  /** Releases the buffer; its array goes back when no command uses it any more. */
  override destroy(buffer: Buffer): void {
    super.destroy(buffer);
    const array = this.#arrays.get(buffer);
    if (array === undefined) return;
    this.#arrays.delete(buffer);
    whenIdle(this.#queue.context.unsafeHandle, () => this.#lender.takeBack(array));
  }
}
