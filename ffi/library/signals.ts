/**
 * Prepares signals before the first OpenCL call.
 *
 * PoCL (through LLVM) replaces the handlers of SIGINT, SIGTERM and SIGHUP in clGetDeviceIDs. A
 * listener added after that never runs: the first Ctrl+C kills the process. Deno installs its own
 * handlers for the three at the first listener of any kind, and LLVM chains to those that it found.
 * So one listener added and removed beforehand keeps every later one working. The same step would
 * end `nohup`, which ignores a signal by disposition: such a signal gets a listener that does
 * nothing.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import { openLibc } from "../host/libc.ts";

/** A signal that {@linkcode primeSignals} guards. */
export type GuardedSignal = "SIGHUP" | "SIGINT" | "SIGTERM";

/** Numbers of signals, the same on Linux and macOS, x86-64 and arm64. */
export const signalNumbers = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGTERM: 15,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGWINCH: 28,
} as const;

/**
 * `struct sigaction` as Linux's C libraries have it for programs of 64 bits: the handler, a mask of 128 bytes,
 * flags. That of macOS has a mask of 4 bytes; of it only the handler, which is first there, too, is looked at.
 */
export const sigaction = { bytes: 152, flags: 136 } as const;

/** The signals whose handlers drivers are known to replace. */
const guarded: readonly GuardedSignal[] = ["SIGHUP", "SIGINT", "SIGTERM"];

let ignored: readonly GuardedSignal[] | null = null;

/** The signals that were ignored when handlers were primed, and so stay ignored; null before that. */
export function ignoredSignals(): readonly GuardedSignal[] | null {
  return ignored;
}

/** Primes the handlers once. Called before the first OpenCL call, and before listening to signals. */
export function primeSignals(): void {
  if (ignored !== null) return;
  ignored = host.os === "windows" ? [] : readIgnoredSignals();
  const idle = (): void => {};
  host.addSignalListener("SIGINT", idle);
  host.removeSignalListener("SIGINT", idle);
  for (const signal of ignored) host.addSignalListener(signal, idle);
}

/** Ctrl+\, the limit of processor time, that of file sizes. */
const swallowed = (["SIGQUIT", "SIGXCPU", "SIGXFSZ"] as const).map((name) => signalNumbers[name]);

/**
 * Calls what may put a driver's handlers in place, and takes those of SIGQUIT, SIGXCPU and SIGXFSZ
 * away again: LLVM's return from the first of these signals, as if nothing had come.
 */
export function keepingSignals<T>(call: () => T): T {
  const libc = host.os === "windows" ? null : openLibc(libcFunctions);
  if (libc === null) return call();
  const { sigaction } = libc.symbols;
  const former = swallowed.map((signal) => {
    const action = new BigUint64Array(64);
    sigaction(signal, null, action);
    return action;
  });
  try {
    return call();
  } finally {
    swallowed.forEach((signal, k) => sigaction(signal, former[k]!, null));
    libc.close();
  }
}

/**
 * Asks libc for the dispositions. Where that is not allowed, a program without a terminal counts as
 * one under `nohup`: there is nothing whose hanging up could concern it.
 */
function readIgnoredSignals(): GuardedSignal[] {
  const libc = openLibc(libcFunctions);
  if (libc === null) return hasTerminal() ? [] : ["SIGHUP"];
  // struct sigaction begins with the handler, and SIG_IGN is 1.
  const action = new BigUint64Array(64);
  const result = guarded.filter((name) => {
    libc.symbols.sigaction(signalNumbers[name], null, action);
    return action[0] === 1n;
  });
  libc.close();
  return result;
}

function hasTerminal(): boolean {
  return (["stdin", "stdout", "stderr"] as const).some(host.isTerminal);
}

const libcFunctions = {
  sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
} as const;
