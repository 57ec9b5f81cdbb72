/**
 * Programs: from source, binary or SPIR-V to kernels.
 *
 * @module
 */
import { sourceExcerpt } from "./build_log.ts";
import { passedOptions } from "./build_options.ts";
import { ProgramBuildInfo, ProgramInfo, Status } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { Device } from "../objects/device.ts";
import { check, DisposedError, KernelBuildError, OpenCLError } from "../library/errors.ts";
import { lockProcess } from "../host/process_lock.ts";
import { holdDuring } from "../library/hold.ts";
import { type PropertyTypes, readers } from "../library/info.ts";
import { Kernel } from "./kernel.ts";
import { cl } from "../library/library.ts";
import { withAddresses } from "./memory_address.ts";
import { requireValue } from "../host/options.ts";
import * as takes from "../host/option_rules.ts";
import { OpenCLObject, ownAll, releasers, requireObject } from "../objects/object.ts";
import type { Handle } from "../symbols/types.ts";
import { underPolicy } from "../events/waiting.ts";

/** A program that others include when they are compiled. */
export interface Header {
  /** The name between the quotes of `#include "name"`. */
  readonly name: string;
  /** A program made from the header's text. */
  readonly program: Program;
}

/** A program whose handle the caller made. */
export interface ExistingProgram {
  /** A handle with one reference, which passes to the new object. */
  readonly handle: Handle<"Program">;
}

const existing = takes.object("OpenCL C as a string, or { handle } of a program");
const encoder = new TextEncoder();
const cString = (value: string): Uint8Array<ArrayBuffer> => encoder.encode(value + "\0");
const errorCode = new Int32Array(1);
const buildFailures: readonly number[] = [
  Status.CL_BUILD_PROGRAM_FAILURE,
  Status.CL_COMPILE_PROGRAM_FAILURE,
  Status.CL_LINK_PROGRAM_FAILURE,
];

let hasBuilt = false;

/** Drivers load their compilers at the first build, and not all of them are ready for several threads then. */
function lockFirstBuild(): Disposable | null {
  return hasBuilt ? null : lockProcess();
}

/**
 * A program, with one or more kernels.
 *
 * @example
 * ```ts
 * import { Context, platforms, Program } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices()[0]!);
 * using program = new Program(context, "kernel void f(global float* x) { x[0] = 1; }").build();
 * console.log(program.kernelNames);
 * ```
 */
export class Program extends OpenCLObject<"Program"> {
  /** The context that it belongs to. */
  readonly context: Context;
  readonly #source: string;

  /**
   * Makes a program from source.
   *
   * @param context The context that it belongs to.
   * @param source OpenCL C, or a program that exists. Nothing is compiled yet.
   */
  constructor(context: Context, source: string | ExistingProgram) {
    requireObject("make a Program", context, "Context");
    if (typeof source !== "string") requireValue("make a Program", "source", source, existing);
    const handle = typeof source === "string" ? fromSource(context, source) : source.handle;
    super("Program", handle, releasers.program);
    this.context = context;
    this.#source = typeof source === "string" ? source : "";
  }

  /**
   * A program from what {@linkcode Program.binary} returned, on the same device and driver. It must
   * be built as well, which is quick.
   *
   * @throws {OpenCLError} `CL_INVALID_BINARY` if the driver refuses it.
   */
  static fromBinary(context: Context, device: Device, binary: Uint8Array): Program {
    requireObject("make a Program of a binary", context, "Context");
    Device.require("make a Program of a binary", device);
    requireValue("make a Program", "binary", binary, takes.arrayView);
    const copy = new Uint8Array(binary);
    const status = new Int32Array(1);
    const handle = withAddresses([copy], context, (addresses) =>
      cl.clCreateProgramWithBinary(
        context.unsafeHandle,
        1,
        new BigUint64Array([device.unsafeHandle]),
        new BigUint64Array([BigInt(copy.byteLength)]),
        addresses,
        status,
        errorCode,
      ));
    check(errorCode[0]!, "clCreateProgramWithBinary");
    return new Program(context, { handle });
  }

  /**
   * A program from an intermediate language, such as SPIR-V, where the device offers it: see
   * `device.query("IL_VERSION")`.
   */
  static fromIL(context: Context, il: Uint8Array): Program {
    requireObject("make a Program of IL", context, "Context");
    requireValue("make a Program", "il", il, takes.arrayView);
    const size = BigInt(il.byteLength);
    const handle = cl.clCreateProgramWithIL(context.unsafeHandle, il, size, errorCode);
    check(errorCode[0]!, "clCreateProgramWithIL");
    return new Program(context, { handle });
  }

