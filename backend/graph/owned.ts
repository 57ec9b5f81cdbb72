/**
 * What nodes have in memory, and who gives it back.
 *
 * Mostly the node itself, when nobody needs its value any more. Two nets are under that. The garbage
 * collector finds nodes that are out of reach: no tensor holds them, and no other node that could
 * still be computed from them. And where memory is short before the collector has had a turn, as in a
 * loop that never awaits, values move to the host: an array there goes with the node, in the midst of
 * a loop, too.
 *
 * A node under the nets outlives the collector's quick rounds, and most values are given back a
 * moment later, so a new one waits for the end of the turn, or for enough others, and comes under the
 * nets only if it is in memory still.
 */
import { finalizer } from "../../ffi/library/finalizer.ts";
import type { DeviceMemory } from "../../memory/mod.ts";
import type { Storage } from "./node.ts";

// deno-lint-ignore no-explicit-any -- graphs are the same on every backend
type Memory = DeviceMemory<any>;

/** What the collector's finalizer knows of a node: nothing that keeps the node's bytes on the host. */
interface Claim {
  owned: Owned | null;
}

/** What a node has in memory. */
export interface Owned {
  storage: Storage | null;
  /** The value, after it was moved to the host. */
  spilled: Uint8Array<ArrayBuffer> | null;
  /** It is no leak: whoever saved the value gives it back. */
  isSaved: boolean;
  /** Whether the node waits to come under the nets, or is there. */
  isWatched: boolean;
  /** Whether it is in {@linkcode MemoryValues.all}. */
  isListed: boolean;
  /** In which set of {@linkcode MemoryValues} it is. */
  retired: "lasting" | "brief" | null;
  /** Made when the node comes under the nets. */
  claim: Claim | null;
}

/** The values in one device's memory. */
class MemoryValues {
  /** Those under the nets, the oldest first. */
  readonly all = new Set<Owned>();
  /** Values that no tensor has any more, but from which one that has been computed may be again. */
  readonly lasting = new Set<Owned>();
  lastingBytes = 0;
  /** Those that only activations of a graph that backward has gone through may need again. */
  readonly brief = new Set<Owned>();
  briefBytes = 0;
}

const values = new WeakMap<Memory, MemoryValues>();

function valuesIn(memory: Memory): MemoryValues {
  let known = values.get(memory);
  if (!known) values.set(memory, known = new MemoryValues());
  return known;
}

const net = finalizer<Claim>("the memory of a forgotten tensor", ({ owned }) => {
  if (owned === null || owned.storage === null) return;
  const { storage } = owned;
  leave(owned, storage);
  owned.storage = null;
  if (owned.isSaved) storage.release();
  else storage.reclaim();
});

/** So many nodes wait in one turn at most. */
const MOST_WAITING = 1024;

let nodes: object[] = [], waiting: Owned[] = [];
let isTurnWatched = false;

/** Gives a node its value in memory; takes over the reference on `storage`. */
export function own(
  node: object,
  known: Owned | null,
  storage: Storage,
  isSaved: boolean,
): Owned {
  const owned = known ?? newOwned();
  owned.storage = storage;
  owned.spilled = null;
  owned.isSaved = isSaved;
  if (owned.claim !== null) list(owned, owned.claim, storage);
  else if (!owned.isWatched) watch(node, owned);
  return owned;
}

function newOwned(): Owned {
  return {
    storage: null,
    spilled: null,
    isSaved: false,
    isWatched: false,
    isListed: false,
    retired: null,
    claim: null,
  };
}

function list(owned: Owned, claim: Claim, { memory }: Storage): void {
  claim.owned = owned;
  owned.isListed = true;
  valuesIn(memory).all.add(owned);
}

function watch(node: object, owned: Owned): void {
  owned.isWatched = true;
  waiting.push(owned);
  if (nodes.push(node) === MOST_WAITING) return spread();
  if (isTurnWatched) return;
  isTurnWatched = true;
  queueMicrotask(() => {
    isTurnWatched = false;
    spread();
  });
}

