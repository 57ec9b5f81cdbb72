/**
 * The net under tensors that nobody disposed; `dispose` and `using` are the way to go.
 *
 * A tensor under the net outlives the collector's quick rounds, and most tensors are results on the
 * way that own nothing a moment later. So a new tensor waits for the end of the turn, or for enough
 * others, and comes under the net only if it still owns something then.
 */
import type { Node, Saved, Token } from "../backend/engine.ts";

/** What a tensor owns, for the finalizer. */
export interface Held extends Token {
  /** The value before the last `assign`, kept so that what was computed from it can be read. */
  former: Node | null;
  /** What was kept on the way to its value, for `backward`. */
  saved: Saved[] | null;
  /** Whether the tensor waits to come under the net, or is there. */
  isWatched: boolean;
}

const net = new FinalizationRegistry<Held>((held) => {
  held.node?.drop(true);
  held.former?.drop(true);
  releaseSaved(held);
});

/** So many tensors wait in one turn at most. */
const MOST_WAITING = 1024;

let tensors: object[] = [], owned: Held[] = [];
let isTurnWatched = false;

/** Has what a tensor owns given back when nobody can reach it any more. */
export function watch(tensor: object, held: Held): void {
  if (held.isWatched) return;
  held.isWatched = true;
  owned.push(held);
  if (tensors.push(tensor) === MOST_WAITING) return spread();
  if (isTurnWatched) return;
  isTurnWatched = true;
  queueMicrotask(() => {
    isTurnWatched = false;
    spread();
  });
}

/** Takes those that wait under the net, as far as they own something. */
function spread(): void {
  tensors.forEach((tensor, k) => {
    const held = owned[k]!;
    held.isWatched = owns(held);
    if (held.isWatched) net.register(tensor, held);
  });
  tensors = [];
  owned = [];
}

function owns({ node, former, saved }: Held): boolean {
  return former !== null || saved !== null ||
    node !== null && (node.storage !== null || node.inputs.length > 0);
}

/** Lets go of what was kept for `backward`. */
export function releaseSaved(held: Held): void {
  for (const saved of held.saved ?? []) saved.release();
  held.saved = null;
}
