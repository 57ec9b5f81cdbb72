/** Ranks that learn together must have the same parameters: buckets hold them one behind the other. */
import { type Communicator, completedSync, formatShape } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";

/** A parameter or buffer with its name, as modules list them. */
export type Named = readonly [name: string, tensor: Tensor];

/**
 * Compares names, shapes and types with those of rank 0.
 *
 * @throws {TypeError} On every rank, when those of any rank differ; it names the first that does.
 */
export function requireSameParameters(named: readonly Named[], communicator: Communicator): void {
  const own = named.map(describe), first = broadcastLines(own, communicator);
  const at = first.findIndex((line, k) => line !== own[k]);
  const differs = at >= 0 || own.length !== first.length;
  // The highest rank that differs, and none: every rank throws, or none does.
  const verdict = Int32Array.of(differs ? communicator.rank : -1);
  const bytes = new Uint8Array(verdict.buffer);
  completedSync("compare parameters", communicator.allReduce(bytes, "int32", "max"));
  if (verdict[0]! < 0) return;
  const start = "Cannot make a DataParallel: every rank must make the same module";
  if (!differs) {
    throw new TypeError(`${start}; rank ${verdict[0]} has other parameters than rank 0`);
  }
  const k = at >= 0 ? at : first.length;
  throw new TypeError(
    `${start}; rank ${communicator.rank} has ${own[k] ?? "no more"} where rank 0 has ${
      first[k] ?? "no more"
    }`,
  );
}

function describe([name, { shape, dtype }]: Named): string {
  return `${name} of shape ${formatShape(shape)} and type ${dtype}`;
}

/** The lines of one rank; none of them is empty. */
export function broadcastLines(
  own: readonly string[],
  communicator: Communicator,
  root = 0,
): string[] {
  const text = new TextEncoder().encode(own.join("\n"));
  const length = Int32Array.of(text.byteLength), action = "compare what ranks have";
  completedSync(action, communicator.broadcast(new Uint8Array(length.buffer), root));
  const bytes = new Uint8Array(length[0]!);
  bytes.set(text.subarray(0, bytes.length));
  if (bytes.length > 0) completedSync(action, communicator.broadcast(bytes, root));
  return bytes.length === 0 ? [] : new TextDecoder().decode(bytes).split("\n");
}
