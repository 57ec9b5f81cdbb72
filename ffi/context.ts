/**
 * Contexts: what devices share.
 *
 * @module
 */
import { ContextInfo, ContextProperties } from "./constants.ts";
import type { Device } from "./device.ts";
import { check } from "./errors.ts";
import { readers } from "./info.ts";
import { cl } from "./library.ts";
import { OpenCLObject, releasers } from "./object.ts";
import type { Handle } from "./symbols/types.ts";

const errorCode = new Int32Array(1);

/**
 * A context of one device, or of several of one platform: buffers and programs belong to it.
 *
 * @example
 * ```ts
 * import { Context, platforms } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices());
 * console.log(context.devices.length);
 * ```
 */
export class Context extends OpenCLObject<"Context"> {
  /** Its devices. */
  readonly devices: Device[];

  /**
   * Makes a context.
   *
   * @param devices One device, or several of one platform.
   * @throws {RangeError} If there is none.
   */
  constructor(devices: Device | Device[]) {
    const list = Array.isArray(devices) ? [...devices] : [devices];
    super("Context", createContext(list), releasers.context);
    this.devices = list;
  }

  /** How many references the driver counts, for diagnosis. */
  get referenceCount(): number {
    const handle = this.unsafeHandle;
    return readers.u32(
      (parameter, size, value, out) => cl.clGetContextInfo(handle, parameter, size, value, out),
      ContextInfo.REFERENCE_COUNT,
      "clGetContextInfo",
    );
  }
}

function createContext(devices: readonly Device[]): Handle<"Context"> {
  if (devices.length === 0) {
    throw new RangeError("Cannot create a context of no devices: pass at least one");
  }
  const platform = devices[0]!.query("PLATFORM");
  // The driver would take the devices of another one for its own.
  if (devices.some((device) => device.query("PLATFORM") !== platform)) {
    throw new RangeError("Cannot create a context of devices of several platforms: pass one's");
  }
  const properties = new BigUint64Array([ContextProperties.PLATFORM, platform, 0n]);
  const handles = new BigUint64Array(devices.map((device) => device.unsafeHandle));
  const handle = cl.clCreateContext(properties, handles.length, handles, 0n, 0n, errorCode);
  check(errorCode[0]!, "clCreateContext");
  return handle;
}
