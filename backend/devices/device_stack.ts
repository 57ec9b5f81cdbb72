/**
 * The active device as a block: `using dev = device("gpu")` for straight-line code,
 * `withDevice("gpu", fn)` where code awaits and several tasks run at once.
 */
import { activeDevices, type DeviceHandle } from "./device_handle.ts";
import { manager } from "./devices.ts";
import { requireValue } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/**
 * Makes a device the active one until the end of the block. For straight-line code: concurrent
 * async tasks share this stack, and closing out of order is an error; there use
 * {@linkcode withDevice}.
 *
 * @param selector A selection string ("auto", "gpu", "cl", "cpu", "cl:0:1") or a handle.
 * @returns The handle itself, to be held by `using`.
 * @throws {RangeError} When the selector is not one, or names a device that is not there.
 * @throws {OpenCLUnavailableError} When an OpenCL device is asked for and there is none.
 *
 * @example Computing on the built-in backend for a while
 * ```ts
 * import { device, manager } from "@netcl/netcl/backend";
 *
 * {
 *   using dev = device("cpu");
 *   console.assert(manager.active === dev);
 * }
 * ```
 */
export function device(selector: string | DeviceHandle): DeviceHandle & Disposable {
  const handle = manager.resolve(selector);
  activeDevices.open(handle);
  return handle;
}

/**
 * Runs `fn` with a device active, in it and in everything that it awaits; other tasks keep theirs.
 *
 * @param selector A selection string ("auto", "gpu", "cl", "cpu", "cl:0:1") or a handle.
 * @param fn What to run; it is given the handle.
 * @returns What `fn` returns.
 * @throws {RangeError} When the selector is not one, or names a device that is not there.
 * @throws {OpenCLUnavailableError} When an OpenCL device is asked for and there is none.
 *
 * @example Two tasks at once, each with its own device
 * ```ts
 * import { manager, withDevice } from "@netcl/netcl/backend";
 *
 * await Promise.all(["cpu", "auto"].map((name) =>
 *   withDevice(name, async (dev) => {
 *     await new Promise((resolve) => setTimeout(resolve, 1));
 *     console.assert(manager.active === dev);
 *   })
 * ));
 * ```
 */
export function withDevice<T>(selector: string | DeviceHandle, fn: (dev: DeviceHandle) => T): T {
  const handle = manager.resolve(selector);
  requireValue("compute on a device", "fn", fn, takes.callback);
  return activeDevices.runWith(handle, () => fn(handle));
}
