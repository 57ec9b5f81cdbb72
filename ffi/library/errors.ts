/**
 * Errors of the binding. A status becomes an exception in one place only: {@linkcode check}.
 *
 * @module
 */
import { Status } from "./constants.ts";

const names: ReadonlyMap<number, string> = new Map(
  Object.entries(Status).map(([name, code]) => [code, name]),
);

/** Cause and remedy of the codes that people meet. */
const hints: { readonly [code: number]: string } = {
  [Status.CL_DEVICE_NOT_FOUND]: "no device of that type is present: ask for another type",
  [Status.CL_DEVICE_NOT_AVAILABLE]: "the device is in use or was lost: choose another device",
  [Status.CL_COMPILER_NOT_AVAILABLE]:
    "this driver cannot compile OpenCL C: load a binary made elsewhere",
  [Status.CL_MEM_OBJECT_ALLOCATION_FAILURE]:
    "the device has no memory left for this object: release buffers or use smaller ones",
  [Status.CL_OUT_OF_RESOURCES]:
    "the device ran out of memory or registers, or an earlier kernel wrote out of bounds",
  [Status.CL_OUT_OF_HOST_MEMORY]: "the driver found no host memory: release buffers",
  [Status.CL_PROFILING_INFO_NOT_AVAILABLE]:
    "make the queue with { profiling: true } and wait for the event first",
  [Status.CL_MISALIGNED_SUB_BUFFER_OFFSET]:
    "the offset must be a multiple of the device's memBaseAddrAlign bits",
  [Status.CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST]: "a command that was waited for failed",
  [Status.CL_KERNEL_ARG_INFO_NOT_AVAILABLE]:
    'build the program from source with "-cl-kernel-arg-info"',
  [Status.CL_INVALID_BUFFER_SIZE]:
    "the size must be at least 1 byte and at most the device's maxMemAllocSize",
  [Status.CL_INVALID_ARG_SIZE]:
    "the value's size differs from the declared argument's: check its type",
  [Status.CL_INVALID_ARG_INDEX]: "the kernel has fewer arguments",
  [Status.CL_INVALID_KERNEL_ARGS]: "an argument has not been set",
  [Status.CL_INVALID_KERNEL_NAME]: "the program has no kernel of that name",
  [Status.CL_INVALID_PROGRAM_EXECUTABLE]: "build the program first, for this device",
  [Status.CL_INVALID_WORK_GROUP_SIZE]:
    "each local size must divide its global size, and their product stay within the kernel's limit",
  [Status.CL_INVALID_WORK_ITEM_SIZE]: "a local size exceeds the device's maxWorkItemSizes",
  [Status.CL_INVALID_GLOBAL_WORK_SIZE]: "global sizes must be at least 1",
  [Status.CL_INVALID_CONTEXT]: "the objects belong to different contexts, or theirs was released",
  [Status.CL_INVALID_VALUE]: "a size, an offset or a flag is out of range",
  [Status.CL_INVALID_OPERATION]: "this device or driver does not offer the function",
  [Status.CL_INVALID_EVENT_WAIT_LIST]:
    "an event of the wait list was released or is of another context",
  [Status.CL_INVALID_BINARY]: "the binary is damaged or was made for another device or driver",
  [Status.CL_INVALID_BUILD_OPTIONS]: "the compiler knows no such option",
  [Status.CL_PLATFORM_NOT_FOUND_KHR]: "no OpenCL driver is installed",
};

/** The name of a status code: `statusName(-5)` is `"CL_OUT_OF_RESOURCES"`. */
export function statusName(code: number): string {
  return names.get(code) ?? `unknown status ${code}`;
}

/** An OpenCL call failed. */
export class OpenCLError extends Error {
  /** The class, as in traces. */
  override readonly name: string = "OpenCLError";
  /** The status code, as in `-5`. */
  readonly code: number;
  /** The code's name, as in `"CL_OUT_OF_RESOURCES"`. */
  readonly codeName: string;
  /** The C function that returned it, as in `"clEnqueueNDRangeKernel"`. */
  readonly call: string;

  /**
   * Makes the error of a status.
   *
   * @param code The status code.
   * @param call The C function that returned it.
   * @param detail What was being done, if the name of the function does not say it.
   */
  constructor(code: number, call: string, detail?: string) {
    const hint = hints[code];
    super(
      `${call} failed with ${statusName(code)} (${code})` +
        (detail ? ` for ${detail}` : "") + (hint ? `: ${hint}` : ""),
    );
    this.code = code;
    this.codeName = statusName(code);
    this.call = call;
  }

  /** True when memory was short, so that releasing some may help. */
  get outOfMemory(): boolean {
    return this.code === Status.CL_MEM_OBJECT_ALLOCATION_FAILURE ||
      this.code === Status.CL_OUT_OF_RESOURCES || this.code === Status.CL_OUT_OF_HOST_MEMORY;
  }
}

/**
 * A command failed after it was enqueued; its status says so to everyone who asks. Other errors of
 * the same calls say that the driver did not answer: nothing is known about the command then.
 */
export class CommandFailedError extends OpenCLError {}

/** A program did not compile or link. */
export class KernelBuildError extends OpenCLError {
  /** The class, as in traces. */
  override readonly name: string = "KernelBuildError";
  /** The compiler's log. */
  readonly log: string;

  /**
   * Makes the error of a build.
   *
   * @param code The status of the build.
   * @param call The C function that failed.
   * @param log The compiler's log.
   * @param excerpt The source lines that the log names, for the message; none by default.
   */
  constructor(code: number, call: string, log: string, excerpt = "") {
    super(code, call);
    this.log = log;
    this.message += `\n${log.trim() || "The compiler left no log"}${excerpt ? `\n${excerpt}` : ""}`;
  }
}

/** There is no OpenCL to use, or not this part of it. The message says what to do. */
export class OpenCLUnavailableError extends Error {
  /** The class, as in traces. */
  override readonly name: string = "OpenCLUnavailableError";
}

/** An object was used after its release. */
export class DisposedError extends ReferenceError {
  /** The class, as in traces. */
  override readonly name: string = "DisposedError";
}

/**
 * Turns a status into an exception.
 *
 * @param status What the function returned.
 * @param call The C function's name.
 * @param detail What was being done.
 * @throws {OpenCLError} If `status` is negative.
 */
export function check(status: number, call: string, detail?: string): void {
  if (status < 0) throw new OpenCLError(status, call, detail);
}
