/**
 * Finds the devices and picks one: `manager`, the selection strings and NETCL_DEVICE. Nothing is
 * opened before the first device is asked for.
 */
import { host } from "../../ffi/runtime/host.ts";
import { OpenCLError, OpenCLUnavailableError, type Platform, platforms } from "../../ffi/mod.ts";
import { readEnvironment } from "../../ffi/host/environment.ts";
import { localRank } from "../../ffi/host/local_ranks.ts";
import { activeDevices, DeviceHandle, hostBackends } from "./device_handle.ts";

export {
  type BackendName,
  type DeviceDescription,
  DeviceHandle,
  type DeviceType,
} from "./device_handle.ts";

const SELECTORS = '"auto", "gpu", "cl", "cpu" or "cl:PLATFORM:DEVICE" such as "cl:0:1"';
const HOW_TO_INSTALL = "install the driver of your GPU, or PoCL for the processor " +
  "(Debian, Ubuntu: apt install pocl-opencl-icd)";
const PREFERENCE = ["gpu", "accel", "cpu", "other"] as const;
const TYPE_NAMES = { gpu: "GPU", accel: "accelerator", cpu: "CPU", other: "device" } as const;

/** Result of a search for OpenCL devices. */
interface Search {
  readonly handles: readonly DeviceHandle[];
  /** Reasons why there is none, or errors beside those that there are. */
  readonly problems: readonly string[];
  readonly cause?: unknown;
}

/** A device, and in words why it was this one. */
interface Choice {
  readonly handle: DeviceHandle;
  readonly reason: string;
}

/**
 * Knows every device of this machine. Use the one instance, {@linkcode manager}.
 */
