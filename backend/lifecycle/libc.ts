/**
 * The functions of the C library that the ways to end need. They are optional: without the
 * permission, or on another libc, the callers take the next best way.
 */
import { host } from "../../ffi/runtime/host.ts";
import type { ForeignSymbols } from "../../ffi/runtime/types.ts";
import { openKernel32, openLibc } from "../../ffi/host/libc.ts";

const functions = {
  _exit: { parameters: ["i32"], result: "void" },
  sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  syscall: { parameters: ["i64", "i64", "buffer", "buffer", "buffer"], result: "i64" },
  mmap: { parameters: ["u64", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  mprotect: { parameters: ["u64", "usize", "i32"], result: "i32" },
  memcpy: { parameters: ["u64", "buffer", "usize"], result: "u64" },
  memmove: { parameters: ["buffer", "buffer", "usize"], result: "u64" },
  waitid: { parameters: ["i32", "u32", "buffer", "i32"], result: "i32" },
} as const;

type Libc = ForeignSymbols<typeof functions>;

let opened: Libc | null | undefined;

/** The functions, or null where there are none to be had. The library stays open. */
export function libc(): Libc | null {
  return opened === undefined ? opened = openLibc(functions)?.symbols ?? null : opened;
}

const windowsFunctions = {
  GetCurrentProcess: { parameters: [], result: "u64" },
  TerminateProcess: { parameters: ["u64", "u32"], result: "i32" },
} as const;

/** Ends the process at once on Windows; returns elsewhere, and without the permission. */
function terminate(status: number): void {
  const kernel = openKernel32(windowsFunctions)?.symbols;
  kernel?.TerminateProcess(kernel.GetCurrentProcess(), status);
}

/**
 * Ends the process at once, past every exit handler: those of OpenCL drivers hang or wait for the
 * device (intel/compute-runtime #927). Without a system's library it is a SIGKILL, whose status is 137, and 1
 * on Windows.
 *
 * @param status The exit status.
 */
export function exitNow(status: number): never {
  libc()?._exit(status);
  terminate(status);
  host.kill(host.pid, "SIGKILL");
  throw new Error(`Cannot end process ${host.pid}`);
}

const exitFunctions = {
  on_exit: { parameters: ["u64", "u64"], result: "i32", optional: true },
  dlsym: { parameters: ["u64", "buffer"], result: "u64", optional: true },
} as const;

/**
 * Has the process end with its status, but past all exit handlers that are known now: those of a
 * library are not safe while a thread is at work in it. LLVM's end in a segmentation fault, once in
 * four ends while PoCL compiles. The C library calls the handler that came last first, with the
 * status, which is what `_exit` takes.
 *
 * @returns Whether it can be done: glibc has such handlers.
 */
export function skipExitHandlers(): boolean {
  const RTLD_DEFAULT = 0n, library = openLibc(exitFunctions)?.symbols;
  const exit = library?.dlsym?.(RTLD_DEFAULT, new TextEncoder().encode("_exit\0"));
  return exit !== undefined && library?.on_exit?.(exit, 0n) === 0;
}
