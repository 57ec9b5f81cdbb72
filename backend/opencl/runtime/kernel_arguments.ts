/** The arguments of a compiled kernel, which outlive its launches: only what changes is set again. */
import type { Buffer, CommandQueue, Kernel } from "../../../ffi/mod.ts";
import type { DType } from "../../graph/dtype.ts";
import type { Parameter } from "../../codegen/emit.ts";
import type { Generated } from "../codegen/generated.ts";
import type { WarmLaunch } from "../tiers/compile_job.ts";

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

/** A kernel and what its arguments are; several launches of other sizes may share it. */
export class KernelArguments {
  readonly kernel: Kernel;
  /** The launch that set all scalar parameters last: for it those that never change need not be set again. */
  owner: object | null = null;
  /** Called once, after the first launch; set where the driver compiles for that. */
  onFirstLaunch: ((queue: CommandQueue) => void) | null = null;
  readonly #present: (Buffer | number | undefined)[] = [];
  readonly #create: () => Kernel;

  /** @param create Makes a kernel of the same function; the caller's to release. */
  constructor(create: () => Kernel) {
    this.kernel = create();
    this.#create = create;
  }

  /** Other arguments for the same function, in a kernel that is the caller's to release. */
  copy(): KernelArguments {
    return new KernelArguments(this.#create);
  }

  /** Says that the kernel was launched. */
  launched(queue: CommandQueue): void {
    const first = this.onFirstLaunch;
    this.onFirstLaunch = null;
    first?.(queue);
  }

  /** Sets an argument to a buffer, unless it is that already. */
  setBuffer(at: number, buffer: Buffer): void {
    if (this.#present[at] === buffer && !buffer.released) return;
    this.kernel.setBuffer(at, buffer);
    this.#present[at] = buffer;
  }

  /** Sets an argument to an int, or in a wide kernel to a long, unless it is that already. */
  setIndex(at: number, value: number, isWide = false): void {
    if (this.#present[at] === value) return;
    this.kernel.setBytes(at, encodedIndex(value, isWide));
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
    this.kernel.setBytes(at, bytes);
    this.#present[at] = value;
  }
}
