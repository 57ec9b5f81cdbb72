/** Element types of a device, and the error for those that it has not. */
import { backendOf, type DeviceHandle, type DType, dtypes } from "../../../backend/internal.ts";
import { dtypeError } from "./errors.ts";

/** True when the device computes in and stores a type; only doubles are missing anywhere. */
export function supportsType(device: DeviceHandle, dtype: DType): boolean {
  return dtype !== "float64" || backendOf(device).capabilities.dtypes.has(dtype);
}

/** @throws {DTypeError} Where there is no such type, or the device does not have it. */
export function requireType(device: DeviceHandle, dtype: DType): void {
  if (!(dtype in dtypes)) {
    throw dtypeError("Tensor")`
      Cannot make a tensor of "${dtype}": the types are ${Object.keys(dtypes).join(", ")}`;
  }
  if (supportsType(device, dtype)) return;
  throw dtypeError("Tensor")`
    Cannot make a tensor of ${dtype} on ${device}: it has no double precision; name or cast to
    "float32", or choose a device that has it, such as "cpu"`;
}
