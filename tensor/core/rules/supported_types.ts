/** Element types of a device, and the error for those that it has not. */
import { backendOf, type DeviceHandle, type DType, dtypes } from "../../../backend/internal.ts";
import { dtypeError, isDType } from "./errors.ts";

/** True when the device computes in and stores a type; only doubles are missing anywhere. */
export function supportsType(device: DeviceHandle, dtype: DType): boolean {
  return dtype !== "float64" || backendOf(device).capabilities.dtypes.has(dtype);
}

/** Types by names that others have for them. */
const namesElsewhere: Readonly<Record<string, DType>> = {
  half: "float16",
  float: "float32",
  double: "float64",
  int: "int32",
  long: "int64",
  byte: "uint8",
  short: "int16",
  char: "int8",
  boolean: "bool",
};

/** The types as a list for messages, with the one that a wrong name stands for elsewhere. */
export function typeList(wrong: string): string {
  const meant = typeof wrong === "string" ? namesElsewhere[wrong] : undefined;
  const hint = meant === undefined ? "" : ` (did you mean "${meant}"?)`;
  return `${Object.keys(dtypes).join(", ")}${hint}`;
}

/**
 * True for an element type, where a tensor may go to that or to a device.
 *
 * @throws {RangeError} When it has the form of neither.
 */
export function isTypeTarget(target: unknown): target is DType {
  if (isDType(target)) return true;
  if (typeof target !== "string" || /^(auto|gpu|cpu|cl)\b/.test(target)) return false;
  throw new RangeError(
    `Cannot move a tensor to "${target}": it is no device, such as "cpu" or "gpu", and no type; the ` +
      `types are ${typeList(target)}`,
  );
}

/** @throws {DTypeError} Where there is no such type, or the device does not have it. */
export function requireType(device: DeviceHandle, dtype: DType): void {
  if (!(dtype in dtypes)) {
    throw dtypeError("Tensor")`
      Cannot make a tensor of "${dtype}": the types are ${typeList(dtype)}`;
  }
  if (supportsType(device, dtype)) return;
  throw dtypeError("Tensor")`
    Cannot make a tensor of ${dtype} on ${device}: it has no double precision; name or cast to
    "float32", or choose a device that has it, such as "cpu"`;
}
