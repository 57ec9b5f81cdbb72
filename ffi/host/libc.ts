/**
 * The C library of the process, for the little that Deno does not offer. Optional: without the
 * permission, or on another libc, callers do without.
 *
 * @module
 */

const names: Partial<Record<typeof Deno.build.os, string>> = {
  linux: "libc.so.6",
  darwin: "libSystem.B.dylib",
};

/** The library's name, or null where it is not known or may not be opened. */
export function libcName(): string | null {
  const allowed = Deno.permissions.querySync({ name: "ffi" }).state === "granted";
  return allowed ? names[Deno.build.os] ?? null : null;
}

/** Functions of it, or null where there are none to be had. */
export function openLibc<const T extends Deno.ForeignLibraryInterface>(
  functions: T,
): Deno.DynamicLibrary<T> | null {
  const name = libcName();
  if (name === null) return null;
  try {
    return Deno.dlopen(name, functions);
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
  if (Deno.permissions.querySync({ name: "sys", kind: "uid" }).state === "granted") {
    return Deno.uid();
  }
  const libc = openLibc({ geteuid: { parameters: [], result: "u32" } });
  const id = libc?.symbols.geteuid() ?? null;
  libc?.close();
  return id;
}
