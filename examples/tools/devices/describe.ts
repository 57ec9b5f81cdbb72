/**
 * Everything that platforms and devices say about themselves, as plain values.
 */
import {
  type Device,
  deviceProperties,
  type DevicePropertyName,
  OpenCLError,
  type Platform,
} from "@netcl/netcl/ffi";
import { bitFields, enumerations, hidden, nameOf, namesOfBits } from "./properties.ts";

/** A property as JSON can hold it. */
export type Value = string | number | boolean | Value[] | { [name: string]: Value };

/** The properties that a device answers, under their names in cl.h. */
export function describeDevice(device: Device): Record<string, Value> {
  const names = Object.keys(deviceProperties) as DevicePropertyName[];
  const entries = names.filter((name) => !hidden.has(name))
    .map((name) => [cName(name), read(device, name)] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, Value] => entry[1] !== null));
}

/** The description of a platform. */
export function describePlatform(platform: Platform): Record<string, Value> {
  return {
    CL_PLATFORM_NAME: platform.name,
    CL_PLATFORM_VENDOR: platform.vendor,
    CL_PLATFORM_VERSION: platform.version,
    CL_PLATFORM_PROFILE: platform.profile,
    CL_PLATFORM_EXTENSIONS: platform.extensions,
  };
}

/** The property's name in cl.h. */
export function cName(name: DevicePropertyName): string {
  return name === "DRIVER_VERSION" ? "CL_DRIVER_VERSION" : `CL_DEVICE_${name}`;
}

/** Null where the device does not know the property: each came with some version or extension. */
function read(device: Device, name: DevicePropertyName): Value | null {
  try {
    return plain(name, device.query(name));
  } catch (error) {
    if (error instanceof OpenCLError && error.codeName === "CL_INVALID_VALUE") return null;
    throw error;
  }
}

function plain(name: DevicePropertyName, value: ReturnType<Device["query"]>): Value {
  const bits = bitFields[name], names = enumerations[name];
  if (typeof value === "bigint") {
    return { raw: Number(value), names: bits ? namesOfBits(value, bits) : [] };
  }
  if (!Array.isArray(value)) return names ? nameOf(value as number, names) : value;
  return value.filter((each) => each !== 0n).map((each): Value => {
    if (typeof each === "object") return { name: each.name, version: each.version };
    return typeof each === "bigint" ? nameOf(each, names!) : each;
  });
}