/** Takes those that wait under the nets, as far as they are in memory. */
function spread(): void {
  nodes.forEach((node, k) => {
    const owned = waiting[k]!, { storage } = owned;
    owned.isWatched = storage !== null;
    if (storage === null) return;
    owned.claim = { owned };
    net.register(node, owned.claim);
    list(owned, owned.claim, storage);
  });
  nodes = [];
  waiting = [];
}

/** Gives the value back. */
export function disown(owned: Owned): void {
  const { storage } = owned;
  owned.spilled = null;
  if (storage === null) return;
  leave(owned, storage);
  owned.storage = null;
  storage.release();
}

/** Gives the value back and takes another one in its place, unless others hold the block, too. */
export function exchange(owned: Owned, storage: Storage): boolean {
  const { storage: former } = owned;
  if (former === null || former.references > 1 || former.memory !== storage.memory) return false;
  unretire(owned);
  owned.storage = storage;
  former.release();
  return true;
}

/** Takes a value out of all sets. */
function leave(owned: Owned, { memory }: Storage): void {
  unretire(owned);
  if (!owned.isListed) return;
  owned.isListed = false;
  valuesIn(memory).all.delete(owned);
}

/** Nobody has the value any more, but it may be needed again; see {@linkcode MemoryValues}. */
export function retire(owned: Owned, isLasting: boolean): void {
  const set = isLasting ? "lasting" : "brief";
  if (owned.retired === set) return;
  unretire(owned);
  const { memory, nbytes } = owned.storage!;
  const all = valuesIn(memory);
  owned.retired = set;
  all[set].add(owned);
  all[`${set}Bytes`] += nbytes;
}

/** Somebody has the value again, or it is gone. */
export function unretire(owned: Owned): void {
  if (owned.retired === null) return;
  const { memory, nbytes } = owned.storage!;
  const all = valuesIn(memory);
  all[owned.retired].delete(owned);
  all[`${owned.retired}Bytes`] -= nbytes;
  owned.retired = null;
}

/**
 * Lets go of what only activations of former steps need, since a tensor was assigned its next value;
 * the oldest first, until there are no more than `most` bytes.
 */
export function releaseBrief(memory: Memory, most = 0): void {
  const all = values.get(memory);
  if (!all) return;
  for (const owned of all.brief) {
    if (most > 0 && all.briefBytes <= most) break;
    disown(owned);
  }
}

/** The bytes of values that no tensor has any more and that are kept for what may be computed again. */
export function retiredBytes(memory: Memory): { lasting: number; brief: number } {
  const all = values.get(memory);
  return { lasting: all?.lastingBytes ?? 0, brief: all?.briefBytes ?? 0 };
}

/** How values move to the host. */
export interface Spill {
  /** Only those that no tensor has any more. */
  readonly onlyLasting: boolean;
  /** Stops when so many bytes are free. */
  readonly nbytes: number;
  /** False for a value that must stay where it is. */
  readonly mayGo: (storage: Storage) => boolean;
  /** Copies the bytes. */
  readonly read: (storage: Storage, into: Uint8Array) => void;
}

/** Moves values of one memory to the host, the oldest first; gives back how many bytes. */
export function spill(memory: Memory, { onlyLasting, nbytes, mayGo, read }: Spill): number {
  spread();
  const all = valuesIn(memory);
  let freed = 0;
  for (const owned of onlyLasting ? all.lasting : all.all) {
    if (freed >= nbytes) break;
    const storage = owned.storage!;
    // A block that others hold, too, is not free when this value goes.
    if (owned.isSaved || storage.references > 1 || !mayGo(storage)) continue;
    const bytes = new Uint8Array(storage.nbytes);
    read(storage, bytes);
    freed += storage.nbytes;
    disown(owned);
    owned.spilled = bytes;
    // From here on the bytes are within reach of the node alone, and go when it goes.
    owned.claim!.owned = null;
  }
  return freed;
}
