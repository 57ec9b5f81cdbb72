/**
 * Kernels and their arguments.
 *
 * This folder (`kernels/`) goes from source to what can be launched: programs with their builds and
 * binaries, kernels, arguments. It imports `memory/` (what arguments may be), `events/`,
 * `objects/`, `library/`, `symbols/` and `host/`. Source comes from the code generators; kernels go
 * to `queue/`.
 *
 * @module
 */
import { Buffer } from "../memory/buffer.ts";
import { KernelArgInfo, KernelInfo, Status, WorkGroupInfo } from "../library/constants.ts";
import type { Device } from "../objects/device.ts";
import { check, OpenCLError } from "../library/errors.ts";
import { type InfoCall, type PropertyTypes, readers } from "../library/info.ts";
import { type ArgumentEncoder, type ArgumentInfo, encoderOf } from "./kernel_args.ts";
import { Image } from "../memory/image.ts";
import { cl } from "../library/library.ts";
import { kindOf, OpenCLObject, releasers, releases } from "../objects/object.ts";
import { Sampler } from "../memory/sampler.ts";
import { requireValue, shown } from "../host/options.ts";
import * as takes from "../host/option_rules.ts";
import { checkRange, toSize } from "../host/size.ts";
import { SvmBuffer } from "../memory/svm.ts";
import type { Handle } from "../symbols/types.ts";

/**
 * A kernel's argument: memory or what holds a buffer, local memory in bytes, the bytes of a scalar,
 * vector or struct, or a number that is converted by the declared type.
 */
export type KernelArg =
  | Buffer
  | SvmBuffer
  | Image
  | Sampler
  | { readonly buffer: Buffer }
  | { readonly local: number }
  | ArrayBufferView
  | number
  | bigint;

/** The kind of an argument; unknown where a binary carries no info about arguments. */
type ArgumentKind = "value" | "local" | "object" | "unknown";

const addressSpaces = ["global", "local", "constant", "private"] as const;
const handleOut = new BigUint64Array(1);

/** A function of a program, together with the arguments that are set. */
export class Kernel extends OpenCLObject<"Kernel"> {
  /** Its name. */
  readonly name: string;
  /** The number of declared arguments. */
  readonly numArgs: number;
  readonly #encoders: (ArgumentEncoder | undefined)[] = [];
  readonly #kinds: (ArgumentKind | undefined)[] = [];
  // OpenCL does not retain what an argument refers to, so the collector must not release it.
  readonly #referred: OpenCLObject<string>[] = [];
  /** The time at which all arguments were last known to be live, by the count of releases. */
  #checkedAt = -1;

