/**
 * The net under values that nobody gave back; disposing of tensors is the way to go.
 *
 * What is caught is the node: it is out of reach when no tensor holds it, and no other node that
 * could still be computed from it. A node under the net outlives the collector's quick rounds, and
 * most values are given back a moment later, so a new one waits for the end of the turn, or for
 * enough others, and comes under the net only if it is in memory still.
 */
import { finalizer } from "../../ffi/finalizer.ts";
import type { Storage } from "./node.ts";

/** What a node has in memory. */
export interface Owned {
  storage: Storage | null;
  /** It is no leak: whoever saved the value gives it back. */
  isSaved: boolean;
  /** Whether the node waits to come under the net, or is there. */
  isWatched: boolean;
}

const net = finalizer<Owned>("the memory of a forgotten tensor", ({ storage, isSaved }) => {
  if (isSaved) storage?.release();
  else storage?.reclaim();
});

/** So many nodes wait in one turn at most. */
const MOST_WAITING = 1024;

let nodes: object[] = [], owned: Owned[] = [];
let isTurnWatched = false;

/** Has what a node owns given back when nobody can reach it any more. */
export function watch(node: object, own: Owned): void {
  if (own.isWatched) return;
  own.isWatched = true;
  owned.push(own);
  if (nodes.push(node) === MOST_WAITING) return spread();
  if (isTurnWatched) return;
  isTurnWatched = true;
  queueMicrotask(() => {
    isTurnWatched = false;
    spread();
  });
}

/** Takes those that wait under the net, as far as they are in memory. */
function spread(): void {
  nodes.forEach((node, k) => {
    const own = owned[k]!;
    own.isWatched = own.storage !== null;
    if (own.isWatched) net.register(node, own);
  });
  nodes = [];
  owned = [];
}
