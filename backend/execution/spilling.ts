/**
 * Values that move to the host: former ones that are kept for what may be computed again, where they
 * become many, and all that nobody reads at the moment, where memory is short. A value comes back when a
 * kernel reads it.
 */
import { runCollector } from "../../memory/mod.ts";
import type { Backend, Block } from "./backend.ts";
import type { Node } from "../graph/node.ts";
import type { Storage } from "../graph/stored_value.ts";
import { releaseTransient, retiredBytes, spill } from "../graph/stored_value.ts";

/** Former values may take this share of the memory limit on the device. */
const LASTING_SHARE = 1 / 16;

/** So much of the limit is freed at a time: each time costs a wait for the device. */
const SPILL_SHARE = 1 / 16;

/** What schedules and replays use just now. */
const busy: { readonly order: readonly Node[]; readonly blocks: readonly Block[] }[] = [];

/** Runs `fn` while the values of the nodes, and the blocks, stay where they are. */
export function busyWith<T>(
  order: readonly Node[],
  fn: () => T,
  blocks: readonly Block[] = [],
): T {
  busy.push({ order, blocks });
  try {
    return fn();
  } finally {
    busy.pop();
  }
}

function mayGoNow(): (storage: Storage) => boolean {
  const used = new Set<Block>();
  for (const { order, blocks } of busy) {
    for (const { storage } of order) if (storage) used.add(storage.handle);
    for (const block of blocks) used.add(block);
  }
  // A block without a pool is the caller's own.
  return ({ handle, nbytes }) => nbytes > 0 && handle.pool !== null && !used.has(handle);
}

/** On the host there may be as much as on the device, and this much in any case. */
const MIN_HOST_BYTES = 256 << 20;

/** Bytes that were moved to the host, those of values that are gone among them. */
let spilledBytes = 0;

/** What the program had outside of the JavaScript heap before. */
let otherBytes = 0;

/** Bytes that values moved to the host take there, at most: the collector takes them one by one. */
function bytesOnHost(): number {
  const { external } = Deno.memoryUsage();
  if (spilledBytes === 0) otherBytes = external;
  return Math.min(spilledBytes, Math.max(0, external - otherBytes));
}

/** Moves values to the host, as long as those there are not too many. */
function moveToHost(backend: Backend, nbytes: number, onlyLasting: boolean): void {
  const { memory } = backend;
  const most = Math.max(memory.pool.limitBytes, MIN_HOST_BYTES);
  spilledBytes = bytesOnHost();
  if (spilledBytes + nbytes > most && spilledBytes > 0) {
    runCollector();
    spilledBytes = bytesOnHost();
  }
  const room = most - spilledBytes;
  spilledBytes += spill(memory, {
    onlyLasting,
    nbytes: Math.min(nbytes, room),
    mayGo: mayGoNow(),
    read: ({ handle }, into) => backend.readSync(handle, into),
  });
}

/** Moves former values to the host where they are many, and lets those of activations go. */
export function relieve(backend: Backend): void {
  const { lasting, transient } = retiredBytes(backend.memory);
  if (lasting + transient === 0) return;
  const most = backend.memory.pool.limitBytes * LASTING_SHARE;
  if (transient > most) releaseTransient(backend.memory, most);
  if (lasting > most) moveToHost(backend, lasting - most / 2, true);
}

/** Bytes that the library let go of since the collector ran last, while the program may have them yet. */
const unclaimed = new WeakMap<Backend, number>();

/**
 * Notes that the library lets go of a value, such as a gradient, which the program has got a tensor of.
 * Where it has not kept it, only the collector finds out: it runs when they are many, for V8 does not
 * know how large they are.
 */
export function leaveToCollector(backend: Backend, nbytes: number): void {
  const { limitBytes } = backend.memory.pool;
  const most = Number.isFinite(limitBytes) ? limitBytes * LASTING_SHARE : MIN_HOST_BYTES;
  const total = (unclaimed.get(backend) ?? 0) + nbytes;
  if (total > most) runCollector();
  unclaimed.set(backend, total > most ? 0 : total);
}

/** Has values go to the host where memory is short: some first, then all. */
export function spillWhereShort(backend: Backend): void {
  const { memory } = backend;
  memory.addReclaimer({ name: "values of former steps", reclaim: () => releaseTransient(memory) });
  // What the collector could find are many small values: one that takes most of the limit by itself is
  // more than the program may have beside what it holds.
  const isHelped = (nbytes: number): boolean => nbytes * 2 <= memory.pool.limitBytes;
  memory.addReclaimer({
    name: "values moved to the host",
    reclaim: (nbytes) => {
      const least = memory.pool.limitBytes * SPILL_SHARE;
      if (isHelped(nbytes)) moveToHost(backend, Math.max(nbytes, least), false);
    },
  });
  memory.addReclaimer({
    name: "all values moved to the host",
    reclaim: (nbytes) => {
      if (isHelped(nbytes)) moveToHost(backend, Infinity, false);
    },
  });
}