  /** Takes over one reference to a kernel. Programs make kernels. */
  constructor(handle: Handle<"Kernel">) {
    super("Kernel", handle, releasers.kernel);
    try {
      this.name = this.#info("string", KernelInfo.FUNCTION_NAME);
      this.numArgs = this.#info("u32", KernelInfo.NUM_ARGS);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** Sets an argument to a buffer. */
  setBuffer(index: number, buffer: Buffer): void {
    if (kindOf(buffer) !== "Buffer") throw this.#typeError(index, buffer);
    handleOut[0] = buffer.unsafeHandle;
    const status = cl.clSetKernelArg(this.unsafeHandle, index, 8n, handleOut);
    if (status < 0) throw this.#argumentError(status, index);
    this.#referred[index] = buffer;
  }

  /**
   * Sets an argument to the bytes of an array: a scalar, a vector or a struct.
   *
   * @throws {TypeError} If the kernel declares memory or a sampler there.
   */
  setBytes(index: number, data: ArrayBufferView): void {
    if (!ArrayBuffer.isView(data)) throw this.#typeError(index, data);
    const size = toSize(data.byteLength, "an argument's size");
    // Eight bytes may be taken for a handle of memory or a sampler, which the driver would follow.
    if (size === 8n) this.#requireKind(index, "value");
    const status = cl.clSetKernelArg(this.unsafeHandle, index, size, data);
    if (status < 0) throw this.#argumentError(status, index);
  }

  /**
   * Gives a local argument its memory, in bytes for each work-group.
   *
   * @throws {TypeError} If the kernel declares something else there.
   */
  setLocal(index: number, nbytes: number): void {
    const size = toSize(nbytes, "a size of local memory");
    this.#requireKind(index, "local");
    const status = cl.clSetKernelArg(this.unsafeHandle, index, size, null);
    if (status < 0) throw this.#argumentError(status, index);
  }

  /** Sets an argument to an image or a sampler. */
  setObject(index: number, object: Image | Sampler): void {
    const kind = kindOf(object);
    if (kind !== "Image" && kind !== "Sampler") throw this.#typeError(index, object);
    handleOut[0] = object.unsafeHandle;
    const status = cl.clSetKernelArg(this.unsafeHandle, index, 8n, handleOut);
    if (status < 0) throw this.#argumentError(status, index);
    this.#referred[index] = object;
  }

  /**
   * Sets an argument to shared virtual memory, from an offset in bytes on, 0 by default.
   *
   * @throws {RangeError} If the offset lies outside of the memory.
   */
  setSvm(index: number, memory: SvmBuffer, offset = 0): void {
    if (kindOf(memory) !== "SvmBuffer") throw this.#typeError(index, memory);
    checkRange(offset, 0, memory.nbytes, "shared memory");
    const address = memory.unsafeHandle + BigInt(offset);
    const status = cl.clSetKernelArgSVMPointer(this.unsafeHandle, index, address);
    if (status < 0) {
      throw new OpenCLError(status, "clSetKernelArgSVMPointer", this.#argumentName(index));
    }
    this.#referred[index] = memory;
  }

  /**
   * Sets a scalar argument to a number, converted to the declared type.
   *
   * @throws {TypeError} If the type is not known (the program is a binary without argument info) or
   *   not a scalar.
   */
  setNumber(index: number, value: number | bigint): void {
    const encoder = this.#encoders[index] ??= encoderOf(this.argument(index), index, this.name);
    this.setBytes(index, encoder(value));
  }

  /** Sets an argument of any kind. */
  setArg(index: number, value: KernelArg): void {
    if (value instanceof Buffer) this.setBuffer(index, value);
    else if (value instanceof SvmBuffer) this.setSvm(index, value);
    else if (value instanceof Image || value instanceof Sampler) this.setObject(index, value);
    else if (typeof value === "number" || typeof value === "bigint") this.setNumber(index, value);
    else if (ArrayBuffer.isView(value)) this.setBytes(index, value);
    else if (typeof value !== "object" || value === null) throw this.#typeError(index, value);
    else if ("buffer" in value) this.setBuffer(index, value.buffer);
    else if ("local" in value) this.setLocal(index, value.local);
    else throw this.#typeError(index, value);
  }

  /** Sets all arguments. */
  setArgs(args: readonly KernelArg[]): void {
    if (!Array.isArray(args)) requireValue(`launch ${this.name}`, "args", args, takes.list);
    if (args.length !== this.numArgs) {
      throw new TypeError(
        `Cannot launch ${this.name} with ${args.length} arguments: it declares ${this.numArgs}`,
      );
    }
    for (let index = 0; index < args.length; index++) this.setArg(index, args[index]!);
  }

  /**
   * Refuses to launch with memory that was released: the driver would follow a dangling handle.
   *
   * @throws {DisposedError} If the kernel was released, or an argument since it was set.
   */
  checkArgs(): void {
    // Each argument was live when it was set.
    if (this.#checkedAt === releases) return;
    void this.unsafeHandle;
    for (const object of this.#referred) void object?.unsafeHandle;
    this.#checkedAt = releases;
  }

  /** The memory and samplers that its arguments are set to. */
  get referred(): OpenCLObject<string>[] {
    void this.unsafeHandle;
    return this.#referred.filter((object) => object !== undefined);
  }

  /** The declaration of an argument; programs built by this library keep it. */
  argument(index: number): ArgumentInfo {
    const { NAME, TYPE_NAME, ADDRESS_QUALIFIER } = KernelArgInfo;
    const kernel = this.unsafeHandle;
    const call = "clGetKernelArgInfo";
    const ask: InfoCall = (parameter, size, value, out) =>
      cl.clGetKernelArgInfo(kernel, index, parameter, size, value, out);
    return {
      name: readers.string(ask, NAME, call),
      typeName: readers.string(ask, TYPE_NAME, call),
      addressSpace: addressSpaces[readers.u32(ask, ADDRESS_QUALIFIER, call) - 0x119B]!,
    };
  }

  /** The most work-items of a work-group of this kernel. */
  workGroupSize(device?: Device): number {
    return this.#workGroupInfo("size", WorkGroupInfo.WORK_GROUP_SIZE, device);
  }

  /** Multiples of this make the best work-group sizes. */
  preferredWorkGroupSizeMultiple(device?: Device): number {
    return this.#workGroupInfo("size", WorkGroupInfo.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device);
  }

  /** Bytes of local memory that a work-group uses, with the arguments that are set. */
  localMemSize(device?: Device): number {
    return this.#workGroupInfo("size", WorkGroupInfo.LOCAL_MEM_SIZE, device);
  }

  /** Bytes of private memory that a work-item uses. */
  privateMemSize(device?: Device): number {
    return this.#workGroupInfo("size", WorkGroupInfo.PRIVATE_MEM_SIZE, device);
  }

  /** The sizes of `reqd_work_group_size`, or three zeros. */
  compileWorkGroupSize(device?: Device): number[] {
    return this.#workGroupInfo("sizes", WorkGroupInfo.COMPILE_WORK_GROUP_SIZE, device);
  }

  /** A copy with the same arguments set, where the library has clCloneKernel (OpenCL 2.1). */
  clone(): Kernel {
    const errorCode = new Int32Array(1);
    const handle = cl.clCloneKernel(this.unsafeHandle, errorCode);
    check(errorCode[0]!, "clCloneKernel");
    const copy = new Kernel(handle);
    Object.assign(copy.#referred, this.#referred);
    return copy;
  }

  /** Refuses an argument of another kind than the kernel declares, where the driver tells. */
  #requireKind(index: number, kind: ArgumentKind): void {
    const declared = this.#kinds[index] ??= this.#kindOf(index);
    if (declared === kind || declared === "unknown") return;
    throw new TypeError(
      `Cannot set ${this.#argumentName(index)} to ${
        kind === "local" ? "local memory" : "bytes"
      }: ` +
        `it is declared as ${declared}`,
    );
  }

  #kindOf(index: number): ArgumentKind {
    try {
      const { addressSpace, typeName } = this.argument(index);
      if (addressSpace === "local") return "local";
      return addressSpace === "private" && !/^sampler_t\b/.test(typeName) ? "value" : "object";
    } catch (error) {
      const code = error instanceof OpenCLError ? error.code : 0;
      if (code === Status.CL_KERNEL_ARG_INFO_NOT_AVAILABLE) return "unknown";
      throw error;
    }
  }

  #info<K extends "string" | "u32">(kind: K, parameter: number): PropertyTypes[K] {
    const handle = this.unsafeHandle;
    return readers[kind](
      (name, size, value, out) => cl.clGetKernelInfo(handle, name, size, value, out),
      parameter,
      "clGetKernelInfo",
    );
  }

  #workGroupInfo<K extends "size" | "sizes">(
    kind: K,
    parameter: number,
    device?: Device,
  ): PropertyTypes[K] {
    const kernel = this.unsafeHandle;
    // 0 stands for the only device of the kernel's context.
    const id = device?.unsafeHandle ?? 0n as Handle<"Device">;
    return readers[kind](
      (name, size, value, out) => cl.clGetKernelWorkGroupInfo(kernel, id, name, size, value, out),
      parameter,
      "clGetKernelWorkGroupInfo",
    );
  }

  #typeError(index: number, value: unknown): TypeError {
    return new TypeError(
      `Cannot set ${this.#argumentName(index)} to ${shown(value)}: pass a Buffer, a handle of a ` +
        `pool, an Image, a Sampler, an SvmBuffer, a number, a typed array, or { local: bytes }`,
    );
  }

  #argumentError(status: number, index: number): OpenCLError {
    return new OpenCLError(status, "clSetKernelArg", this.#argumentName(index));
  }

  #argumentName(index: number): string {
    return `argument ${index} of ${this.name}`;
  }
}
