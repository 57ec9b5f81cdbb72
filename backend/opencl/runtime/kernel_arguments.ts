/** The arguments of a compiled kernel, which outlive its launches: only what changes is set again. */
import type { Buffer, CommandQueue, Kernel } from "../../../ffi/mod.ts";
import type { Block } from "../../execution/backend.ts";
import type { DType } from "../../graph/dtype.ts";
import type { Parameter } from "../../codegen/emit.ts";
import type { Generated } from "../codegen/generated.ts";
import type { WarmLaunch } from "../tiers/compile_job.ts";
import type { DeviceAddresses } from "./addresses.ts";

const scratch = new ArrayBuffer(8);
const asInt = new Int32Array(scratch, 0, 1);
const asFloat = new Float32Array(scratch, 0, 1);
const asDouble = new Float64Array(scratch);
const asLong = new BigInt64Array(scratch);
const asByte = new Uint8Array(scratch, 0, 1);

/** The bytes of a constant in the compute type of `dtype`. */
function encode(value: number, dtype: DType): ArrayBufferView {
  switch (dtype) {
    case "float64":
      asDouble[0] = value;
      return asDouble;
    case "int64":
      asLong[0] = BigInt(Math.trunc(value));
      return asLong;
    case "int32":
      asInt[0] = value;
      return asInt;
    case "uint8":
    case "bool":
      asByte[0] = value;
      return asByte;
    default:
      asFloat[0] = value;
      return asFloat;
  }
}

/**
 * A launch over zeros, for a driver that compiles a kernel for the sizes of its first launch.
 *
 * @param name The kernel's.
 * @param bytes Of each of the launch's buffers.
 */
export function warmLaunch(name: string, kernel: Generated, bytes: readonly number[]): WarmLaunch {
  const { buffers, checksIndices, parameters, isWide, global, local } = kernel;
  const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): number[] => [
    ...new Uint8Array(buffer, byteOffset, byteLength),
  ];
  return {
    name,
    global,
    local,
    args: [
      ...buffers.map((_, k) => bytes[k]!),
      ...checksIndices ? [ERROR_BYTES] : [],
      ...buffers.map(() => [0, 0, 0, 0]),
      ...parameters.map((p) => bytesOf(encodedParameter(p, isWide))),
    ],
  };
}

/** Bytes of a note of an index out of range: operation, index, bound; 64 bits each. */
export const ERROR_BYTES = 24;

/** An index in the type that a kernel takes it in. */
function encodedIndex(value: number, isWide: boolean): ArrayBufferView {
  if (isWide) asLong[0] = BigInt(value);
  else asInt[0] = value;
  return isWide ? asLong : asInt;
}

function encodedParameter(p: Parameter, isWide: boolean): ArrayBufferView {
  if (p.kind === "index") return encodedIndex(p.value, isWide);
  if (p.kind === "stream") return encodedIndex(p.stream.value, false);
  return encode(p.value, p.dtype);
}

/** True for a block that begins where the int of a kernel's argument does not reach. */
export const isFar = (block: Block): boolean => block.offset >= 2 ** 31;

/** A kernel and what its arguments are; several launches of other sizes may share it. */
export class KernelArguments {
  /** The kernel; its arguments are complete after {@linkcode settle}. */
  readonly kernel: Kernel;
  /** The launch that set all scalar parameters last: for it those that never change need not be set again. */
  owner: object | null = null;
  /** Called once, after the first launch; set where the driver compiles for that. */
  onFirstLaunch: ((queue: CommandQueue) => void) | null = null;
  readonly #present: (Buffer | number | undefined)[] = [];
  protected readonly create: () => Kernel;

  /** @param create Makes a kernel of the same function; the caller's to release. */
  constructor(create: () => Kernel) {
    this.kernel = create();
    this.create = create;
  }

  /** Other arguments for the same function, in a kernel that is the caller's to release. */
  copy(): KernelArguments {
    return new KernelArguments(this.create);
  }

  /** Hands over what was set since the last launch; called before each. */
  settle(): void {}

  /** Says that the kernel was launched. */
  launched(queue: CommandQueue): void {
    const first = this.onFirstLaunch;
    this.onFirstLaunch = null;
    first?.(queue);
  }

