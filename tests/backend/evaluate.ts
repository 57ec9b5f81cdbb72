/** Values as one backend computes them, without storing them for others. */
import type { Backend } from "../../backend/execution/backend.ts";
import { dtypes } from "../../backend/graph/dtype.ts";
import { Node } from "../../backend/graph/node.ts";
import { readNodeSync } from "../../backend/execution/reading.ts";
import { realize } from "../../backend/execution/realize.ts";

/** The bytes of a node that may belong to another backend. */
export function bytesOn(backend: Backend, node: Node): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(node.size * dtypes[node.dtype].bytes);
  if (node.storage) {
    backend.readSync(node.storage.handle, bytes);
    return bytes;
  }
  const apart = new Node({ kind: "reshape" }, [node], node.shape, node.dtype);
  apart.hold();
  try {
    realize(backend, [apart]);
    readNodeSync(backend, apart, bytes);
  } finally {
    apart.drop();
  }
  return bytes;
}
