/**
 * Signals while JavaScript is blocked. A listener cannot run then, so the kernel is asked to keep
 * the state: with SA_RESETHAND on Deno's own handler the first signal sets the disposition back to
 * the default, which a polling wait can see, and the second one ends the process by itself, even
 * inside a foreign call. Linux only: the layout of `struct sigaction` differs elsewhere, and
 * there a blocked wait is simply not interrupted by the first Ctrl+C.
 */
import { ignoredSignals, primeSignals } from "../../ffi/signals.ts";
import { libc } from "./libc.ts";

/** The signals that ask a program to end. */
export type EndingSignal = "SIGINT" | "SIGTERM";

const numbers: Record<EndingSignal, number> = { SIGINT: 2, SIGTERM: 15 };
const STRUCT_BYTES = 152;
const FLAGS_OFFSET = 136;
const SA_RESETHAND = 0x80000000;
const SIG_DFL = 0n;

interface Handler {
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly armed: Uint8Array<ArrayBuffer>;
}

const handlers = new Map<EndingSignal, Handler>();
const current = new BigUint64Array(STRUCT_BYTES / 8);

/**
 * Reads Deno's own handlers. To be called before the first OpenCL call: PoCL's LLVM puts its
 * handlers over them, which on the first signal also take down PoCL's guard for integer division.
 */
export function captureHandlers(): void {
  if (Deno.build.os !== "linux" || ignoredSignals() !== null) return;
  primeSignals();
  const functions = libc();
  if (functions === null) return;
  for (const [signal, number] of Object.entries(numbers) as [EndingSignal, number][]) {
    const plain = new Uint8Array(STRUCT_BYTES);
    functions.sigaction(number, null, plain);
    const armed = plain.slice();
    const view = new DataView(armed.buffer);
    view.setUint32(FLAGS_OFFSET, (view.getUint32(FLAGS_OFFSET, true) | SA_RESETHAND) >>> 0, true);
    handlers.set(signal, { plain, armed });
  }
}

/** Lets the next `signal` reset its disposition. */
export function arm(signal: EndingSignal): void {
  const handler = handlers.get(signal);
  if (handler !== undefined) libc()?.sigaction(numbers[signal], handler.armed, null);
}

/** Puts Deno's handler back as it was. */
export function disarm(signal: EndingSignal): void {
  const handler = handlers.get(signal);
  if (handler !== undefined) libc()?.sigaction(numbers[signal], handler.plain, null);
}

/** Whether an armed `signal` has come since. */
export function hasFired(signal: EndingSignal): boolean {
  if (!handlers.has(signal)) return false;
  libc()?.sigaction(numbers[signal], null, current);
  return current[0] === SIG_DFL;
}
