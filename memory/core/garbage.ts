import { host } from "../../ffi/runtime/host.ts";

let collect: (() => void) | null = null;

/** Runs the garbage collector now; finalizers run in a later turn of the event loop. */
export function runCollector(): void {
  collect ??= host.collector();
  collect();
}
