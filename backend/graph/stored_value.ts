/**
 * Values of nodes in memory, and who gives them back.
 *
 * Mostly the node does, when nobody needs its value any more. A node that is still in memory at the end of
 * the turn is registered with a finalizer: the collector finds nodes that no tensor holds, and no other
 * node that could still be computed from them. Where memory is short before the collector has had a turn,
 * as in a loop that never awaits, values of registered nodes move to the host, oldest first: the collector
 * can free an array of a node in the midst of a loop.
 *
 * Registering is late because a registered node outlives the collector's quick rounds, and most values are
 * given back a moment after they were made.
 */
import { finalizer } from "../../ffi/library/finalizer.ts";
import type { DeviceMemory, Storage as StorageOf } from "../../memory/mod.ts";

/** A value in memory; which kind of memory is its backend's business. */
// deno-lint-ignore no-explicit-any -- graphs are the same on every backend
export type Storage = StorageOf<any>;

// deno-lint-ignore no-explicit-any -- graphs are the same on every backend
type Memory = DeviceMemory<any>;

/** Finalizer's data of a node: nothing that keeps the node's bytes on the host. */
class Claim {
  constructor(public value: StoredValue | null) {}
}

/** Sweeps that an unread computed value stays: it may belong to a model being set up. */
const UNREAD_SWEEPS = 4;

/**
 * A node's value in memory. A class, as claims are: V8 puts literals that live for a while
 * into the old generation, where they stay until a full collection.
 */
export class StoredValue {
  /** Its storage; null while it is not in memory. */
  storage: Storage | null = null;
  /** The value, after it was moved to the host. */
  spilled: Uint8Array<ArrayBuffer> | null = null;
  /** So many sweeps it may stay unread; for ever, what came from the host and was never read. */
  patience = UNREAD_SWEEPS;
  /** It is what a tensor has that learns or was assigned, or the user wants it to stay. */
  stays = false;
  /** It is no leak: whoever saved the value gives it back. */
  isSaved = false;
  /** True when the node is registered with the finalizer, or waits to be. */
  isWatched = false;
  /** True when it is in {@linkcode MemoryValues.all}. */
  isListed = false;
  /** Possible later need of a value that no tensor has any more. */
  retired: "lasting" | "transient" | null = null;
  /** Made when the node is registered. */
  claim: Claim | null = null;
}

/** The values in one device's memory. */
class MemoryValues {
  /** Those of registered nodes, the oldest first. */
  readonly all = new Set<StoredValue>();
  /** Those that only activations of a graph that backward has gone through may need again. */
  readonly transient = new Set<StoredValue>();
  transientBytes = 0;
}

const values = new WeakMap<Memory, MemoryValues>();

function valuesIn(memory: Memory): MemoryValues {
  let known = values.get(memory);
  if (!known) values.set(memory, known = new MemoryValues());
  return known;
}

const registry = finalizer<Claim>("the memory of a forgotten tensor", ({ value }) => {
  if (value === null || value.storage === null) return;
  const { storage } = value;
  leave(value, storage);
  value.storage = null;
  if (value.isSaved) storage.release();
  else storage.reclaim();
});

/** So many nodes wait to be registered at most. */
const MAX_WAITING = 1024;

let nodes: object[] = [], waiting: StoredValue[] = [];
let isTurnWatched = false;

/** Gives a node its value in memory; takes over the reference on `storage`. */
export function own(
  node: object,
  known: StoredValue | null,
  storage: Storage,
  isSaved: boolean,
): StoredValue {
  const value = known ?? new StoredValue();
  value.storage = storage;
  value.spilled = null;
  value.patience = UNREAD_SWEEPS;
  value.isSaved = isSaved;
  if (value.claim !== null) list(value, value.claim, storage);
  else if (!value.isWatched) watch(node, value);
  return value;
}

function list(value: StoredValue, claim: Claim, { memory }: Storage): void {
  claim.value = value;
  value.isListed = true;
  valuesIn(memory).all.add(value);
}

