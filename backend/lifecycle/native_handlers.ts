/**
 * Signals while JavaScript is blocked. A listener cannot run then, so the kernel is asked to keep
 * the state: with SA_RESETHAND on Deno's own handler the first signal sets the disposition back to
 * the default, which a polling wait can see, and the second one ends the process by itself, even
 * inside a foreign call. Linux only: the layout of `struct sigaction` differs elsewhere, and
 * there a blocked wait is simply not interrupted by the first Ctrl+C.
 */
import type { GuardedSignal } from "../../ffi/mod.ts";
import { libc } from "./libc.ts";

/** The signals that ask a program to end. */
export type EndingSignal = "SIGINT" | "SIGTERM";

const numbers: Record<GuardedSignal, number> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };
const SIGWINCH = 28;
const STRUCT_BYTES = 152;
const FLAGS_OFFSET = 136;
const SA_RESETHAND = 0x80000000;
const SIG_DFL = 0n;

/** Deno's handler, once as it is and once so that the next signal resets it. */
interface Handler {
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly armed: Uint8Array<ArrayBuffer>;
}

let handler: Handler | null = null;
const current = new BigUint64Array(STRUCT_BYTES / 8);

/**
 * Deno has one handler for all signals, so it is read from one that no driver touches. That of
 * SIGINT is hidden by now: PoCL's LLVM puts its own over it in clGetDeviceIDs, which passes the
 * signal on, but with it takes down PoCL's guard against integer division by zero.
 */
function readHandler(): Handler | null {
  const functions = Deno.build.os === "linux" ? libc() : null;
  if (functions === null) return null;
  const idle = (): void => {};
  Deno.addSignalListener("SIGWINCH", idle);
  const plain = new Uint8Array(STRUCT_BYTES);
  functions.sigaction(SIGWINCH, null, plain);
  Deno.removeSignalListener("SIGWINCH", idle);
  const armed = plain.slice();
  const view = new DataView(armed.buffer);
  view.setUint32(FLAGS_OFFSET, (view.getUint32(FLAGS_OFFSET, true) | SA_RESETHAND) >>> 0, true);
  return { plain, armed };
}

/**
 * Puts Deno's handlers back in front of the driver's. LLVM's delete the temporary files of a program
 * that PoCL is building, also when the program goes on, as it does under `nohup` (where the loader
 * of `ffi/` keeps a listener for what was ignored).
 */
export function restoreHandlers(): void {
  handler ??= readHandler();
  if (handler === null) return;
  for (const number of Object.values(numbers)) libc()?.sigaction(number, handler.plain, null);
}

/** Lets the next `signal`, which must have a listener, reset its disposition. */
export function arm(signal: EndingSignal): void {
  if (handler) libc()?.sigaction(numbers[signal], handler.armed, null);
}

/** Puts Deno's handler back as it was. */
export function disarm(signal: EndingSignal): void {
  if (handler) libc()?.sigaction(numbers[signal], handler.plain, null);
}

/** Whether an armed `signal` has come since. */
export function hasFired(signal: EndingSignal): boolean {
  if (!handler) return false;
  libc()?.sigaction(numbers[signal], null, current);
  return current[0] === SIG_DFL;
}
