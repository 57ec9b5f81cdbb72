/**
 * Signals while JavaScript is blocked. A listener cannot run then, so the kernel is asked to keep
 * the state: with SA_RESETHAND on Deno's own handler the first signal sets the disposition back to
 * the default, which a polling wait can see, and the second one ends the process by itself, even
 * inside a foreign call. A {@linkcode NativeDeadline} sends the second one where no listener acts upon
 * the first. Linux only: the layout of `struct sigaction` differs elsewhere, and there a blocked
 * wait is simply not interrupted by the first Ctrl+C.
 */
import { host } from "../../ffi/runtime/host.ts";
import { type GuardedSignal, sigaction, signalNumbers } from "../../ffi/library/signals.ts";
import { libc } from "./libc.ts";
import { NativeDeadline } from "./native_deadline.ts";

/** The signals that ask a program to end. */
export type ExitSignal = "SIGINT" | "SIGTERM";

const guarded: readonly GuardedSignal[] = ["SIGHUP", "SIGINT", "SIGTERM"];
const SA_RESETHAND = 0x80000000;
const SIG_DFL = 0n;

type Action = Uint8Array<ArrayBuffer>;

/** State of one signal while netcl listens to it. */
interface Armed {
  /** Deno's handler, reset by the next signal, behind the deadline's where there is one. */
  readonly action: Action;
  readonly deadline: NativeDeadline | null;
}

/** Deno's handler as it is. */
let plain: Action | null = null;
const armed = new Map<ExitSignal, Armed>();
/** Calls of {@linkcode withoutDeadline} that have not returned. */
let working = 0;
const current = new BigUint64Array(sigaction.bytes / 8);

/**
 * Deno has one handler for all signals, so it is read from one that no driver touches. That of
 * SIGINT is hidden by now: PoCL's LLVM puts its own over it in clGetDeviceIDs, which passes the
 * signal on, but with it takes down PoCL's guard against integer division by zero.
 */
function readHandler(): Action | null {
  const functions = host.os === "linux" ? libc() : null;
  if (functions === null) return null;
  const idle = (): void => {};
  host.addSignalListener("SIGWINCH", idle);
  const action = new Uint8Array(sigaction.bytes);
  functions.sigaction(signalNumbers.SIGWINCH, null, action);
  host.removeSignalListener("SIGWINCH", idle);
  return action;
}

function armedFor(signal: ExitSignal, handler: Action): Armed {
  const action = handler.slice(), view = new DataView(action.buffer);
  view.setUint32(
    sigaction.flags,
    (view.getUint32(sigaction.flags, true) | SA_RESETHAND) >>> 0,
    true,
  );
  const deadline = NativeDeadline.create(signalNumbers[signal], view.getBigUint64(0, true));
  if (deadline) view.setBigUint64(0, deadline.handler, true);
  return { action, deadline };
}

/**
 * Puts the runtime's handlers back in front of the driver's. LLVM's delete the temporary files of a program
 * that PoCL is building, also when the program goes on, as it does under `nohup` (where the loader
 * of `ffi/` keeps a listener for what was ignored).
 */
export function restoreHandlers(): void {
  plain ??= readHandler();
  if (plain === null) return;
  for (const signal of guarded) act(signal, plain);
}

const byDefault: Action = new Uint8Array(sigaction.bytes);

/** Has a signal go to the runtime's handler; to nobody, where the runtime has taken it away. */
function act(signal: GuardedSignal, handler: Action): void {
  libc()?.sigaction(signalNumbers[signal], host.keepsHandler(signal) ? handler : byDefault, null);
}

/**
 * Lets the next `signal`, which must have a listener, reset its disposition.
 *
 * @param limitMs How long the program may be busy before the signal ends it all the same; null: as
 *   long as it likes.
 */
export function arm(signal: ExitSignal, limitMs: number | null): void {
  if (plain === null) return;
  const ready = armed.get(signal) ?? armedFor(signal, plain);
  armed.set(signal, ready);
  ready.deadline?.limit(limitMs);
  libc()?.sigaction(signalNumbers[signal], ready.action, null);
}

/** Changes how long the program may be busy when a signal comes. */
export function limit(signal: ExitSignal, limitMs: number | null): void {
  armed.get(signal)?.deadline?.limit(limitMs);
}

/** Somebody acts upon a signal that came: no deadline ends the program. */
export function stopDeadline(signal: ExitSignal): void {
  armed.get(signal)?.deadline?.stop();
}

/** Puts the runtime's action back as it was, for a signal that netcl does not listen to any more. */
export function disarm(signal: ExitSignal): void {
  if (plain === null) return;
  stopDeadline(signal);
  act(signal, plain);
}

/** True when an armed `signal` has come since. */
export function hasFired(signal: ExitSignal): boolean {
  if (plain === null) return false;
  libc()?.sigaction(signalNumbers[signal], null, current);
  return current[0] === SIG_DFL;
}

/**
 * Runs what may take long and is netcl's own, such as building a program: Ctrl+C waits for its end,
 * so that the code which called it can still save.
 */
export function withoutDeadline<T>(work: () => T): T {
  if (working++ === 0) armed.forEach(({ deadline }) => deadline?.hold());
  try {
    return work();
  } finally {
    if (--working === 0) armed.forEach(({ deadline }) => deadline?.resume());
  }
}