function watch(node: object, value: StoredValue): void {
  value.isWatched = true;
  waiting.push(value);
  if (nodes.push(node) === MAX_WAITING) return registerWaiting();
  if (isTurnWatched) return;
  isTurnWatched = true;
  queueMicrotask(() => {
    isTurnWatched = false;
    registerWaiting();
  });
}

/** Registers the nodes that wait, as far as they are in memory. */
function registerWaiting(): void {
  nodes.forEach((node, k) => {
    const value = waiting[k]!, { storage } = value;
    value.isWatched = storage !== null;
    if (storage === null) return;
    value.claim = new Claim(value);
    registry.register(node, value.claim);
    list(value, value.claim, storage);
  });
  nodes = [];
  waiting = [];
}

/** Gives the value back. */
export function disown(value: StoredValue): void {
  const { storage } = value;
  value.spilled = null;
  if (storage === null) return;
  leave(value, storage);
  value.storage = null;
  storage.release();
}

/** Gives the value back and takes another one in its place, unless others hold the block, too. */
export function exchange(
  value: StoredValue,
  storage: Storage,
  ended: (former: Storage) => void,
): boolean {
  const { storage: former } = value;
  if (former === null || former.references > 1 || former.memory !== storage.memory) return false;
  unretire(value);
  value.storage = storage;
  ended(former);
  return true;
}

/** Takes a value out of all sets. */
function leave(value: StoredValue, { memory }: Storage): void {
  unretire(value);
  if (!value.isListed) return;
  value.isListed = false;
  valuesIn(memory).all.delete(value);
}

/** Nobody has the value any more, but what was computed from it may be computed again. */
export function retire(value: StoredValue, isLasting: boolean): void {
  const retired = isLasting ? "lasting" : "transient";
  if (value.retired === retired) return;
  unretire(value);
  value.retired = retired;
  if (isLasting) return;
  const { memory, nbytes } = value.storage!;
  const all = valuesIn(memory);
  all.transient.add(value);
  all.transientBytes += nbytes;
}

/** Somebody has the value again, or it is gone. */
export function unretire(value: StoredValue): void {
  const { retired } = value;
  value.retired = null;
  if (retired !== "transient") return;
  const { memory, nbytes } = value.storage!;
  const all = valuesIn(memory);
  all.transient.delete(value);
  all.transientBytes -= nbytes;
}

/**
 * Lets go of what only activations of former steps need, since a tensor was assigned its next value;
 * the oldest first, until there are no more than `most` bytes.
 */
export function releaseTransient(memory: Memory, most = 0): void {
  const all = values.get(memory);
  if (!all) return;
  for (const value of all.transient) {
    if (most > 0 && all.transientBytes <= most) break;
    disown(value);
  }
}

/** The bytes of values that only activations of former steps may need. */
export const transientBytes = (memory: Memory): number => values.get(memory)?.transientBytes ?? 0;

/** Move of values to the host. */
export interface Spill {
  /** Only those that no kernel has read since this was asked last. */
  readonly onlyIdle: boolean;
  /** Stops when so many bytes are free. */
  readonly nbytes: number;
  /** False for a value that must stay where it is. */
  readonly mayGo: (storage: Storage) => boolean;
  /** Copies the bytes. */
  readonly read: (storage: Storage, into: Uint8Array) => void;
}

/** Moves values of one memory to the host, the oldest first; gives back how many bytes. */
export function spill(memory: Memory, { onlyIdle, nbytes, mayGo, read }: Spill): number {
  registerWaiting();
  const all = valuesIn(memory);
  let freed = 0;
  for (const value of all.all) {
    if (freed >= nbytes) break;
    if (onlyIdle && !isIdle(value)) continue;
    const storage = value.storage!;
    // A block that others hold, too, is not free when this value goes.
    if (value.isSaved || storage.references > 1 || !mayGo(storage)) continue;
    const bytes = new Uint8Array(storage.nbytes);
    read(storage, bytes);
    freed += storage.nbytes;
    disown(value);
    value.spilled = bytes;
    // From here on the bytes are within reach of the node alone, and go when it goes.
    value.claim!.value = null;
  }
  return freed;
}

/** True for what no kernel has read since this was asked before. */
const isIdle = (value: StoredValue): boolean => !value.stays && --value.patience < 0;
