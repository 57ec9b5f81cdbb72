/**
 * What Ctrl+C means to code that waits: a small state machine, apart from how signals arrive.
 *
 * running -> draining (the signal came, the queues finish) -> interrupted (the error is delivered)
 *
 * Every call that waits while this happens rejects with the same {@linkcode InterruptedError}. If
 * none waits, the next call that would wait or launch throws it, so that no loop runs past it. Once
 * delivered, calls work again: user code must be able to read its tensors in order to save them.
 * For the same reason listeners of {@linkcode interruptSignal}, with all that they await, are told
 * nothing by their own calls: they know.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** What the interrupt is delivered as. */
let error: InterruptedError | undefined;
/** Somebody looked at what kind of error it was. */
let caught = false;

/**
 * Thrown and rejected with when the user pressed Ctrl+C: by every call of netcl that waited for a
 * device. Catch it to save; uncaught it ends the program with status 130 and no stack trace.
 */
export class InterruptedError extends Error {
  /** Whether an object is such an error. Code that asks this of what it caught counts as catching. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (!isInterruptedError(value)) return false;
    caught ||= value === error;
    return true;
  }

  /** "InterruptedError". */
  override get name(): string {
    caught ||= this === error;
    return "InterruptedError";
  }

  /**
   * Made by netcl when a signal comes.
   *
   * @param message What interrupted.
   * @param options The cause: an error of the device while its queues were finished.
   */
  constructor(message: string = "Interrupted by SIGINT (Ctrl+C)", options?: ErrorOptions) {
    super(message, options);
  }
}

/** The same without counting as catching it. */
export function isInterruptedError(value: unknown): value is InterruptedError {
  return Object.prototype.isPrototypeOf.call(InterruptedError.prototype, value as object);
}

type Phase = "running" | "draining" | "interrupted";

let phase: Phase = "running";
/** Tells the calls that wait now, one each. */
const waiters = new Set<() => void>();
let told = false;
let noticed = false;
/** Somebody has used {@linkcode interruptSignal}. */
let watched = false;
let onWatch = (): void => {};
const insideListener: AsyncLocalStorage<true> = new AsyncLocalStorage();
let receivers = 0;
let unhandled = 0;
let aborting = false;
let controller = watchedController();

/** A controller that tells when anybody else uses its signal. */
function watchedController(): AbortController {
  const made = new AbortController();
  // The signal's own methods, and all that take a signal, such as fetch, read its fields: so a read
  // of any of them counts as watching.
  for (const key of Reflect.ownKeys(made.signal)) {
    let value: unknown = Reflect.get(made.signal, key);
    Object.defineProperty(made.signal, key, {
      configurable: true,
      enumerable: true,
      get: () => (watch(), value),
      set: (changed: unknown) => value = changed,
    });
  }
  return made;
}

function watch(): void {
  if (watched || aborting) return;
  watched = true;
  onWatch();
}

/** Has a listener called when the program begins to use {@linkcode interruptSignal}. */
export function whenWatched(listener: () => void): void {
  onWatch = listener;
}

/** Whether the program uses {@linkcode interruptSignal}, and so acts upon Ctrl+C. */
export function isWatched(): boolean {
  return watched;
}

/**
 * Aborted by the first Ctrl+C, after the queues are done; the reason is an
 * {@linkcode InterruptedError}. `rearm()` puts a fresh signal in its place, so import this binding
 * and do not keep a copy of it across a `rearm()`.
 *
 * @example Stopping a download when the user presses Ctrl+C
 * ```ts
 * import { interruptSignal } from "@netcl/netcl/backend";
 *
 * const response = await fetch("data:,weights", { signal: interruptSignal });
 * console.assert(await response.text() === "weights");
 * ```
 */
export let interruptSignal: AbortSignal = controller.signal;

/** Whether no interruption is under way, or the last one was followed by a rearm. */
export function isRunning(): boolean {
  return phase === "running";
}

/** Starts an interruption; false when one is under way or was not yet rearmed. */
export function beginInterruption(): boolean {
  if (phase !== "running") return false;
  phase = "draining";
  return true;
}

/**
 * The queues are done: aborts {@linkcode interruptSignal} and lets the waiting calls reject.
 *
 * @param cause An error of the device while its queues were finished.
 */
export function completeInterruption(cause?: unknown): void {
  if (phase !== "draining") return;
  phase = "interrupted";
  error = new InterruptedError(undefined, cause === undefined ? undefined : { cause });
  const waiting = [...waiters];
  waiters.clear();
  receivers = waiting.length;
  told = noticed = receivers > 0;
  aborting = true;
  insideListener.run(true, () => controller.abort(error));
  aborting = false;
  for (const tell of waiting) tell();
}

/** Back to running, with a fresh {@linkcode interruptSignal}. */
export function resetInterruption(): void {
  if (phase === "draining") {
    throw new Error("Cannot rearm while the first Ctrl+C is still waiting for the queues");
  }
  phase = "running";
  error = undefined;
  receivers = unhandled = 0;
  told =
    noticed =
    caught =
    watched =
      false;
  controller = watchedController();
  interruptSignal = controller.signal;
}

/** Throws the interrupt if it was not delivered yet; for calls that launch or wait. */
export function throwIfInterrupted(): void {
  if (isUndelivered()) throw deliver();
}

/** Whether the signal came and the queues are being finished. */
export function isDraining(): boolean {
  return phase === "draining";
}

/** Whether the interrupt is over, was delivered, or the program watches for it. */
export function isNoticed(): boolean {
  return phase !== "interrupted" || noticed || watched;
}

/** Whether an interrupt was delivered and is not rearmed yet. */
export function isInterrupted(): boolean {
  return phase === "interrupted";
}

/** Whether code that was told of the interrupt looked at the error, as code does that saves. */
export function isCaught(): boolean {
  return caught;
}

function isUndelivered(): boolean {
  if (phase !== "interrupted" || told) return false;
  if (insideListener.getStore() === undefined) return true;
  noticed = true;
  return false;
}

/** The interrupt's error; counts as delivered. */
export function deliver(): InterruptedError {
  receivers = Math.max(receivers, 1);
  told = noticed = true;
  return error ??= new InterruptedError();
}

/**
 * A wait that Ctrl+C ends: it rejects when the queues are done, so what a rejected read was given to
 * write into is no longer written to. netcl's own waits are such; wrap others, such as a download, to
 * be told while they last.
 *
 * @param wait What is waited for. It goes on by itself when the result rejects early.
 * @returns Settles as `wait` does, or rejects with an {@linkcode InterruptedError}.
 *
 * @example A download that Ctrl+C ends
 * ```ts
 * import { interruptible } from "@netcl/netcl/backend";
 *
 * const response = await interruptible(fetch("data:,weights"));
 * console.assert(await response.text() === "weights");
 * ```
 */
export function interruptible<T>(wait: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const tell = () => reject(deliver());
    wait.then((value) => {
      // A wait that ends while the queues drain rejects with the interrupt all the same.
      if (phase !== "draining" && waiters.delete(tell)) resolve(value);
    }, (error) => {
      if (waiters.delete(tell)) reject(error);
    });
    if (isUndelivered()) tell();
    else waiters.add(tell);
  });
}

/** Counts an interrupt that no user code caught; true when none of its receivers did. */
export function countUnhandled(): boolean {
  return ++unhandled >= receivers;
}
