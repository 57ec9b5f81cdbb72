/**
 * Functions of extensions: found at run time, through the platform.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { Device } from "./device.ts";
import { type AnyCall, interceptable } from "../library/extension_calls.ts";
import { OpenCLUnavailableError } from "../library/errors.ts";
import { cl } from "../library/library.ts";
import type { Calls, FunctionTable, FunctionType } from "../symbols/types.ts";

const encoder = new TextEncoder();

/** The version of an extension, as in `[0, 9, 0]`; all zeros where the driver does not tell. */
export function extensionVersion(device: Device, extension: string): [number, number, number] {
  const listed = device.versionNumbers[0] >= 3 ? device.query("EXTENSIONS_WITH_VERSION") : [];
  const found = listed.find(({ name }) => name === extension)?.version ?? "0.0.0";
  const [major = 0, minor = 0, patch = 0] = found.split(".").map(Number);
  return [major, minor, patch];
}

/**
 * Binds functions of an extension. A table entry is the C declaration: the types of the parameters
 * in their order, and the result.
 *
 * @param extension The extension's name, which the device must list.
 * @param table The functions, by their C names.
 * @throws {OpenCLUnavailableError} If the device lacks the extension, or the driver a function.
 *
 * @example Ask for the time in one table entry
 * ```ts
 * import { bindExtension, platforms } from "@netcl/netcl/ffi";
 *
 * const table = {
 *   clIcdGetPlatformIDsKHR: { parameters: ["u32", "buffer", "buffer"], result: "i32" },
 * } as const;
 * const device = platforms()[0]!.devices()[0]!;
 * if (device.extensions.includes("cl_khr_icd")) {
 *   console.log(bindExtension(device, "cl_khr_icd", table).clIcdGetPlatformIDsKHR(0, null, null));
 * }
 * ```
 */
export function bindExtension<const T extends FunctionTable>(
  device: Device,
  extension: string,
  table: T,
): Calls<T> {
  if (!device.extensions.includes(extension)) {
    throw new OpenCLUnavailableError(
      `Cannot use ${extension}: "${device.name}" (${device.platform.name}) does not offer it`,
    );
  }
  const entries = Object.entries(table).map(([name, type]) => [name, bind(device, name, type)]);
  return Object.fromEntries(entries) as Calls<T>;
}

function bind(device: Device, key: string, type: FunctionType): AnyCall {
  const name = type.name ?? key;
  const platform = device.platform.unsafeHandle;
  const address = cl.clGetExtensionFunctionAddressForPlatform(
    platform,
    encoder.encode(name + "\0"),
  );
  if (address === 0n) {
    throw new OpenCLUnavailableError(
      `Cannot call ${name}: the driver of "${device.name}" does not have it`,
    );
  }
  return interceptable(name, type, host.functionAt(address, type) as AnyCall);
}
