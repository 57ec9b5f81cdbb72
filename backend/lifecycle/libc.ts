/**
 * The two functions of the C library that the ways to end need. Both are optional: without the
 * permission, or on another libc, the callers take the next best way.
 */
const functions = {
  _exit: { parameters: ["i32"], result: "void" },
  sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
} as const;

type Libc = Deno.DynamicLibrary<typeof functions>["symbols"];

const names: Partial<Record<typeof Deno.build.os, string>> = {
  linux: "libc.so.6",
  darwin: "libSystem.B.dylib",
};

let opened: Libc | null | undefined;

/** The functions, or null where there are none to be had. The library stays open. */
export function libc(): Libc | null {
  return opened === undefined ? opened = open() : opened;
}

/** The library's name, or null where it is not known or may not be opened. */
export function libcName(): string | null {
  const allowed = Deno.permissions.querySync({ name: "ffi" }).state === "granted";
  return allowed ? names[Deno.build.os] ?? null : null;
}

function open(): Libc | null {
  const name = libcName();
  if (name === null) return null;
  try {
    return Deno.dlopen(name, functions).symbols;
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("Could not open library")) return null;
    throw error;
  }
}

/**
 * Ends the process at once, past every exit handler: those of OpenCL drivers hang or wait for the
 * device (intel/compute-runtime #927). Without libc it is a SIGKILL, whose status is 137.
 *
 * @param status The exit status.
 */
export function exitNow(status: number): never {
  libc()?._exit(status);
  Deno.kill(Deno.pid, "SIGKILL");
  throw new Error(`Cannot end process ${Deno.pid}`);
}
