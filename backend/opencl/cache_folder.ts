/** The folder where things are kept from one start to the next: compiled programs and tuned tiles. */
import { readEnvironment, readVariable } from "../../ffi/environment.ts";
import type { Device } from "../../ffi/mod.ts";

/** The folder, or null where none is known or NETCL_CACHE_DIR switches it off. */
export function cacheFolder(): string | null {
  const chosen = readEnvironment("NETCL_CACHE_DIR");
  if (chosen !== undefined) return chosen === "off" ? null : chosen;
  const base = userCacheFolder();
  return base === undefined ? null : `${base}/netcl`;
}

function userCacheFolder(): string | undefined {
  if (Deno.build.os === "windows") return readVariable("LOCALAPPDATA");
  const home = readVariable("HOME");
  if (Deno.build.os === "darwin") return home && `${home}/Library/Caches`;
  return readVariable("XDG_CACHE_HOME") ?? (home && `${home}/.cache`);
}

/** Whether the permissions are there already; never asks for them. */
export function isAllowed(path: string, ...names: readonly ("read" | "write")[]): boolean {
  return names.every((name) => Deno.permissions.querySync({ name, path }).state === "granted");
}

/** What is kept for one device and driver is of no use to others. */
export function identityOf(device: Device): string {
  return `${device.platform.name}|${device.name}|${device.driverVersion}`;
}

/** Writes a file under another name and renames it, so that a reader never sees half of it. */
export function replaceFile(path: string, bytes: Uint8Array): void {
  const temporary = `${path}.${Deno.pid}.${Math.random().toString(36).slice(2)}`;
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  Deno.writeFileSync(temporary, bytes);
  Deno.renameSync(temporary, path);
}
