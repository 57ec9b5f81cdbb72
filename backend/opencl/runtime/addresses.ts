/** Addresses of memory objects on the device, which a kernel tells: OpenCL has no call for it. */
import {
  Buffer,
  CommandQueue,
  type Context,
  type Device,
  type Kernel,
  MemFlags,
} from "../../../ffi/mod.ts";

/** The kernel that tells an address. */
export const TELLER = {
  name: "tell_address",
  text: `kernel void tell_address(global ulong* told, global char* memory) {
  told[0] = (ulong)memory;
}`,
};

/** Memory that the driver may copy or move between commands that it knows to use it. */
const NOT_FIXED = MemFlags.USE_HOST_PTR | MemFlags.ALLOC_HOST_PTR;

const oneItem = BigUint64Array.of(1n);

/** Addresses of the memory objects of one device's context. */
export class DeviceAddresses {
  readonly #known = new WeakMap<Buffer, bigint | null>();
  readonly #context: Context;
  readonly #device: Device;
  readonly #makeTeller: () => Kernel;
  #teller: { readonly queue: CommandQueue; readonly kernel: Kernel; readonly told: Buffer } | null =
    null;

  /** @param makeTeller Makes the kernel of {@linkcode TELLER}, this object's to release. */
  constructor(context: Context, device: Device, makeTeller: () => Kernel) {
    this.#context = context;
    this.#device = device;
    this.#makeTeller = makeTeller;
  }

  /**
   * The address of a buffer, which is kept for kernels that are told it; null where it may change, and of a part
   * of a buffer: drivers want parts back in an order that what is kept would break.
   */
  of(buffer: Buffer): bigint | null {
    let address = this.#known.get(buffer);
    if (address === undefined) this.#known.set(buffer, address = this.#ask(buffer));
    return address;
  }

  #ask(buffer: Buffer): bigint | null {
    const moves = this.#device.hostUnifiedMemory ? MemFlags.USE_HOST_PTR : NOT_FIXED;
    if (buffer.parent || buffer.flags & moves || this.#context.devices.length > 1) return null;
    this.#teller ??= {
      queue: new CommandQueue(this.#context, this.#device),
      kernel: this.#makeTeller(),
      told: new Buffer(this.#context, 8),
    };
    const { queue, kernel, told } = this.#teller, address = new BigUint64Array(1);
    kernel.setArgs([told, buffer]);
    queue.enqueueKernel(kernel, 1, oneItem, null);
    queue.read(told, address, { blocking: true }).release();
    // Nor does the kernel hold the buffer until it is asked for the next.
    kernel.setArgs([told, told]);
    buffer.keepUntilIdle();
    return address[0]!;
  }

  release(): void {
    const teller = this.#teller;
    this.#teller = null;
    teller?.kernel.release();
    teller?.told.release();
    teller?.queue.release();
  }
}
