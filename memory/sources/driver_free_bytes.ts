import type { Device } from "../../ffi/mod.ts";
import { readers } from "../../ffi/library/info.ts";
import { cl } from "../../ffi/library/library.ts";

// Of cl_amd_device_attribute_query: in KiB, all of it and the largest block. OpenCL itself has no
// such question. ROCm is known to answer with too much (ROCm/rocm-systems#7994): it is a hint, no
// promise.
const GLOBAL_FREE_MEMORY_AMD = 0x4039;
const EXTENSION = "cl_amd_device_attribute_query";

/**
 * Bytes that the driver calls free on a device, for all programs together; `null` where it does not
 * say.
 */
export function driverFreeBytes(device: Device): number | null {
  if (!device.extensions.includes(EXTENSION)) return null;
  const { unsafeHandle } = device;
  const [kibibytes] = readers.sizes(
    (parameter, size, value, out) => cl.clGetDeviceInfo(unsafeHandle, parameter, size, value, out),
    GLOBAL_FREE_MEMORY_AMD,
    "clGetDeviceInfo",
  );
  return kibibytes === undefined ? null : kibibytes * 1024;
}
