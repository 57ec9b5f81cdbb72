/**
 * Addresses of JavaScript memory, for the few functions that take a pointer to pointers.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import { MemFlags, MemInfo } from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { check } from "../library/errors.ts";
import { holdWhile } from "../library/hold.ts";
import { readers } from "../library/info.ts";
import { cl } from "../library/library.ts";

const errorCode = new Int32Array(1);

/**
 * Calls C with the addresses of several views, and holds the views until it returns: of an array of
 * addresses the collector does not know that it needs them.
 */
export function withAddresses<T>(
  views: readonly Uint8Array<ArrayBuffer>[],
  context: Context,
  call: (addresses: BigUint64Array) => T,
): T {
  return holdWhile(
    views,
    () => call(new BigUint64Array(views.map((view) => addressOf(view, context)))),
  );
}

/** The address of a view's first byte. Valid while the view is held: backing stores never move. */
function addressOf(view: Uint8Array<ArrayBuffer>, context: Context): bigint {
  // Where --allow-ffi names files, Deno refuses to tell addresses. OpenCL does not.
  return host.isGranted({ name: "ffi" }) ? host.addressOf(view) : hostPointer(view, context);
}

/** Asks a buffer over that memory where it lies. */
function hostPointer(view: Uint8Array, context: Context): bigint {
  const size = BigInt(view.byteLength), flags = MemFlags.USE_HOST_PTR | MemFlags.READ_ONLY;
  const buffer = cl.clCreateBuffer(context.unsafeHandle, flags, size, view, errorCode);
  check(errorCode[0]!, "clCreateBuffer");
  try {
    return readers.bits(
      (parameter, size, value, out) => cl.clGetMemObjectInfo(buffer, parameter, size, value, out),
      MemInfo.HOST_PTR,
      "clGetMemObjectInfo",
    );
  } finally {
    check(cl.clReleaseMemObject(buffer), "clReleaseMemObject");
  }
}