  /** A program of kernels that the devices have built in. */
  static fromBuiltInKernels(context: Context, devices: Device[], names: string[]): Program {
    requireObject("make a Program of built-in kernels", context, "Context");
    const handle = cl.clCreateProgramWithBuiltInKernels(
      context.unsafeHandle,
      devices.length,
      deviceList(devices),
      cString(names.join(";")),
      errorCode,
    );
    check(errorCode[0]!, "clCreateProgramWithBuiltInKernels", names.join(", "));
    return new Program(context, { handle });
  }

  /**
   * Links compiled programs to an executable one.
   *
   * @param context The context of all of them.
   * @param programs What was compiled.
   * @param options Options of the linker; none by default.
   * @throws {KernelBuildError} If it fails.
   */
  static link(context: Context, programs: Program[], options = ""): Program {
    requireObject("link programs", context, "Context");
    for (const program of programs) requireObject("link programs", program, "Program");
    const handles = new BigUint64Array(programs.map((program) => program.unsafeHandle));
    const handle = cl.clLinkProgram(
      context.unsafeHandle,
      0,
      null,
      cString(options),
      handles.length,
      handles,
      0n,
      0n,
      errorCode,
    );
    const status = errorCode[0]!;
    if (handle === 0n) checkBuild(status, "clLinkProgram", "", "");
    const linked = new Program(context, { handle });
    try {
      linked.#check(status, "clLinkProgram");
      return linked;
    } catch (error) {
      linked.release();
      throw error;
    }
  }

  /**
   * Compiles and links it for every device of the context. Blocks meanwhile; {@linkcode
   * Program.buildAsync} does not.
   *
   * @param options Options of the compiler, as in `"-D N=4 -cl-fast-relaxed-math"`; none by
   *   default.
   * @throws {KernelBuildError} With the compiler's log and the source lines that it names.
   */
  build(options = ""): this {
    const text = cString(this.buildOptions(options));
    using _lock = lockFirstBuild();
    this.#check(cl.clBuildProgram(this.unsafeHandle, 0, null, text, 0n, 0n), "clBuildProgram");
    hasBuilt = true;
    return this;
  }

