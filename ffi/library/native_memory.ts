/**
 * Memory that outlives the thread of JavaScript that uses it.
 *
 * `worker.terminate()` ends a worker between any two calls and frees its arrays, also those that
 * the driver copies from or to at that moment: a corrupted heap for the whole process. In a worker
 * such copies therefore go by way of the C library's memory. What a terminated worker leaves there
 * stays allocated until the process ends, like its buffers.
 *
 * @module
 */
import type { ForeignSymbols } from "../runtime/types.ts";
import { isMainThread } from "node:worker_threads";
import { openLibc } from "../host/libc.ts";
import { isForeignMemory, memoryView } from "./memory_view.ts";

/** True when another thread may end this one at any moment (`worker.terminate()`). */
export const isTerminable: boolean = !isMainThread || "WorkerGlobalScope" in globalThis;

const functions = {
  malloc: { parameters: ["usize"], result: "u64" },
  free: { parameters: ["u64"], result: "void" },
} as const;

type Allocator = ForeignSymbols<typeof functions>;

let opened: Allocator | null | undefined;
const addresses = new WeakMap<ArrayBufferLike, bigint>();

function allocator(): Allocator | null {
  return opened === undefined ? opened = openLibc(functions)?.symbols ?? null : opened;
}

/**
 * Allocates memory that stays when this thread ends.
 *
 * @param nbytes Its size.
 * @returns A view of it, to be given back with {@linkcode freeNative}; null where no C library may
 *   be opened.
 * @throws {RangeError} When there is not as much.
 */
export function allocateNative(nbytes: number): Uint8Array<ArrayBuffer> | null {
  const libc = allocator();
  if (libc === null || nbytes === 0) return null;
  const address = libc.malloc(BigInt(nbytes));
  if (address === 0n) throw new RangeError(`Cannot allocate ${nbytes} bytes of host memory`);
  const view = memoryView(address, nbytes, libc);
  addresses.set(view.buffer, address);
  return view;
}

/** Gives back what {@linkcode allocateNative} made; other memory is left alone. */
export function freeNative({ buffer }: ArrayBufferView): void {
  const address = addresses.get(buffer);
  if (address === undefined) return;
  addresses.delete(buffer);
  (buffer as ArrayBuffer).transfer(0); // no view reaches what is freed
  allocator()!.free(address);
}

/** True when the end of this thread would free memory that the driver is still given. */
export function needsShelter({ buffer }: ArrayBufferView): boolean {
  return isTerminable && !isForeignMemory(buffer);
}
