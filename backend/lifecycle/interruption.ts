/**
 * Meaning of Ctrl+C for code that waits: a small state machine, apart from how signals arrive.
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

/** Error that delivers the interrupt. */
let error: InterruptedError | undefined;
/** The program asked what kind of error it was. */
let caught = false;

/**
 * Thrown and rejected with when the user pressed Ctrl+C: by every call of netcl that waited for a
 * device. Catch it to save; uncaught it ends the program with status 130 and no stack trace.
 *
 * Code that asks of what it caught `error instanceof InterruptedError`, or for its name, may take as
 * long as it likes. What catches everything and does not ask, as the error handler of a server, does
 * not keep the program: it ends after the grace window, and not while files are saved by netcl.
 */
export class InterruptedError extends Error {
  /** True when an object is such an error. To ask this of a caught error counts as catching. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (!isInterruptedError(value)) return false;
    caught ||= value === error;
    return true;
  }

  /** "InterruptedError". */
  override get name(): string {
    if (this === error && !caught) caught = !isReadToPrint();
    return "InterruptedError";
  }

  /**
   * Made by netcl when a signal comes.
   *
   * @param message The signal; by default Ctrl+C.
   * @param options The cause: an error of the device while its queues were finished.
   */
  constructor(message: string = "Interrupted by SIGINT (Ctrl+C)", options?: ErrorOptions) {
    super(message, options);
  }
}

/** The frame of the stack that reads a name: after the two below it, and the line of the error. */
const READER_LINE = 3;

/** True when the runtime, to print an error, or the language itself reads its name. */
function isReadToPrint(): boolean {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = READER_LINE;
  const reader = String(new Error().stack).split("\n")[READER_LINE] ?? "";
  Error.stackTraceLimit = limit;
  return /\(<anonymous>\)$|\b(?:ext|node):/.test(reader);
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
  const made = new AbortController(), { signal } = made;
  // The signal's own methods, and all that take a signal, such as fetch, read its fields: so to read
  // or set any of them counts as watching. Where the runtime keeps them outside of the language (Bun),
  // what its class has is read instead; fetch and AbortSignal.any there read nothing.
  for (const [key, field] of fieldsOf(signal)) {
    let { value } = field;
    Object.defineProperty(signal, key, {
      configurable: true,
      enumerable: true,
      get: () => (watch(), field.get ? field.get.call(signal) : value),
      set: (changed: unknown) => {
        watch();
        if (field.set) field.set.call(signal, changed);
        else value = changed;
      },
    });
  }
  return made;
}

/** Members of an object and its classes, but for those of every object. */
function fieldsOf(object: object): Map<PropertyKey, PropertyDescriptor> {
  const fields = new Map<PropertyKey, PropertyDescriptor>();
  for (let at = object; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const key of Reflect.ownKeys(at)) {
      if (key in Object.prototype || fields.has(key)) continue;
      fields.set(key, Reflect.getOwnPropertyDescriptor(at, key)!);
    }
  }
  return fields;
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

/** True when the program uses {@linkcode interruptSignal}, and so acts upon Ctrl+C. */
export const isWatched = (): boolean => watched;

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

/** True when no interruption is under way, or the last one was followed by a rearm. */
export const isRunning = (): boolean => phase === "running";

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
  error = interruption(cause);
  const waiting = [...waiters];
  waiters.clear();
  receivers = waiting.length;
  told = receivers > 0;
  aborting = true;
  insideListener.run(true, () => controller.abort(error));
  aborting = false;
  for (const tell of waiting) tell();
}

/** An error whose stack is written already: the runtime reads the name for that. */
function interruption(cause?: unknown): InterruptedError {
  const made = new InterruptedError(undefined, cause === undefined ? undefined : { cause });
  void made.stack;
  return made;
}

/** Back to running, with a fresh {@linkcode interruptSignal}. */
export function resetInterruption(): void {
  if (phase === "draining") {
    throw new Error("Cannot rearm while the first Ctrl+C is still waiting for the queues");
  }
  phase = "running";
  error = undefined;
  receivers = unhandled = 0;
  told = caught = watched = false;
  controller = watchedController();
  interruptSignal = controller.signal;
}

/** Calls that must not end half done, one within the other. */
let whole = 0;

/** Calls what must not end half done: an interrupt that comes meanwhile is told to the next call that launches or waits. */
export function asWhole(call: () => void): void {
  whole++;
  try {
    call();
  } finally {
    whole--;
  }
}

/** Throws the interrupt if it was not delivered yet; for calls that launch or wait. */
export function throwIfInterrupted(): void {
  if (whole === 0 && isUndelivered()) throw deliver();
}

/** True when the signal came and the queues are being finished. */
export const isDraining = (): boolean => phase === "draining";

/**
 * True when the interrupt is over, or the program acts upon it: it asked for the error, or uses
 * {@linkcode interruptSignal} and let no such error go uncaught.
 */
export function isHandled(): boolean {
  return phase !== "interrupted" || caught || watched && unhandled === 0;
}

/** True when errors of the interrupt went uncaught. */
export const isUncaught = (): boolean => unhandled > 0;

/** True when an interrupt was delivered and is not rearmed yet. */
export const isInterrupted = (): boolean => phase === "interrupted";

function isUndelivered(): boolean {
  if (phase !== "interrupted" || told) return false;
  return insideListener.getStore() === undefined;
}

/** The interrupt's error; counts as delivered. */
export function deliver(): InterruptedError {
  receivers = Math.max(receivers, 1);
  told = true;
  return error ??= interruption();
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
export const countUnhandled = (): boolean => ++unhandled >= receivers;
