/**
 * Platforms and devices, and what they say about themselves. A platform lists its devices and a
 * device tells its platform: two classes that know each other, in one file.
 *
 * @module
 */
import { shown } from "../host/options.ts";
import { withProcessLock } from "../host/process_lock.ts";
import { DeviceInfo, DeviceType, PlatformInfo, Status } from "../library/constants.ts";
import { deviceProperties, type DevicePropertyName } from "./device_info.ts";
import { check } from "../library/errors.ts";
import { type InfoCall, type PropertyTypes, readers } from "../library/info.ts";
import { cl } from "../library/library.ts";
import { keepingSignals } from "../library/signals.ts";
import { OpenCLObject, ownAll, releasers } from "./object.ts";
import { listHandles } from "../library/handle_list.ts";
import { type DevicePartitioning, partitionProperties } from "./device_partition.ts";
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

  /** Its maker. */
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
    const handles = listHandles(
      "clGetDeviceIDs",
      Status.CL_DEVICE_NOT_FOUND,
      // The first call starts the driver.
      (count, ids, out) =>
        withProcessLock(() =>
          keepingSignals(() =>
            cl.clGetDeviceIDs(this.unsafeHandle, deviceTypes[type], count, ids, out)
          )
        ),
    );
    return Array.from(handles, (handle) => Device.of(handle as Handle<"Device">));
  }

  /** Lets the driver free its compiler's memory until the next build. */
  unloadCompiler(): void {
    check(cl.clUnloadPlatformCompiler(this.unsafeHandle), "clUnloadPlatformCompiler");
  }
}

/**
 * A device of a platform. There is one object a device: they can be compared with `===`. Every
 * getter asks the driver; {@linkcode Device.query} reaches every property of cl.h by name.
 */
export class Device {
  static readonly #known = new Map<bigint, Device>();
  readonly #handle: Handle<"Device">;
  readonly #ask: InfoCall;

  /** Devices come from platforms. */
  protected constructor(handle: Handle<"Device">) {
    this.#handle = handle;
    this.#ask = (parameter, size, value, sizeOut) =>
      cl.clGetDeviceInfo(this.unsafeHandle, parameter, size, value, sizeOut);
  }

  /** The raw handle, for calls that this library does not wrap. */
  get unsafeHandle(): Handle<"Device"> {
    return this.#handle;
  }

