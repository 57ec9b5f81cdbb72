/**
 * Contexts: what devices share.
 *
 * @module
 */
import { ContextInfo, ContextProperties } from "../library/constants.ts";
import { Device, SubDevice } from "./device.ts";
import { check } from "../library/errors.ts";
import { readers } from "../library/info.ts";
import { cl } from "../library/library.ts";
import { OpenCLObject, releasers } from "./object.ts";
import { withProcessLock } from "../host/process_lock.ts";
import type { Handle } from "../symbols/types.ts";

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
  /** By device: its handle and those of what it is a part of. */
  readonly #lineages: ReadonlyMap<Device, readonly bigint[]>;

  /**
   * Makes a context.
   *
   * @param devices One device, or several of one platform.
   * @throws {RangeError} If there is none.
   */
  constructor(devices: Device | Device[]) {
    const list = Array.isArray(devices) ? [...devices] : [devices];
    for (const device of list) Device.require("create a context", device);
    const lineages = new Map(list.map((device) => [device, lineageOf(device)]));
    super("Context", createContext(list), releasers.context);
    this.devices = list;
    this.#lineages = lineages;
  }

  /**
   * True when the driver means one of the context's devices by a handle. PoCL names the whole device
   * where a part of it is meant. Holds for a part that was released, too: the context keeps it.
   */
  isNamedBy(device: Device, handle: bigint): boolean {
    return this.#lineages.get(device)?.includes(handle) ?? false;
  }

  /** The device that the driver means by a handle. */
  deviceOf(handle: Handle<"Device">): Device {
    const named = this.devices.filter((device) => this.isNamedBy(device, handle));
    return named.find((device) => this.#lineages.get(device)![0] === handle) ?? named[0] ??
      Device.of(handle);
  }

  /** The driver's count of references, for diagnosis. */
  get referenceCount(): number {
    const handle = this.unsafeHandle;
    return readers.u32(
      (parameter, size, value, out) => cl.clGetContextInfo(handle, parameter, size, value, out),
      ContextInfo.REFERENCE_COUNT,
      "clGetContextInfo",
    );
  }
}

function lineageOf(device: Device): bigint[] {
  const lineage: bigint[] = [device.unsafeHandle];
  if (!(device instanceof SubDevice)) return lineage;
  for (let parent = device.query("PARENT_DEVICE"); parent !== 0n;) {
    lineage.push(parent);
    parent = Device.of(parent as Handle<"Device">).query("PARENT_DEVICE");
  }
  return lineage;
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
  const handle = withProcessLock(() =>
    cl.clCreateContext(properties, handles.length, handles, 0n, 0n, errorCode)
  );
  check(errorCode[0]!, "clCreateContext");
  return handle;
}