  /**
   * Sets an argument to a buffer, unless it is that already.
   *
   * @returns False where the kernel cannot take it.
   */
  setBuffer(at: number, buffer: Buffer): boolean {
    if (this.#present[at] === buffer && !buffer.released) return true;
    if (!this.writeBuffer(at, buffer)) return false;
    this.#present[at] = buffer;
    return true;
  }

  /** Sets an argument to an int, or in a wide kernel to a long, unless it is that already. */
  setIndex(at: number, value: number, isWide = false): void {
    if (this.#present[at] === value) return;
    this.writeNumber(at, encodedIndex(value, isWide));
    this.#present[at] = value;
  }

  /** Sets the scalar parameters from `at` on. */
  setParameters(at: number, parameters: readonly Parameter[], isWide: boolean): void {
    for (const p of parameters) {
      if (p.kind === "index") this.setIndex(at, p.value, isWide);
      else if (p.kind === "stream") this.setIndex(at, p.stream.value);
      else this.setEncoded(at, p.value, encode(p.value, p.dtype));
      at++;
    }
  }

  /** Sets an argument to a number that has these bytes, unless it is that already. */
  setEncoded(at: number, value: number, bytes: ArrayBufferView): void {
    if (Object.is(this.#present[at], value)) return;
    this.writeNumber(at, bytes);
    this.#present[at] = value;
  }

  /**
   * Sets an argument to the memory of a block: what begins behind the reach of an int is taken whole.
   *
   * @returns False where the kernel cannot take it.
   */
  setBlock(at: number, block: Block): boolean {
    return this.setBuffer(at, isFar(block) ? block.buffer : block.base);
  }

  /** Has the next call set an argument, whatever it is now. */
  protected forget(at: number): void {
    this.#present[at] = undefined;
  }

  protected writeBuffer(at: number, buffer: Buffer): boolean {
    this.kernel.setBuffer(at, buffer);
    return true;
  }

  protected writeNumber(at: number, bytes: ArrayBufferView): void {
    this.kernel.setBytes(at, bytes);
  }
}

/** The arguments of a kernel that takes them as one: see `opencl/codegen/addressed_kernel.ts`. */
export class AddressedArguments extends KernelArguments {
  readonly #addresses: DeviceAddresses;
  readonly #words: BigUint64Array<ArrayBuffer>;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #isSettled = false;

  /** @param count The number of arguments. */
  constructor(create: () => Kernel, addresses: DeviceAddresses, count: number) {
    super(create);
    this.#addresses = addresses;
    this.#words = new BigUint64Array(count);
    this.#bytes = new Uint8Array(this.#words.buffer);
  }

  override copy(): AddressedArguments {
    return new AddressedArguments(this.create, this.#addresses, this.#words.length);
  }

  override settle(): void {
    if (this.#isSettled) return;
    this.kernel.setBytes(0, this.#words);
    this.#isSettled = true;
  }

  /** A block has an address without a memory object of its own. */
  override setBlock(at: number, block: Block): boolean {
    if (!isFar(block)) return this.setBuffer(at, block.base);
    if (!this.writeBuffer(at, block.base)) return false;
    this.#words[at]! += BigInt(block.offset);
    this.forget(at);
    return true;
  }

  protected override writeBuffer(at: number, buffer: Buffer): boolean {
    const address = this.#addresses.of(buffer);
    if (address === null) return false;
    this.#words[at] = address;
    this.#isSettled = false;
    return true;
  }

  protected override writeNumber(at: number, bytes: ArrayBufferView): void {
    this.#words[at] = 0n;
    this.#bytes.set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), 8 * at);
    this.#isSettled = false;
  }
}

/** The forms of a kernel that a driver takes: the first, and one for memory that the first cannot take. */
export class LaunchKernels implements Disposable {
  readonly #first: KernelArguments;
  readonly #makeOther: () => KernelArguments;
  #other: KernelArguments | null = null;
  /** The arguments of the last launch. */
  current: KernelArguments;

  /** @param makeOther Called when it is needed; by default the first form takes everything. */
  constructor(first: KernelArguments, makeOther: () => KernelArguments = () => first) {
    this.current = this.#first = first;
    this.#makeOther = makeOther;
  }

  /** Sets the arguments of a launch; `setAll` is false where it cannot. */
  set(setAll: (args: KernelArguments) => boolean): void {
    this.current = this.#first;
    if (setAll(this.#first)) return;
    this.current = this.#other ??= this.#makeOther();
    setAll(this.current);
  }

  /** The same with kernels of its own, which it releases. */
  copy(): LaunchKernels {
    return new LaunchKernels(this.#first.copy(), () => this.#makeOther().copy());
  }

  /** Releases a copy's kernels. */
  [Symbol.dispose](): void {
    this.#first.kernel.release();
    this.#other?.kernel.release();
  }
}
