/** Choice between kernels that differ in the last digits of a value. */
import { readSwitch } from "../../ffi/host/switches.ts";

/** The user's choice; undefined before the environment was asked, null where nobody chose. */
let chosen: boolean | null | undefined;
let isResumable = false;

/** True where every value comes from the same kernel in every run. */
export function isDeterministic(): boolean {
  return (chosen === undefined ? chosen = readSwitch("NETCL_DETERMINISTIC") ?? null : chosen) ??
    isResumable;
}

/** See `setDeterministic` of the tensor layer. */
export function waitForCompiledKernels(enabled: boolean): void {
  chosen = enabled;
}

/** A run may be resumed from here, or was: from now on values wait, unless the user chose otherwise. */
export function beginResumable(): void {
  isResumable = true;
}
