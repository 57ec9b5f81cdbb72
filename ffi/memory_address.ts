/**
 * Addresses of JavaScript memory, for the few functions that take a pointer to pointers.
 *
 * @module
 */

/** The address of a view's first byte. Valid while the view is held: backing stores never move. */
export function addressOf(view: ArrayBufferView<ArrayBuffer>): bigint {
  return Deno.UnsafePointer.value(Deno.UnsafePointer.of(view));
}
