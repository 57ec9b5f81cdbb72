/**
 * The lists of handles that clGetPlatformIDs and clGetDeviceIDs fill.
 *
 * @module
 */
import { check } from "./errors.ts";

/** Asks for the count, then for the handles. `none` is the status that stands for an empty list. */
export function listHandles(
  call: string,
  none: number,
  ask: (count: number, ids: BigUint64Array | null, out: Uint32Array | null) => number,
): BigUint64Array {
  const count = new Uint32Array(1);
  const status = ask(0, null, count);
  if (status === none) return new BigUint64Array(0);
  check(status, call);
  const handles = new BigUint64Array(count[0]!);
  if (handles.length > 0) check(ask(handles.length, handles, null), call);
  return handles;
}
