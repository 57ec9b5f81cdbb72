/** Whether operations are recorded for `backward`: a property of the running task, not of the program. */
import { AsyncLocalStorage } from "node:async_hooks";
import { requireValue, takes } from "./options.ts";

const mode = new AsyncLocalStorage<boolean>();

/** True where operations on tensors that require gradients are recorded. */
export function isGradEnabled(): boolean {
  return mode.getStore() ?? true;
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
  return mode.run(false, fn);
}

/** Runs `fn` with recording on, also inside `noGrad`. */
export function enableGrad<T>(fn: () => T): T {
  requireValue("run with gradients", "fn", fn, takes.callback);
  return mode.run(true, fn);
}
