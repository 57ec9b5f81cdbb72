/**
 * Views of memory that is not JavaScript's.
 *
 * @module
 */

import { host } from "../runtime/host.ts";

// Whoever holds only the view must not lose the memory below it: the owner lives as long as the
// view.
const owners = new WeakMap<ArrayBuffer, object>();

/**
 * A view of the driver's memory. The owner must detach it before the memory is freed, and is not
 * collected while the view can be reached.
 */
export function memoryView(
  address: bigint,
  nbytes: number,
  owner: object,
): Uint8Array<ArrayBuffer> {
  if (address === 0n) throw new TypeError("Cannot view memory of the driver: it has no address");
  const buffer = host.memoryAt(address, nbytes);
  owners.set(buffer, owner);
  return new Uint8Array(buffer);
}

/** The keeper of the memory below a view; undefined where it is JavaScript's own. */
export function memoryOwner(buffer: ArrayBufferLike): object | undefined {
  return owners.get(buffer as ArrayBuffer);
}

/** True when a buffer is a view of memory that is not JavaScript's. */
export function isForeignMemory(buffer: ArrayBufferLike): boolean {
  return owners.has(buffer as ArrayBuffer);
}

/** Makes a view empty, so that it cannot reach what becomes of its memory. */
export function detach(view: Uint8Array<ArrayBuffer>): void {
  if (!view.buffer.detached) view.buffer.transfer(0);
}
