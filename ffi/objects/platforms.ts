/**
 * The platforms of this machine.
 *
 * @module
 */
import { withProcessLock } from "../host/process_lock.ts";
import { Status } from "../library/constants.ts";
import { OpenCLUnavailableError } from "../library/errors.ts";
import { listHandles } from "../library/handle_list.ts";
import { cl, libraryPath } from "../library/library.ts";
import { keepingSignals } from "../library/signals.ts";
import type { Handle } from "../symbols/types.ts";
import { Platform } from "./device.ts";

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
  const handles = listHandles(
    "clGetPlatformIDs",
    Status.CL_PLATFORM_NOT_FOUND_KHR,
    // The first call starts the drivers.
    (count, ids, out) =>
      withProcessLock(() => keepingSignals(() => cl.clGetPlatformIDs(count, ids, out))),
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

/** True when there is an OpenCL library with at least one platform. Never throws. */
export function isOpenCLAvailable(): boolean {
  try {
    return platforms().length > 0;
  } catch {
    return false;
  }
}
