/**
 * The memory that WebAssembly computes in: one for all kernels and threads of this realm. It is
 * shared, so it can grow while views of it stay valid. It never shrinks; what is freed is used again.
 */
import { HostBuffer, HostSource } from "../../../memory/mod.ts";
import type { HostBlock } from "../script/runner.ts";

const PAGE_BYTES = 65536;
/** All that 32-bit addresses reach; less where the system does not let so much be reserved. */
const MAX_PAGES = [65536, 16384, 4096] as const;
/**
 * At each growth V8 visits every instance, 0.1 ms each: the code of thousands of kernels, in pieces of
 * 64 KiB, took longer to make room for than to compile. What is not touched costs address space only.
 */
const MIN_GROWTH_BYTES = 16 * 2 ** 20;

/** A piece of that memory; addresses are those of WebAssembly. */
export class WasmBuffer extends HostBuffer {
  /** Address of its start. */
  readonly address: number;
  /** The memory that the address is in. */
  readonly memory: WasmMemory;

  constructor(memory: WasmMemory, bytes: Uint8Array<ArrayBuffer>) {
    super(bytes);
    this.memory = memory;
    this.address = bytes.byteOffset;
  }
}

/** A range of whole pages that nobody uses. */
interface Gap {
  address: number;
  nbytes: number;
}

/** The memory, given out in whole pages. */
export class WasmMemory {
  readonly memory: WebAssembly.Memory;
  readonly #gaps: Gap[] = [];

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory;
  }

  /** A view of bytes that were given out. */
  bytes(address: number, nbytes: number): Uint8Array<ArrayBuffer> {
    // Views of shared memory are used like any others; only the types tell them apart.
    return new Uint8Array(this.memory.buffer as ArrayBuffer, address, nbytes);
  }

  /** Address of a block; null: elsewhere. */
  addressOf({ base, offset, nbytes }: HostBlock): number | null {
    if (base instanceof WasmBuffer && base.memory === this) return base.address + offset;
    return nbytes === 0 ? 0 : null;
  }

  /** The address of that many bytes, of whatever content; null where there are none. */
  tryAllocate(nbytes: number): number | null {
    const size = Math.ceil(nbytes / PAGE_BYTES) * PAGE_BYTES;
    const fitting = this.#gaps.filter((gap) => gap.nbytes >= size);
    if (fitting.length === 0) return this.#grow(size);
    const gap = fitting.reduce((a, b) => b.nbytes < a.nbytes ? b : a);
    const { address } = gap;
    gap.address += size;
    gap.nbytes -= size;
    if (gap.nbytes === 0) this.#gaps.splice(this.#gaps.indexOf(gap), 1);
    return address;
  }

  /** Room at the end; where there is more than was asked for, the rest is a gap. */
  #grow(size: number): number | null {
    if (size >= MIN_GROWTH_BYTES) return this.#growBy(size);
    const address = this.#growBy(MIN_GROWTH_BYTES);
    if (address === null) return this.#growBy(size);
    this.deallocate(address + size, MIN_GROWTH_BYTES - size);
    return address;
  }

  /**
   * The last page is never given out: a vector may begin in a buffer and end behind it. Growing by all pages
   * fails as growing by more does, and is a number that the engine takes.
   */
  #growBy(size: number): number | null {
    try {
      return (this.memory.grow(Math.min(size / PAGE_BYTES, MAX_PAGES[0])) - 1) * PAGE_BYTES;
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Takes back what {@linkcode tryAllocate} gave. */
  deallocate(address: number, nbytes: number): void {
    const size = Math.ceil(nbytes / PAGE_BYTES) * PAGE_BYTES;
    const gap = { address, nbytes: size };
    const before = this.#gaps.find((g) => g.address + g.nbytes === gap.address);
    const after = this.#gaps.find((g) => gap.address + gap.nbytes === g.address);
    if (after) {
      gap.nbytes += after.nbytes;
      this.#gaps.splice(this.#gaps.indexOf(after), 1);
    }
    if (before) before.nbytes += gap.nbytes;
    else this.#gaps.push(gap);
  }
}

/** Reserves the memory; null where the engine or the system refuses. */
export function makeWasmMemory(): WasmMemory | null {
  for (const maximum of MAX_PAGES) {
    try {
      return new WasmMemory(new WebAssembly.Memory({ initial: 1, maximum, shared: true }));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }
  return null;
}

/** Pieces of that memory; when it is full, ArrayBuffers, which JavaScript alone computes on. */
export class WasmSource extends HostSource {
  /** Bytes of the largest vectors. */
  override readonly alignment: number = 64;
  readonly #memory: WasmMemory;

  constructor(memory: WasmMemory) {
    super();
    this.#memory = memory;
  }

  override create(nbytes: number): HostBuffer {
    const address = this.#memory.tryAllocate(nbytes);
    if (address === null) return super.create(nbytes);
    return new WasmBuffer(this.#memory, this.#memory.bytes(address, nbytes));
  }

  override destroy(buffer: HostBuffer): void {
    if (buffer instanceof WasmBuffer) this.#memory.deallocate(buffer.address, buffer.nbytes);
  }
}
