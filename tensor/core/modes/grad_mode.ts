/**
 * Recording of operations for `backward`, properties of the running task, not of the program:
 * whether they are, and whether anomalies are looked for.
 *
 * This folder (`modes/`) is what the code around an operation says about it, and what is recorded of it. It
 * imports `rules/`, and one constant of `backend/`.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { fileURLToPath } from "node:url";
import { requireValue, takes } from "../rules/options.ts";

const mode = new AsyncLocalStorage<boolean>();
/** Nobody pays for a look at the task's mode before the first use. */
let everSet = false;
/** The mode of the function that runs now, where it was set without the task's; null where not. */
let present: boolean | null = null;

/** True where operations on tensors that require gradients are recorded. */
export function isGradEnabled(): boolean {
  if (present !== null) return present;
  return everSet ? mode.getStore() ?? true : true;
}

/**
 * Runs `fn` with recording on or off, at the cost of an assignment. What `fn` leaves to run later, behind
 * an `await`, has the mode of its task: see {@linkcode noGrad} for that.
 */
export function recording<T>(isOn: boolean, fn: () => T): T {
  const former = present;
  present = isOn;
  try {
    return fn();
  } finally {
    present = former;
  }
}

/** Runs `fn`, which is not asynchronous, without recording. */
export function withoutGrad<T>(fn: () => T): T {
  return recording(false, fn);
}

function runIn<T>(isOn: boolean, fn: () => T): T {
  everSet = true;
  return mode.run(isOn, () => recording(isOn, fn));
}

/**
 * Runs `fn` without recording operations for `backward`; safe across await.
 *
 * @param fn What to run.
 * @returns What `fn` returns.
 *
 * @example
 * ```ts
 * import { noGrad, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const w = Tensor.ones([2], { requiresGrad: true });
 * assertEquals(noGrad(() => w.mul(2)).requiresGrad, false);
 * ```
 */
export function noGrad<T>(fn: () => T): T {
  requireValue("run without gradients", "fn", fn, takes.callback);
  return runIn(false, fn);
}

/**
 * Runs `fn` with recording on, also inside `noGrad`; safe across await.
 *
 * @param fn What to run.
 * @returns What `fn` returns.
 *
 * @example
 * ```ts
 * import { enableGrad, noGrad, Tensor } from "@netcl/netcl";
 *
 * const w = Tensor.ones([2], { requiresGrad: true });
 * console.assert(noGrad(() => enableGrad(() => w.mul(2))).requiresGrad);
 * ```
 */
export function enableGrad<T>(fn: () => T): T {
  requireValue("run with gradients", "fn", fn, takes.callback);
  return runIn(true, fn);
}

// ---- anomalies

/** True while anomalies are looked for in the running task. */
const anomalies = new AsyncLocalStorage<boolean>();
let always = false;
/** Nobody pays for a look at the scope before the first use. */
let everUsed = false;

/** True where `backward` looks for NaN and operations note where they were called. */
export function isAnomalyEnabled(): boolean {
  return everUsed && (anomalies.getStore() ?? always);
}

/**
 * Runs `fn` with anomaly detection: operations note where they were called, and `backward` (and
 * `grad`) throws an `AnomalyError` if a gradient is NaN, which names the operation that made it so
 * and where that was called. Put the forward pass and `backward` inside. It is for finding bugs:
 * backward computes at once, and more than it otherwise would; functions made by `compile` run as
 * they are written. Safe across await.
 *
 * @param fn What to run.
 * @returns What `fn` returns.
 *
 * @example
 * ```ts
 * import { AnomalyError, detectAnomaly, Tensor } from "@netcl/netcl";
 * import { assertThrows } from "@std/assert";
 *
 * const x = Tensor.fromHost([0, 4], { requiresGrad: true });
 * assertThrows(
 *   () => detectAnomaly(() => x.sqrt().mul(0).sum().backward()),
 *   AnomalyError,
 *   "Cannot go backward through sqrt",
 * );
 * ```
 */
export function detectAnomaly<T>(fn: () => T): T {
  requireValue("detect anomalies", "fn", fn, takes.callback);
  everUsed = true;
  return anomalies.run(true, fn);
}

/**
 * Turns anomaly detection on or off for the whole program, where no {@linkcode detectAnomaly} says
 * otherwise.
 *
 * @param on Whether to look for NaN.
 */
export function setDetectAnomaly(on: boolean): void {
  requireValue("set the detection of anomalies", "on", on, takes.bool);
  everUsed ||= on;
  always = on;
}

const tensorFolder = new URL("../../", import.meta.url);
/** A folder as stacks name it: by its address, on Bun by its path. */
const namesOf = (folder: URL): readonly string[] =>
  folder.protocol === "file:" ? [folder.href, fileURLToPath(folder)] : [folder.href];
const tensorNames = namesOf(tensorFolder), nnNames = namesOf(new URL("nn/", tensorFolder));
const MAX_FRAMES = 64;

/** True for the frames of operations; those of layers lead to the user's model, and stay. */
function isInside(frame: string): boolean {
  const isIn = (names: readonly string[]): boolean => names.some((name) => frame.includes(name));
  return isIn(tensorNames) && !isIn(nnNames);
}

/** Call of the running operation: the stack without the library's own first frames. */
export function callerStack(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = MAX_FRAMES;
  const frames = (new Error().stack ?? "").split("\n").slice(1);
  Error.stackTraceLimit = limit;
  const first = frames.findIndex((frame) => !isInside(frame));
  return frames.slice(Math.max(0, first)).join("\n");
}
