/**
 * Values that move to the host, where the collector finds those that nobody can reach in the midst of a
 * loop: what no kernel has read for a while, when memory grows, and all that none reads at the moment, where
 * it is short. A value comes back when a kernel reads it.
 */
import { host } from "../../ffi/runtime/host.ts";
import { runCollector } from "../../memory/mod.ts";
import type { Backend, Block } from "./backend.ts";
import type { Node } from "../graph/node.ts";
import type { Storage } from "../graph/stored_value.ts";
import { releaseTransient, spill, transientBytes } from "../graph/stored_value.ts";
import { isRecording } from "./recording.ts";

/** Values that only activations of former steps need may take this share of the memory limit. */
const TRANSIENT_SHARE = 1 / 16;

/** Memory may grow by so much, and by these shares of what is held and of a schedule's peak, between sweeps. */
const MIN_GROWTH_BYTES = 1 << 16, HELD_SHARE = 1 / 16, PEAK_SHARE = 1 / 8;

/** So much of the limit is freed at a time: each time costs a wait for the device. */
const SPILL_SHARE = 1 / 16;

/** Nodes and blocks in use just now. */
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

/** Bytes of the program outside of the JavaScript heap before. */
let otherBytes = 0;

/** Bytes that values moved to the host take there, at most: the collector takes them one by one. */
function bytesOnHost(): number {
  const external = host.externalBytes();
  if (spilledBytes === 0) otherBytes = external;
  return Math.min(spilledBytes, Math.max(0, external - otherBytes));
}

/** Moves values to the host, as long as those there are not too many. */
function moveToHost(backend: Backend, nbytes: number, onlyIdle: boolean): void {
  const { memory } = backend;
  const most = Math.max(memory.pool.limitBytes, MIN_HOST_BYTES);
  // Asked for all there is, it would run the collector at each sweep.
  const wanted = Math.min(nbytes, memory.pool.stats.requestedBytes);
  spilledBytes = bytesOnHost();
  if (spilledBytes + wanted > most && spilledBytes > 0) {
    runCollector();
    spilledBytes = bytesOnHost();
  }
  const room = most - spilledBytes;
  spilledBytes += spill(memory, {
    onlyIdle,
    nbytes: Math.min(wanted, room),
    mayGo: mayGoNow(),
    read: ({ handle }, into) => backend.readSync(handle, into),
  });
}

/** Growth of a backend's memory since idle values were looked for. */
interface Growth {
  /** The least bytes that were held since the last sweep. */
  least: number;
  /** The largest share of a schedule's peak, and what came back from the host: that was not idle. */
  room: number;
}

const growths = new WeakMap<Backend, Growth>();

function growthOf(backend: Backend): Growth {
  let growth = growths.get(backend);
  if (!growth) growths.set(backend, growth = { least: 0, room: 0 });
  return growth;
}

/** Notes that a value has come back from the host. */
export function noteReturn(backend: Backend, nbytes: number): void {
  growthOf(backend).room += nbytes;
}

/**
 * Lets values of former steps' activations go where they are many; and when memory has grown, moves to the
 * host what no kernel has read since the last time: of values that a program lets fall without `dispose()`
 * nobody knows that it has them no more, before the collector has run.
 *
 * @param peakBytes What the schedule that has run held at most.
 * @param swept Called when it has looked for idle values: lets go of others.
 */
export function relieve(backend: Backend, peakBytes: number, swept?: () => void): void {
  const { memory } = backend;
  const most = memory.pool.limitBytes * TRANSIENT_SHARE;
  if (transientBytes(memory) > most) releaseTransient(memory, most);
  const growth = growthOf(backend), { stats } = memory.pool;
  growth.room = Math.max(growth.room, peakBytes * PEAK_SHARE);
  const held = stats.requestedBytes;
  if (held < growth.least) growth.least = held;
  const room = Math.max(MIN_GROWTH_BYTES, held * HELD_SHARE, growth.room);
  // What is recorded must stay in its place.
  if (held <= growth.least + room || isRecording()) return;
  moveToHost(backend, Infinity, true);
  swept?.();
  growth.least = stats.requestedBytes;
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
  const most = Number.isFinite(limitBytes) ? limitBytes * TRANSIENT_SHARE : MIN_HOST_BYTES;
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
