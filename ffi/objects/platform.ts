/**
 * Platforms: the installed OpenCL drivers.
 *
 * @module
 */
import { DeviceType, PlatformInfo, Status } from "../library/constants.ts";
import { Device } from "./device.ts";
import { check, OpenCLUnavailableError } from "../library/errors.ts";
import { type InfoCall, readers } from "../library/info.ts";
import { cl, libraryPath } from "../library/library.ts";
import type { Handle } from "../symbols/types.ts";

const deviceTypes = {
  all: DeviceType.ALL,
  gpu: DeviceType.GPU,
  cpu: DeviceType.CPU,
  accelerator: DeviceType.ACCELERATOR,
} as const;

/** One OpenCL driver and its devices. There is one object a platform. */
export class Platform {
  static readonly #known = new Map<bigint, Platform>();
  readonly #ask: InfoCall;
  /** The raw handle, for calls that this library does not wrap. */
  readonly unsafeHandle: Handle<"Platform">;

  private constructor(handle: Handle<"Platform">) {
    this.unsafeHandle = handle;
    this.#ask = (parameter, size, value, sizeOut) =>
      cl.clGetPlatformInfo(handle, parameter, size, value, sizeOut);
  }

  /** The platform of a raw handle. */
  static of(handle: Handle<"Platform">): Platform {
    let platform = Platform.#known.get(handle);
    if (platform === undefined) Platform.#known.set(handle, platform = new Platform(handle));
    return platform;
  }

  /** Its name, as in `"Portable Computing Language"`. */
  get name(): string {
    return readers.string(this.#ask, PlatformInfo.NAME, "clGetPlatformInfo");
  }

  /** Who made it. */
  get vendor(): string {
    return readers.string(this.#ask, PlatformInfo.VENDOR, "clGetPlatformInfo");
  }

  /** Its OpenCL version, as in `"OpenCL 3.0 ..."`. */
  get version(): string {
    return readers.string(this.#ask, PlatformInfo.VERSION, "clGetPlatformInfo");
  }

  /** `"FULL_PROFILE"` or `"EMBEDDED_PROFILE"`. */
  get profile(): string {
    return readers.string(this.#ask, PlatformInfo.PROFILE, "clGetPlatformInfo");
  }

  /** The names of its extensions. */
  get extensions(): string[] {
    return readers.words(this.#ask, PlatformInfo.EXTENSIONS, "clGetPlatformInfo");
  }

  /** Its devices of a type; an empty list where it has none. */
  devices(type: "all" | "gpu" | "cpu" | "accelerator" = "all"): Device[] {
    const handles = list(
      "clGetDeviceIDs",
      Status.CL_DEVICE_NOT_FOUND,
      (count, ids, out) => cl.clGetDeviceIDs(this.unsafeHandle, deviceTypes[type], count, ids, out),
    );
    return Array.from(handles, (handle) => Device.of(handle as Handle<"Device">));
  }

  /** Lets the driver free its compiler's memory until the next build. */
  unloadCompiler(): void {
    check(cl.clUnloadPlatformCompiler(this.unsafeHandle), "clUnloadPlatformCompiler");
  }
}

/** Asks for the count, then for the handles. `none` is the status that stands for an empty list. */
function list(
  call: string,
  none: number,
  ask: (count: number, ids: BigUint64Array | null, out: Uint32Array | null) => number,
): BigUint64Array {
  const count = new Uint32Array(1);
  const status = ask(0, null, count);
  if (status === none) return new BigUint64Array(0);
  check(status, call);
  const handles = new BigUint64Array(count[0]!);
  if (handles.length > 0) check(ask(handles.length, handles, null), call);
  return handles;
}

/**
 * The platforms of this machine. Opens the OpenCL library.
 *
 * @throws {OpenCLUnavailableError} If there is no library, no permission or no driver.
 *
 * @example
 * ```ts
 * import { platforms } from "@netcl/netcl/ffi";
 *
 * for (const platform of platforms()) {
 *   for (const device of platform.devices()) {
 *     console.log(`${platform.name}: ${device.name}, ${device.globalMemSize} bytes`);
 *   }
 * }
 * ```
 */
export function platforms(): Platform[] {
  const handles = list(
    "clGetPlatformIDs",
    Status.CL_PLATFORM_NOT_FOUND_KHR,
    (count, ids, out) => cl.clGetPlatformIDs(count, ids, out),
  );
  if (handles.length === 0) {
    throw new OpenCLUnavailableError(
      `Cannot find an OpenCL driver: ${libraryPath} knows no platform.\n` +
        "What to do: install the driver of your GPU, or PoCL for the CPU (pocl-opencl-icd); " +
        "check OCL_ICD_VENDORS if it is set",
    );
  }
  return Array.from(handles, (handle) => Platform.of(handle as Handle<"Platform">));
}

/** Whether there is an OpenCL library with at least one platform. Never throws. */
export function isOpenCLAvailable(): boolean {
  try {
    return platforms().length > 0;
  } catch {
    return false;
  }
}
