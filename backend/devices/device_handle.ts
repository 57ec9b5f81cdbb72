/**
 * One device that netcl can compute on: what it is called, and what was opened on it.
 *
 * This folder (`devices/`) finds devices, picks one by its selection string and knows which is
 * active. It imports `lifecycle/`, `sharing/`, the name of the built-in backend's strategy, `memory/`
 * and `ffi/`; the backends that compute import it. Devices come from the drivers; users get handles.
 */
import { CommandQueue, Context, type Device, type Platform } from "../../ffi/mod.ts";
import { awaitDeferred } from "../../ffi/events/context_work.ts";
import { runAll } from "../../ffi/host/run_all.ts";
import { destroyContextPools } from "../../memory/mod.ts";
import { ActiveDevices } from "./active_devices.ts";
import { strategyName } from "../cpu/strategy/strategy.ts";
import { installExitHooks } from "../lifecycle/exit_hooks.ts";
import { revokeAll } from "../sharing/shared_handles.ts";

/** The backends: OpenCL, and the built-in one that needs no driver. */
export type BackendName = "cl" | "cpu";

/** A backend that computes on the host: it needs no driver and has one device. */
type HostBackendName = Exclude<BackendName, "cl">;

/** Each device's description; a function, since a BLAS is searched for only when asked. */
const hostDevices: Readonly<Record<HostBackendName, () => string>> = {
  cpu: () => `built-in CPU backend (${cores()}, ${strategyName()})`,
};

/** The names of the backends that compute on the host. */
export const hostBackends: readonly HostBackendName[] = Object.keys(
  hostDevices,
) as HostBackendName[];

/** The names of all backends. */
export const backendNames: readonly BackendName[] = ["cl", ...hostBackends];

function cores(): string {
  const count = navigator.hardwareConcurrency;
  return `${count} core${count === 1 ? "" : "s"}`;
}

/** Kind of processor that a device is. */
export type DeviceType = "gpu" | "cpu" | "accel" | "other";

/** The four words of a handle that cost nothing to know. */
export interface DeviceDescription {
  /** The OpenCL platform, "NVIDIA CUDA"; "netcl" for the built-in backend. */
  readonly platformName: string;
  /** The device, "NVIDIA H100 80GB HBM3". */
  readonly deviceName: string;
  /** "cl" for an OpenCL device, "cpu" for the built-in backend. */
  readonly backend: BackendName;
  /** The kind of processor. */
  readonly deviceType: DeviceType;
}

/**
 * A device that tensors live on. Handles come from {@linkcode manager} and are one object a device
 * for the life of the program, so they compare with `===`. Context and queue are made when they
 * are first touched; after `shutdown()` the next touch makes new ones.
 */
export class DeviceHandle implements DeviceDescription {
  /** The OpenCL platform, "NVIDIA CUDA"; "netcl" for the built-in backend. */
  readonly platformName: string;
  /** "cl" for an OpenCL device, "cpu" for the built-in backend. */
  readonly backend: BackendName;
  /** The kind of processor. */
  readonly deviceType: DeviceType;
  /** The string that selects this very device: "cl:0:1" or "cpu". */
  readonly selector: string;
  /** The OpenCL device, null for the built-in backend. */
  readonly clDevice: Device | null;
  /** True when kernels may compute in half precision (cl_khr_fp16). */
  readonly fp16: boolean;
  readonly #description: DeviceDescription;
  #context: Context | null = null;
  #queue: CommandQueue | null = null;

  /**
   * Handles are made by the manager; ask `manager.default(selector)` or `manager.list()` for one.
   *
   * @param description The names.
   * @param selector The string that selects this device.
   * @param clDevice The OpenCL device, null for the built-in backend.
   */
  constructor(description: DeviceDescription, selector: string, clDevice: Device | null) {
    this.platformName = description.platformName;
    this.#description = description;
    this.backend = description.backend;
    this.deviceType = description.deviceType;
    this.selector = selector;
    this.clDevice = clDevice;
    this.fp16 = clDevice?.extensions.includes("cl_khr_fp16") ?? false;
  }

  /** The handle of an OpenCL device. */
  static forOpenCL(platform: Platform, device: Device, selector: string): DeviceHandle {
    return new DeviceHandle(
      {
        platformName: platform.name,
        deviceName: device.name,
        backend: "cl",
        deviceType: device.type,
      },
      selector,
      device,
    );
  }

  /** The handle of a backend that computes on the host. */
  static forHost(backend: Exclude<BackendName, "cl">): DeviceHandle {
    return new DeviceHandle(
      {
        platformName: "netcl",
        get deviceName(): string {
          return hostDevices[backend]();
        },
        backend,
        deviceType: "cpu",
      },
      backend,
      null,
    );
  }

  /**
   * The device, "NVIDIA H100 80GB HBM3"; for the built-in backend what multiplies its matrices is
   * told too: "built-in CPU backend (8 cores, OpenBLAS)".
   *
   * @throws {RangeError} When NETCL_CPU holds what it may not.
   */
  get deviceName(): string {
    return this.#description.deviceName;
  }

  /**
   * The OpenCL context, made when first asked for; null for the built-in backend.
   *
   * @throws {OpenCLError} When the driver refuses to make one.
   */
  get context(): Context | null {
    if (this.clDevice === null) return null;
    return this.#context ??= new Context(this.clDevice);
  }

  /**
   * The in-order compute queue, made when first asked for; null for the built-in backend. With the
   * first queue of the program the signal and exit handling starts (see `configureSignals`).
   *
   * @throws {OpenCLError} When the driver refuses to make one.
   * @throws {RangeError} When NETCL_SIGNALS or NETCL_SIGINT_GRACE_MS holds what it may not.
   */
  get queue(): CommandQueue | null {
    const context = this.context;
    if (context === null) return null;
    if (this.#queue === null) {
      installExitHooks(true);
      this.#queue = new CommandQueue(context, this.clDevice!, { profiling: true });
    }
    return this.#queue;
  }

  /** True when a context or a queue is open. */
  get isOpen(): boolean {
    return this.#context !== null;
  }

  /** Waits for what the queue was given; it makes none. */
  async finish(): Promise<void> {
    await this.#queue?.finish();
  }

  /** Gives queue and context back to the driver; their next use makes new ones. */
  close(): void {
    const queue = this.#queue, context = this.#context;
    this.#queue = null;
    this.#context = null;
    if (context === null) return;
    runAll([
      () => revokeAll(context),
      () => destroyContextPools(context),
      () => queue?.release(),
      // Else nobody may wait again, and what it marked would keep the queue and the context.
      () => void awaitDeferred(context.unsafeHandle),
      () => context.release(),
    ]);
  }

  /** "NVIDIA H100 80GB HBM3 (NVIDIA CUDA, cl:0:0)". */
  toString(): string {
    return this.clDevice === null
      ? this.deviceName
      : `${this.deviceName} (${this.platformName}, ${this.selector})`;
  }

  /**
   * Ends the block that `using dev = device(...)` opened: the device that was active before is
   * active again.
   *
   * @throws {Error} When another block, opened later, is still open.
   */
  [Symbol.dispose](): void {
    activeDevices.close(this);
  }
}

/** The active one of the devices. */
export const activeDevices: ActiveDevices<DeviceHandle> = new ActiveDevices();
