/** Whether a value may come from either of two kernels that differ in the last digits. */
import { readSwitch } from "../../ffi/host/switches.ts";

let deterministic: boolean | undefined;

/** True where every value comes from the same kernel in every run. */
export function isDeterministic(): boolean {
  return deterministic ??= readSwitch("NETCL_DETERMINISTIC") ?? false;
}

/** See `setDeterministic` of the tensor layer. */
export function waitForCompiledKernels(enabled: boolean): void {
  deterministic = enabled;
}