export class DeviceManager {
  readonly #host = new Map<string, DeviceHandle>(
    hostBackends.map((name) => [name, DeviceHandle.forHost(name)]),
  );
  #openCL: readonly DeviceHandle[] | null = null;
  readonly #choices = new Map<string, Choice>();
  readonly #reasons = new WeakMap<DeviceHandle, string>();

  /**
   * The device that a selection string means.
   *
   * - "auto" (the default): NETCL_DEVICE where that is set, else an OpenCL GPU, else an OpenCL
   *   accelerator, else an OpenCL CPU, else the built-in backend. It never fails for want of OpenCL.
   *   Where there are several of a kind, processes that mpirun started on one host take one each.
   * - "gpu": an OpenCL GPU.
   * - "cl": the best OpenCL device.
   * - "cpu": the built-in backend.
   * - "cl:PLATFORM:DEVICE": an OpenCL device by its position, "cl:0:1".
   *
   * @param selector The selection string.
   * @returns The handle; the same one every time.
   * @throws {RangeError} When the string is not one of these, or names a device that is not there.
   * @throws {OpenCLUnavailableError} When an OpenCL device is asked for and there is none.
   *
   * @example The best device of the machine
   * ```ts
   * import { manager } from "@netcl/netcl/backend";
   *
   * const best = manager.default();
   * console.log(best.deviceName, best.fp16);
   * ```
   */
  default(selector: string = "auto"): DeviceHandle {
    const known = this.#choices.get(selector);
    if (known !== undefined) {
      this.#reasons.set(known.handle, known.reason);
      return known.handle;
    }
    const choice = selector === "auto" ? this.#auto() : this.#select(selector);
    this.#choices.set(selector, choice);
    this.#reasons.set(choice.handle, choice.reason);
    return choice.handle;
  }

  /**
   * A handle from a selection string, or the handle itself.
   *
   * @param selector A selection string, see {@linkcode DeviceManager.default}, or a handle.
   * @throws {RangeError} When the string is not one, or names a device that is not there.
   * @throws {OpenCLUnavailableError} When an OpenCL device is asked for and there is none.
   */
  resolve(selector: string | DeviceHandle): DeviceHandle {
    if (typeof selector === "string") return this.default(selector);
    if (selector instanceof DeviceHandle) return selector;
    throw new TypeError(
      `Cannot select device ${
        host.inspect(selector)
      }: pass ${SELECTORS}, or a handle of the manager`,
    );
  }

  /**
   * Every device: those of OpenCL by platform and position, then the host's, which needs no driver.
   * Never throws; without OpenCL the host's is alone.
   */
  list(): DeviceHandle[] {
    return [...this.#search().handles, ...this.#host.values()];
  }

  /** The devices on which a context or a queue is open. */
  opened(): DeviceHandle[] {
    return (this.#openCL ?? []).filter((handle) => handle.isOpen);
  }

  /**
   * The device that tensors are made on when none is named: that of the innermost `withDevice` or
   * `using device(...)`, else `manager.default()`.
   */
  get active(): DeviceHandle {
    return activeDevices.current ?? this.default();
  }

  /**
   * One line for people: which device this is and why it was picked.
   *
   * @param handle The device; by default the active one.
   *
   * @example
   * ```ts
   * import { manager } from "@netcl/netcl/backend";
   *
   * console.log(manager.describeChoice(manager.default("cpu")));
   * // built-in CPU backend (8 cores, OpenBLAS): asked for as "cpu"
   * ```
   */
  describeChoice(handle: DeviceHandle = this.active): string {
    const { clDevice, deviceName, deviceType, selector } = handle;
    const name = clDevice === null
      ? deviceName
      : `OpenCL ${TYPE_NAMES[deviceType]} ${deviceName} (${selector})`;
    return `${name}: ${this.#reasons.get(handle) ?? "not chosen by anyone yet"}`;
  }

  #builtIn(): DeviceHandle {
    return this.#host.get("cpu")!;
  }

  #auto(): Choice {
    const wish = readEnvironment("NETCL_DEVICE");
    if (wish !== undefined && wish !== "auto") return this.#wished(wish);
    const search = this.#search();
    const problems = [...search.problems];
    for (const handle of forLocalRank(byPreference(search.handles))) {
      const problem = openingProblem(handle);
      if (problem === null) return { handle, reason: autoReason() };
      problems.push(problem);
    }
    return { handle: this.#builtIn(), reason: noDeviceReason(problems) };
  }

  #wished(wish: string): Choice {
    try {
      const { handle } = this.#select(wish);
      return { handle, reason: `chosen by NETCL_DEVICE=${wish}` };
    } catch (error) {
      if (!(error instanceof RangeError || error instanceof OpenCLUnavailableError)) throw error;
      const message = `NETCL_DEVICE=${wish}: ${error.message}`;
      throw error instanceof RangeError
        ? new RangeError(message, { cause: error })
        : new OpenCLUnavailableError(message, { cause: error });
    }
  }

  #select(selector: string): Choice {
    const reason = `asked for as "${selector}"`;
    const host = this.#host.get(selector);
    if (host !== undefined) return { handle: host, reason };
    if (selector === "cl") return { handle: this.#best(selector), reason };
    if (selector === "gpu") {
      return { handle: this.#best(selector, (handle) => handle.deviceType === "gpu"), reason };
    }
    if (/^cl:\d+:\d+$/.test(selector)) return { handle: this.#byPosition(selector), reason };
    throw new RangeError(`Cannot select device "${selector}": write ${SELECTORS}`);
  }

  #best(selector: string, fits: (handle: DeviceHandle) => boolean = () => true): DeviceHandle {
    const search = this.#search();
    const [best] = forLocalRank(byPreference(search.handles.filter(fits)));
    if (best !== undefined) return best;
    const found = search.handles.map(String).join(", ");
    const tried = found === "" ? search.problems.join("; ") : `there is only ${found}`;
    throw new OpenCLUnavailableError(
      `Cannot select device "${selector}": no such OpenCL device (${tried}); ${HOW_TO_INSTALL}, ` +
        `or select "cpu", the built-in backend`,
      { cause: search.cause },
    );
  }

  #byPosition(selector: string): DeviceHandle {
    const search = this.#search();
    const handle = search.handles.find((candidate) => candidate.selector === selector);
    if (handle !== undefined) return handle;
    const found = search.handles.map(String).join(", ");
    throw new RangeError(
      `Cannot select device "${selector}": ` +
        (found === "" ? `no OpenCL device (${search.problems.join("; ")})` : `found are ${found}`),
      { cause: search.cause },
    );
  }

  /** Found devices are kept; where none was found, the next caller searches again. */
  #search(): Search {
    if (this.#openCL !== null) return { handles: this.#openCL, problems: [] };
    const search = searchOpenCL();
    if (search.handles.length > 0) this.#openCL = search.handles;
    return search;
  }
}