  /**
   * Options as {@linkcode Program.build} passes them (default: none), for who builds it through its
   * handle in another thread, with the same result.
   */
  buildOptions(options = ""): string {
    return passedOptions(options, this.#source, this.context);
  }

  /** Builds as {@linkcode Program.build} does, without blocking the event loop. */
  buildAsync(options = ""): Promise<this> {
    return underPolicy(this.#buildElsewhere(options));
  }

  /** Goes on to its end, also when its caller gives up waiting: the driver uses the program. */
  async #buildElsewhere(options: string): Promise<this> {
    const text = cString(this.buildOptions(options));
    const handle = this.unsafeHandle;
    check(cl.clRetainProgram(handle), "clRetainProgram"); // its owner may release it meanwhile
    try {
      using _lock = lockFirstBuild();
      const status = await holdDuring(
        text,
        cl.clBuildProgramAsync(handle, 0, null, text, 0n, 0n),
      );
      this.#check(status, "clBuildProgram");
      hasBuilt = true;
    } finally {
      check(cl.clReleaseProgram(handle), "clReleaseProgram");
    }
    return this;
  }

  /**
   * Compiles it without linking: see {@linkcode Program.link}.
   *
   * @throws {KernelBuildError} With the compiler's log and the source lines that it names.
   */
  compile(options = "", headers: Header[] = []): this {
    requireValue("compile a program", "options", options, takes.text);
    requireValue("compile a program", "headers", headers, takes.list);
    for (const { program } of headers) requireObject("compile with headers", program, "Program");
    const names = headers.map(({ name }) => cString(name));
    const count = headers.length;
    const status = withAddresses(names, this.context, (addresses) =>
      cl.clCompileProgram(
        this.unsafeHandle,
        0,
        null,
        cString(this.buildOptions(options)),
        count,
        count ? new BigUint64Array(headers.map(({ program }) => program.unsafeHandle)) : null,
        count ? addresses : null,
        0n,
        0n,
      ));
    this.#check(status, "clCompileProgram");
    return this;
  }

  /** Sets a specialization constant of SPIR-V, before the build. */
  setSpecializationConstant(id: number, value: ArrayBufferView): void {
    const size = BigInt(value.byteLength);
    check(
      cl.clSetProgramSpecializationConstant(this.unsafeHandle, id, size, value),
      "clSetProgramSpecializationConstant",
    );
  }

  /**
   * A kernel of it.
   *
   * @throws {OpenCLError} If there is none of that name, or the program is not built.
   */
  kernel(name: string): Kernel {
    requireValue("make a kernel", "name", name, takes.text);
    const handle = cl.clCreateKernel(this.unsafeHandle, cString(name), errorCode);
    check(errorCode[0]!, "clCreateKernel", `kernel "${name}"`);
    return new Kernel(handle);
  }

  /** All of its kernels. */
  kernels(): Kernel[] {
    const count = new Uint32Array(1), call = "clCreateKernelsInProgram";
    check(cl.clCreateKernelsInProgram(this.unsafeHandle, 0, null, count), call);
    const handles = new BigUint64Array(count[0]!);
    check(cl.clCreateKernelsInProgram(this.unsafeHandle, count[0]!, handles, null), call);
    return ownAll(handles, releasers.kernel, (handle) => new Kernel(handle as Handle<"Kernel">));
  }

  /** The names of its kernels, once it is built. */
  get kernelNames(): string[] {
    return this.#info("list", ProgramInfo.KERNEL_NAMES);
  }

  /** The devices that it is for. */
  get devices(): Device[] {
    return this.#info("bitsList", ProgramInfo.DEVICES)
      .map((handle) => this.context.deviceOf(handle as Handle<"Device">));
  }

  /** The compiler's log on a device; may be empty. */
  log(device: Device): string {
    Device.require("read a build log", device);
    const program = this.unsafeHandle;
    return readers.string(
      (parameter, size, value, out) =>
        cl.clGetProgramBuildInfo(program, device.unsafeHandle, parameter, size, value, out),
      ProgramBuildInfo.BUILD_LOG,
      "clGetProgramBuildInfo",
    );
  }

  /**
   * The machine code for a device, to be kept and given to {@linkcode Program.fromBinary}.
   *
   * @throws {RangeError} If the program was not made for that device.
   */
  binary(device: Device): Uint8Array<ArrayBuffer> {
    Device.require("get a binary", device);
    const handles = this.#info("bitsList", ProgramInfo.DEVICES);
    const index = handles.findIndex((handle) => this.context.isNamedBy(device, handle));
    if (index < 0) {
      throw new RangeError(`Cannot get a binary for "${device.name}": the program is not for it`);
    }
    const sizes = this.#info("sizes", ProgramInfo.BINARY_SIZES);
    const binary = new Uint8Array(sizes[index]!);
    if (binary.length === 0) {
      throw new RangeError(`Cannot get a binary for "${device.name}": build the program first`);
    }
    const status = withAddresses([binary], this.context, ([address]) => {
      // A null pointer skips a device, so only the one that was asked for is copied.
      const pointers = new BigUint64Array(sizes.length);
      pointers[index] = address!;
      const size = BigInt(pointers.byteLength), parameter = ProgramInfo.BINARIES;
      return cl.clGetProgramInfo(this.unsafeHandle, parameter, size, pointers, null);
    });
    check(status, "clGetProgramInfo");
    return binary;
  }

  #info<K extends "list" | "bitsList" | "sizes">(
    kind: K,
    parameter: number,
  ): PropertyTypes[K] {
    const handle = this.unsafeHandle;
    return readers[kind](
      (name, size, value, out) => cl.clGetProgramInfo(handle, name, size, value, out),
      parameter,
      "clGetProgramInfo",
    );
  }

  /** That the log cannot be read must not hide that the build failed. */
  #logOrWhy(device: Device): string {
    try {
      return this.log(device);
    } catch (error) {
      if (error instanceof OpenCLError || error instanceof DisposedError) {
        return `The log cannot be read: ${error.message}`;
      }
      throw error;
    }
  }

  #check(status: number, call: string): void {
    if (status >= 0) return;
    const logs = buildFailures.includes(status)
      ? this.context.devices.map((device) => this.#logOrWhy(device)).filter((log) => log !== "")
      : [];
    checkBuild(status, call, this.#source, logs.join("\n"));
  }
}

function checkBuild(status: number, call: string, source: string, log: string): void {
  if (buildFailures.includes(status)) {
    throw new KernelBuildError(status, call, log, sourceExcerpt(source, log));
  }
  check(status, call, log || undefined);
}

function deviceList(devices: readonly Device[]): BigUint64Array {
  for (const device of devices) Device.require("make a Program of built-in kernels", device);
  return new BigUint64Array(devices.map((device) => device.unsafeHandle));
}

function fromSource(context: Context, source: string): Handle<"Program"> {
  const text = cString(source);
  const handle = withAddresses(
    [text],
    context,
    (pointer) => cl.clCreateProgramWithSource(context.unsafeHandle, 1, pointer, null, errorCode),
  );
  check(errorCode[0]!, "clCreateProgramWithSource");
  return handle;
}
