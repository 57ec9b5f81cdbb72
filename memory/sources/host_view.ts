import { host } from "../../ffi/runtime/host.ts";
import { memoryView } from "../../ffi/library/memory_view.ts";

/**
 * A view of part of some memory that can be detached without the other views of it. Detaching
 * (`view.buffer.transfer(0)`) frees nothing; it only makes the view empty.
 *
 * @param memory The memory.
 * @param owner Lives as long as the view, and keeps the memory until then.
 */
export function detachableView(
  memory: Uint8Array<ArrayBuffer>,
  offset: number,
  nbytes: number,
  owner: object,
): Uint8Array<ArrayBuffer> {
  const base = host.addressOf(memory);
  return memoryView(base + BigInt(offset), nbytes, owner);
}