function searchOpenCL(): Search {
  try {
    const found = platforms();
    // A driver without a device here (Mesa's on a machine without its GPUs) has no number, so that
    // installing one changes no other number.
    const present = found.map((platform) => ({ platform, devices: platform.devices() }))
      .filter(({ devices }) => devices.length > 0);
    const handles = present.flatMap(({ platform, devices }, p) =>
      devices.map((device, d) => DeviceHandle.forOpenCL(platform, device, `cl:${p}:${d}`))
    );
    return { handles, problems: handles.length === 0 ? [emptyProblem(found)] : [] };
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause;
    return { handles: [], problems: [cause.message], cause };
  }
}

/** PoCL hides its device where it finds no folder to keep kernels in. */
function poclHint(names: string): string {
  if (!names.includes("Portable Computing Language")) return "";
  return " (PoCL needs a folder that this user may write: HOME, or POCL_CACHE_DIR)";
}

function emptyProblem(found: readonly Platform[]): string {
  const names = found.map((platform) => platform.name).join(", ");
  return found.length === 0
    ? "the OpenCL library has no platform"
    : `no device on ${names}${poclHint(names)}`;
}

/** GPUs first, and among them those with memory of their own; else in the order of the platforms. */
function byPreference(handles: readonly DeviceHandle[]): DeviceHandle[] {
  const rank = ({ deviceType, clDevice }: DeviceHandle) =>
    2 * PREFERENCE.indexOf(deviceType) + (clDevice?.hostUnifiedMemory ? 1 : 0);
  return handles.toSorted((a, b) => rank(a) - rank(b));
}

/** Under mpirun each process of a host takes another one of the best devices, in turn. */
function forLocalRank(handles: readonly DeviceHandle[]): readonly DeviceHandle[] {
  const rank = localRank() ?? 0, [first] = handles;
  const equal = handles.filter(({ deviceType }) => deviceType === first?.deviceType);
  const at = equal[rank % equal.length];
  return at ? [at, ...handles.filter((handle) => handle !== at)] : handles;
}

/** A driver may list a device that it cannot open; "auto" then goes on to the next one. */
function openingProblem(handle: DeviceHandle): string | null {
  try {
    void handle.queue;
    return null;
  } catch (error) {
    if (!(error instanceof OpenCLError)) throw error;
    handle.close();
    return `${handle} cannot be opened: ${error.message}`;
  }
}

/** A line has room for what is wrong; what was tried and what to do is told to who asks for "cl". */
function noDeviceReason(problems: readonly string[]): string {
  return `no OpenCL device (${problems.map((each) => each.split(/\.\s|\n/)[0]).join("; ")})`;
}

function autoReason(): string {
  const rank = localRank();
  return rank === null ? "the first found" : `that of local rank ${rank}`;
}

/**
 * The devices of this machine.
 *
 * @example
 * ```ts
 * import { manager } from "@netcl/netcl/backend";
 *
 * for (const handle of manager.list()) console.log(handle.selector, handle.deviceName);
 * ```
 */
export const manager: DeviceManager = new DeviceManager();
