/**
 * Calls of extensions' functions, which do not go through the table of symbols: the point at which
 * `withFaults` takes part in them.
 *
 * @module
 */
import type { FunctionType } from "../symbols/types.ts";

/** A function of any signature. */
// deno-lint-ignore no-explicit-any -- the tables know the signatures
export type AnyCall = (...args: any[]) => unknown;

let intercept: ((name: string, type: FunctionType, call: AnyCall) => AnyCall) | null = null;

/** Lets every call of an extension's function go through another one: see `withFaults`. */
export function setExtensionInterceptor(next: typeof intercept): void {
  intercept = next;
}

/** The function, through the interceptor while there is one. */
export function interceptable(name: string, type: FunctionType, call: AnyCall): AnyCall {
  return (...args: unknown[]) =>
    intercept === null ? call(...args) : intercept(name, type, call)(...args);
}
