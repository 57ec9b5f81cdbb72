/**
 * The C library of the process, for the little that Deno does not offer. Optional: without the
 * permission, or on another libc, callers do without.
 *
 * @module
 */

import { host } from "../runtime/host.ts";
import type { ForeignTable, Library } from "../runtime/types.ts";

/** Its names by system. */
export const libcNames: Partial<Record<string, string>> = {
  linux: "libc.so.6",
  darwin: "libSystem.B.dylib",
};

/** The library's name, or null where it is not known or may not be opened. */
export function libcName(): string | null {
  const allowed = host.isGranted({ name: "ffi" });
  return allowed ? libcNames[host.os] ?? null : null;
}

/** Functions of it, or null where there are none to be had. */
export function openLibc<const T extends ForeignTable>(
  functions: T,
): Library<T> | null {
  return openSystem(libcName(), functions);
}

/** Functions of Windows, or null on other systems and without the permission. */
export function openKernel32<const T extends ForeignTable>(functions: T): Library<T> | null {
  const allowed = host.os === "windows" && host.isGranted({ name: "ffi" });
  return openSystem(allowed ? "kernel32.dll" : null, functions);
}

function openSystem<const T extends ForeignTable>(
  name: string | null,
  functions: T,
): Library<T> | null {
  if (name === null) return null;
  try {
    return host.dlopen(name, functions);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("Could not open library")) return null;
    throw error;
  }
}

let knownUserId: number | null | undefined;

/** The user that this process runs as; null on Windows, or where nothing may be asked. */
export function userId(): number | null {
  return knownUserId === undefined ? knownUserId = askUserId() : knownUserId;
}

function askUserId(): number | null {
  if (host.isGranted({ name: "sys", kind: "uid" })) {
    return host.uid();
  }
  const libc = openLibc({ geteuid: { parameters: [], result: "u32" } });
  const id = libc?.symbols.geteuid() ?? null;
  libc?.close();
  return id;
}

/** Bytes of a set of cores: as many as a kernel of Linux may have (8,192). */
const CORE_SET_BYTES = 1024;
const _SC_NPROCESSORS_ONLN = 84;
const coreFunctions = {
  sched_getaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
  sysconf: { parameters: ["i32"], result: "i64" },
} as const;

/** The cores that this process may use, by number, and how many there are; null where it is not known. */
export function allowedCores(): { readonly cores: readonly number[]; readonly all: number } | null {
  const libc = host.os === "linux" ? openLibc(coreFunctions) : null;
  if (libc === null) return null;
  try {
    const set = new Uint8Array(CORE_SET_BYTES);
    if (libc.symbols.sched_getaffinity(0, BigInt(set.length), set) !== 0) return null;
    const numbers = Array.from({ length: 8 * set.length }, (_, core) => core);
    return {
      cores: numbers.filter((core) => set[core >> 3]! >> (core & 7) & 1),
      all: Number(libc.symbols.sysconf(_SC_NPROCESSORS_ONLN)),
    };
  } finally {
    libc.close();
  }
}
