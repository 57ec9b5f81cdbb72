/** Reads values into host memory: those that are there, and views of them, without a kernel. */
import type { Backend } from "./backend.ts";
import { dtypes } from "../graph/dtype.ts";
import type { Node } from "../graph/node.ts";
import type { Storage } from "../graph/stored_value.ts";
import { type HostView, hostViewOf } from "./host_view.ts";
import { realize } from "./realize.ts";
import { activeRecording } from "./recording.ts";

/** Most bytes that a view reads beside its own, and most times its own. */
const MAX_EXTRA_BYTES = 16 << 20, MAX_EXTRA_FACTOR = 8;

/** Bytes copied to the host for a read, and the layout of the elements in them. */
interface Source {
  readonly storage: Storage | null;
  readonly data: Uint8Array<ArrayBuffer> | null;
  readonly view: HostView;
  readonly itemBytes: number;
}

/**
 * Source of a value; a computed one is stored if it is not yet, so that the next read finds it.
 *
 * @throws {Error} Inside a recorded function: what is recorded runs again without a reader.
 */
function sourceOf(backend: Backend, node: Node): Source {
  if (activeRecording()) {
    throw new Error(
      "Cannot read a value inside a compiled function: return the tensor and read it outside",
    );
  }
  return presentSource(node) ?? (realize(backend, [node]), presentSource(node)!);
}

function presentSource(node: Node): Source | null {
  const view = hostViewOf(node);
  if (view === null) return null;
  const { base } = view, itemBytes = dtypes[node.dtype].bytes;
  if (base.op.kind === "data") return { storage: null, data: base.op.bytes, view, itemBytes };
  const spare = (view.last - view.first + 1 - node.size) * itemBytes;
  if (spare > MAX_EXTRA_BYTES && spare > MAX_EXTRA_FACTOR * node.size * itemBytes) return null;
  return { storage: base.storage, data: null, view, itemBytes };
}

/** True where a value is read as it is, without a kernel. */
export const isReadable = (node: Node): boolean => presentSource(node) !== null;

/** The bytes of a value that the host can look at now, without a kernel and without waiting; else null. */
export function peekNode(backend: Backend, node: Node): Uint8Array<ArrayBuffer> | null {
  const source = presentSource(node);
  if (source === null) return null;
  const bytes = new Uint8Array(node.size * source.itemBytes);
  const seen = source.data ?? backend.peek?.(source.storage!.handle);
  if (!seen) return null;
  pick({ ...source, data: seen }, seen, bytes);
  return bytes;
}

/**
 * Copies a value to the host. It stays where it is meanwhile, whatever becomes of its tensor.
 *
 * @throws {RangeError} When earlier work used an index out of range.
 * @throws {InterruptedError} When Ctrl+C arrives while it waits.
 */
export async function readNode(backend: Backend, node: Node, into: Uint8Array): Promise<void> {
  const source = sourceOf(backend, node);
  const { storage } = source;
  if (storage === null) return pick(source, source.data!, into);
  storage.retain();
  try {
    const bytes = target(source, into);
    await backend.read(storage.handle, bytes, firstByte(source));
    if (bytes !== into) pick(source, bytes, into);
  } finally {
    storage.release();
  }
}

/** The same, blocking the event loop. */
export function readNodeSync(backend: Backend, node: Node, into: Uint8Array): void {
  const source = sourceOf(backend, node);
  const { storage } = source;
  if (storage === null) return pick(source, source.data!, into);
  const bytes = target(source, into);
  backend.readSync(storage.handle, bytes, firstByte(source));
  if (bytes !== into) pick(source, bytes, into);
}

/** Destination of the device's bytes: the reader itself where they lie one behind the other. */
function target({ view, itemBytes }: Source, into: Uint8Array): Uint8Array {
  if (view.isContiguous) return into;
  return new Uint8Array((view.last - view.first + 1) * itemBytes);
}

const firstByte = ({ view, itemBytes }: Source): number => view.first * itemBytes;

/** Puts the elements of a view, of bytes that begin with its first one, one behind the other. */
function pick(source: Source, bytes: Uint8Array, into: Uint8Array): void {
  const { view: { shape, strides, start, first }, itemBytes, data } = source;
  const origin = data === null ? start - first : start;
  if (source.view.isContiguous) {
    into.set(bytes.subarray(origin * itemBytes, origin * itemBytes + into.length));
    return;
  }
  const index = shape.map(() => 0);
  let at = origin;
  for (let to = 0; to < into.length; to += itemBytes) {
    for (let b = 0; b < itemBytes; b++) into[to + b] = bytes[at * itemBytes + b]!;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      at -= strides[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
}
