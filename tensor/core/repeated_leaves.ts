/**
 * Tensors of host data that a checkpointed function makes within a compiled one. Its second run, of which
 * `compile` sees nothing, takes those of the first: a replay brings their values, and no others.
 */
import type { DeviceHandle, Node } from "../../backend/internal.ts";
import { isObserved, type Operation } from "./calls.ts";
import { makeTensor, nodeOf } from "./internals.ts";
import { observedCall } from "./operations.ts";
import type { Tensor } from "./mod.ts";

/** A value that was made of host data. */
export interface HostLeaf {
  readonly node: Node;
  readonly device: DeviceHandle;
}

/** Leaves of functions that are running; each list gets another handle of every one. */
let noted: Tensor[][] = [];

let repeated: { readonly leaves: readonly HostLeaf[]; next: number } | null = null;

/** Makes a tensor of host data, or gives that of the first run. */
export function makeLeaf(make: Operation, args: unknown[]): Tensor {
  const known = repeated?.leaves[repeated.next++];
  const leaf = known
    ? makeTensor(known.node, known.device)
    : observedCall("leaf", make, undefined, args) as Tensor;
  for (const leaves of noted) leaves.push(another(leaf));
  return leaf;
}

/** Runs `fn`, whose leaves are the library's own, made once: they are neither noted nor repeated. */
export function withOwnLeaves<T>(fn: () => T): T {
  const former = [noted, repeated] as const;
  [noted, repeated] = [[], null];
  try {
    return fn();
  } finally {
    [noted, repeated] = former;
  }
}

/** Another handle: the function may dispose of its own. */
function another(leaf: Tensor): Tensor {
  return makeTensor(nodeOf(leaf), leaf.device);
}

/** Runs `fn`, and gives handles of the leaves that it makes, in a compiled function; they are the caller's. */
export function noteLeaves<T>(fn: () => T): { value: T; leaves: readonly Tensor[] } {
  const leaves: Tensor[] = [];
  if (!isObserved() && repeated === null) return { value: fn(), leaves };
  noted.push(leaves);
  try {
    return { value: fn(), leaves };
  } finally {
    noted.splice(noted.indexOf(leaves), 1);
  }
}

/** Runs `fn` with the leaves of its first run; none where that was in no compiled function. */
export function repeatLeaves<T>(leaves: readonly HostLeaf[], fn: () => T): T {
  const former = repeated;
  repeated = leaves.length === 0 ? null : { leaves, next: 0 };
  try {
    return fn();
  } finally {
    repeated = former;
  }
}
