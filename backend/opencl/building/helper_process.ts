/** Processes that build for this one: who may start them, their command line, and what they read of it. */
import { host } from "../../../ffi/runtime/host.ts";
import { EnvironmentError, readEnvironment } from "../../../ffi/host/environment.ts";
import { type Device, platforms } from "../../../ffi/mod.ts";

/** True where this program may be started again: it has the permission, and is Deno itself. */
function mayStartProcesses(): boolean {
  if (!host.isRestartable) return false;
  return host.isGranted({ name: "run", command: host.execPath() });
}

/** Limit set by the environment, 0 where none may be started; null where it is not set. */
export function allowedHelpers(): number | null {
  if (!mayStartProcesses()) return 0;
  const value = readEnvironment("NETCL_BUILD_PROCESSES");
  if (value === undefined) return null;
  if (/^\d{1,3}$/.test(value)) return Number(value);
  throw new EnvironmentError(
    "NETCL_BUILD_PROCESSES",
    value,
    "write a number of processes, such as 4",
  );
}

/**
 * Arguments with which Deno runs a module of netcl for a device.
 *
 * @param module Address of the module.
 * @param device What is built for.
 * @param own Further arguments of the module.
 */
export function helperArguments(module: string, device: Device, ...own: string[]): string[] {
  const { platform, name } = device;
  const alike = platform.devices().filter((other) => other.name === name);
  const place = alike.findIndex((other) => other.unsafeHandle === device.unsafeHandle);
  return [
    ...host.runArguments(module),
    ...[platform.name, name, String(place), String(host.pid), ...own],
  ];
}

/** In such a process: the device; null where this process does not see it. */
export function foundDevice(): Device | null {
  const [platformName, deviceName, place] = host.args;
  const found = platforms().filter(({ name }) => name === platformName)
    .flatMap((platform) => platform.devices())
    .filter(({ name }) => name === deviceName);
  return found[Number(place)] ?? null;
}

/** In such a process: true when the one that started it has ended. */
export const isAlone = (): boolean => host.ppid !== Number(host.args[3]);
