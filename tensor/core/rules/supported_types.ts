/** Which element types a device has, and the error for those that it has not. */
import { backendOf, type DeviceHandle, type DType, dtypes } from "../../../backend/internal.ts";
import { DTypeError } from "./errors.ts";

/** Whether the device computes in and stores a type; only double precision is missing anywhere. */
export function supportsType(device: DeviceHandle, dtype: DType): boolean {
  return dtype !== "float64" || backendOf(device).capabilities.dtypes.has(dtype);
}

/** @throws {DTypeError} Where there is no such type, or the device does not have it. */
export function requireType(device: DeviceHandle, dtype: DType): void {
  if (!(dtype in dtypes)) {
    throw new DTypeError(
      `Cannot make a tensor of "${dtype}": the types are ${Object.keys(dtypes).join(", ")}`,
    );
  }
  if (supportsType(device, dtype)) return;
  throw new DTypeError(
    `Cannot make a tensor of ${dtype} on ${device}: it has no double precision; name or cast to ` +
      `"float32", or choose a device that has it, such as "cpu"`,
  );
}