  /**
   * Refuses what is no device.
   *
   * @param action What the call does, for messages.
   * @throws {TypeError} When it is something else.
   */
  static require(action: string, value: unknown): void {
    if (typeof value === "object" && value !== null && #handle in value) return;
    throw new TypeError(`Cannot ${action} with ${shown(value)}: pass a Device`);
  }

  /** The device of a raw handle. */
  static of(handle: Handle<"Device">): Device {
    let device = Device.#known.get(handle);
    if (device === undefined) Device.#known.set(handle, device = new Device(handle));
    return device;
  }

  /**
   * Asks for a property by its name in cl.h, less `CL_DEVICE_`.
   *
   * @throws {OpenCLError} If the driver does not know the property.
   *
   * @example
   * ```ts
   * import { platforms } from "@netcl/netcl/ffi";
   *
   * console.log(platforms()[0]!.devices()[0]!.query("MAX_WORK_ITEM_SIZES"));
   * ```
   */
  query<K extends DevicePropertyName>(property: K): PropertyTypes[(typeof deviceProperties)[K]] {
    const read = readers[deviceProperties[property]];
    return read(this.#ask, DeviceInfo[property], "clGetDeviceInfo");
  }

  /** Its name. */
  get name(): string {
    return this.query("NAME");
  }

  /** Its maker. */
  get vendor(): string {
    return this.query("VENDOR");
  }

  /** The OpenCL version that it offers, as in `"OpenCL 3.0 ..."`. */
  get version(): string {
    return this.query("VERSION");
  }

  /** The OpenCL version as numbers, as in `[3, 0]`. */
  get versionNumbers(): readonly [major: number, minor: number] {
    const [, major = "1", minor = "0"] = /(\d+)\.(\d+)/.exec(this.version) ?? [];
    return [Number(major), Number(minor)];
  }

  /** The version of its driver. */
  get driverVersion(): string {
    return this.query("DRIVER_VERSION");
  }

  /** The kind of device. */
  get type(): "gpu" | "cpu" | "accel" | "other" {
    const type = this.query("TYPE");
    if (type & DeviceType.GPU) return "gpu";
    if (type & DeviceType.CPU) return "cpu";
    return type & DeviceType.ACCELERATOR ? "accel" : "other";
  }

  /** The names of its extensions. */
  get extensions(): string[] {
    return this.query("EXTENSIONS");
  }

  /** Its cores, multiprocessors or the like. */
  get maxComputeUnits(): number {
    return this.query("MAX_COMPUTE_UNITS");
  }

  /** Bytes of its memory. */
  get globalMemSize(): number {
    return this.query("GLOBAL_MEM_SIZE");
  }

  /** The largest buffer in bytes. */
  get maxMemAllocSize(): number {
    return this.query("MAX_MEM_ALLOC_SIZE");
  }

  /** Bytes of local memory that a work-group can use. */
  get localMemSize(): number {
    return this.query("LOCAL_MEM_SIZE");
  }

  /** The most work-items of a work-group. */
  get maxWorkGroupSize(): number {
    return this.query("MAX_WORK_GROUP_SIZE");
  }

  /** The most work-items of a work-group in each dimension. */
  get maxWorkItemSizes(): number[] {
    return this.query("MAX_WORK_ITEM_SIZES");
  }

  /** Alignment of sub-buffers, in bits, as OpenCL counts it. */
  get memBaseAddrAlign(): number {
    return this.query("MEM_BASE_ADDR_ALIGN");
  }

  /** True when it shares the host's memory. */
  get hostUnifiedMemory(): boolean {
    return this.query("HOST_UNIFIED_MEMORY");
  }

  /** The platform that it belongs to. */
  get platform(): Platform {
    return Platform.of(this.query("PLATFORM") as Handle<"Platform">);
  }

  /**
   * Divides the device into sub-devices, each of which can have a context of its own.
   *
   * @throws {OpenCLError} If the device cannot be divided so.
   */
  partition(how: DevicePartitioning): SubDevice[] {
    const properties = partitionProperties(how);
    const count = new Uint32Array(1), call = "clCreateSubDevices";
    const { unsafeHandle } = this;
    // Mesa's rusticl 22.3 divides nothing, and has no such function: the call would end the process.
    if (!this.query("PARTITION_PROPERTIES").includes(properties[0]!)) {
      check(Status.CL_INVALID_VALUE, call, `the device ${this.name}, which cannot be divided so`);
    }
    check(cl.clCreateSubDevices(unsafeHandle, properties, 0, null, count), call);
    const handles = new BigUint64Array(count[0]!);
    check(cl.clCreateSubDevices(unsafeHandle, properties, count[0]!, handles, null), call);
    return ownAll(
      handles,
      releasers.device,
      (handle) => new SubDevice(handle as Handle<"Device">),
    );
  }
}

class SubDeviceOwner extends OpenCLObject<"Device"> {
  constructor(handle: Handle<"Device">) {
    super("SubDevice", handle, releasers.device);
  }
}

/**
 * A part of a device. Unlike a device it has to be released; contexts and programs that were made
 * with it stay, but it can be asked for nothing then.
 */
export class SubDevice extends Device implements Disposable {
  readonly #owner: SubDeviceOwner;

  /** Takes over one reference to a sub-device. */
  constructor(handle: Handle<"Device">) {
    super(handle);
    this.#owner = new SubDeviceOwner(handle);
  }

  /**
   * The raw handle, for calls that this library does not wrap. Valid until `release()`.
   *
   * @throws {DisposedError} If it was released.
   */
  override get unsafeHandle(): Handle<"Device"> {
    return this.#owner.unsafeHandle;
  }

  /** True when `release()` was called. */
  get released(): boolean {
    return this.#owner.released;
  }

  /** Gives it back to the driver. Further calls do nothing. */
  release(): void {
    this.#owner.release();
  }

  /** Releases it, for `using`. */
  [Symbol.dispose](): void {
    this.release();
  }
}
