import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  type BufferHandle,
  DeviceMemory,
  FaultPool,
  HostPool,
  memory,
  NoMemoryError,
  OutOfMemoryError,
  type SimulatedBuffer,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { FakeQueue } from "../fences/fake_queue.ts";

const MiB = 2 ** 20;

function device(totalBytes: number, options: { segmentBytes?: number } = {}) {
  const source = new SimulatedSource({ totalBytes });
  const pool = new SlabPool(source, { segmentBytes: options.segmentBytes ?? 8 * MiB });
  return { source, pool, memory: new DeviceMemory(pool, { name: "card", totalBytes }) };
}

Deno.test("DeviceMemory lends, counts and takes back", () => {
  const { memory } = device(64 * MiB);
  const handle = memory.allocate(1_000_000, { label: "weights" });
  const { bucketSize } = handle;
  const { requestedBytes, allocated, bytesAllocated } = memory.stats;
  assertEquals([requestedBytes, bytesAllocated], [1_000_000, bucketSize]);
  assertEquals([memory.stats.currentAllocated, allocated.current], [bucketSize, bucketSize]);
  handle.release();
  const { currentAllocated, peakAllocated, numAllocs, numFrees } = memory.stats;
  assertEquals([currentAllocated, peakAllocated, numAllocs, numFrees], [0, bucketSize, 1, 1]);
  assertEquals([memory.stats.allocated.peak, memory.stats.peakRequestedBytes], [
    bucketSize,
    1_000_000,
  ]);
  memory.resetPeakStats();
  assertEquals(memory.stats.peakAllocated, 0);
});

Deno.test("DeviceMemory's statistics no longer change once they are read", () => {
  const { memory } = device(64 * MiB);
  const before = memory.stats;
  memory.allocate(64);
  assertEquals([before.numAllocs, memory.stats.numAllocs], [0, 1]);
});

Deno.test("DeviceMemory leaves a tenth of the device to the driver unless told otherwise", () => {
  const { memory } = device(100 * MiB);
  assertEquals(memory.stats.limitBytes, 90 * MiB);
  memory.setLimit(1234);
  assertEquals(memory.stats.limitBytes, 1234);
  memory.setLimit(null);
  assertEquals(memory.stats.limitBytes, 90 * MiB);
  for (const bad of [-1, 0.5, NaN]) {
    assertThrows(() => memory.setLimit(bad), RangeError, String(bad));
  }
});

Deno.test("DeviceMemory: emptyCache gives everything back that nobody holds and says how much", () => {
  const { memory, source } = device(64 * MiB);
  memory.allocate(3 * MiB).release();
  assertEquals(memory.emptyCache(), 8 * MiB);
  assertEquals([memory.stats.bytesCached, source.usedBytes, memory.emptyCache()], [0, 0, 0]);
});

Deno.test("DeviceMemory: Retry step: cached segments are freed, only as many as needed, largest first", () => {
  const { memory, pool } = device(64 * MiB);
  for (const size of [6, 12, 20]) memory.allocate(size * MiB).release();
  memory.setLimit(40 * MiB);
  const reserved = pool.stats.reservedBytes;
  memory.allocate(22 * MiB);
  assertEquals(memory.stats.rungs, { "cached segments": 1 });
  assertEquals(memory.stats.numRetries, 1);
  assert(pool.stats.reservedBytes < reserved + 22 * MiB);
  assert(pool.stats.bytesCached > 0, "what was not in the way stays");
});

Deno.test("DeviceMemory: The cache is kept when freeing it could not help", () => {
  const { memory } = device(64 * MiB);
  memory.setLimit(24 * MiB);
  memory.allocate(12 * MiB).release();
  const { bytesCached } = memory.stats;
  assertThrows(() => memory.allocate(30 * MiB), OutOfMemoryError);
  assertEquals(memory.stats.bytesCached, bytesCached);
});

Deno.test("DeviceMemory: A smaller segment is taken where a regular one does not fit", () => {
  const { memory, pool } = device(10 * MiB);
  memory.setLimit(10 * MiB);
  memory.allocate(5 * MiB);
  const small = memory.allocate(3 * MiB);
  assertEquals(small.state, "live");
  assert(pool.stats.reservedBytes <= 10 * MiB);
});

Deno.test("DeviceMemory: Retry step: reclaimers give back what they can do without", () => {
  const { memory } = device(64 * MiB);
  memory.setLimit(16 * MiB);
  const values: BufferHandle<SimulatedBuffer>[] = [memory.allocate(12 * MiB)];
  using _reclaimer = memory.addReclaimer({
    name: "values that can be computed again",
    reclaim: () => values.splice(0).forEach((value) => value.release()),
  });
  memory.allocate(13 * MiB);
  assertEquals(memory.stats.rungs["values that can be computed again"], 1);
  assertEquals(memory.stats.numOoms, 0);
});

Deno.test("DeviceMemory: Retry step: the user's callback is asked, with the size, and only once it is needed", () => {
  const { memory: card } = device(64 * MiB);
  card.setLimit(16 * MiB);
  const cache = card.allocate(12 * MiB);
  const asked: unknown[] = [];
  using _pressure = memory.onPressure((info) => {
    asked.push(info);
    cache.release();
    return true;
  });
  card.allocate(MiB).release();
  assertEquals(asked, []);
  card.allocate(13 * MiB);
  assertEquals(asked, [{ requestedBytes: 13 * MiB, deviceName: "card" }]);
  assertEquals(card.stats.rungs["onPressure callback"], 1);
});

Deno.test("DeviceMemory: A callback that is disposed of is not asked", () => {
  const { memory: card } = device(8 * MiB);
  let asked = 0;
  memory.onPressure(() => {
    asked++;
    return false;
  })[Symbol.dispose]();
  assertThrows(() => card.allocate(16 * MiB), OutOfMemoryError);
  assertEquals(asked, 0);
});

Deno.test("DeviceMemory: OutOfMemoryError says what was asked, what there is, who has it, what was tried and what to do", () => {
  const { memory: card } = device(64 * MiB);
  card.setLimit(32 * MiB);
  for (let i = 0; i < 3; i++) card.allocate(5 * MiB, { label: "activation" });
  card.allocate(MiB, { label: "weights" });
  using _pressure = memory.onPressure(() => false);
  const error = assertThrows(() => card.allocate(20 * MiB), OutOfMemoryError);
  assertEquals(error.requestedBytes, 20 * MiB);
  assertEquals(error.limitBytes, 32 * MiB);
  assertEquals(error.reservedBytes, card.stats.reservedBytes);
  assertEquals(error.freeBytes, card.stats.bytesCached);
  assertEquals(error.largestFreeBytes, card.pool.largestFreeBytes);
  assertEquals(error.liveAllocations, [
    { origin: "activation", count: 3, nbytes: 15 * MiB },
    { origin: "weights", count: 1, nbytes: MiB },
  ]);
  assertEquals(error.rungs.map(({ name }) => name), [
    "blocks of other queues",
    "wait for the oldest work",
    "cached segments",
    "onPressure callback",
  ]);
  for (const part of ["20 MiB on card", "limit is 32 MiB", "3 of activation", "dispose()"]) {
    assertStringIncludes(error.message, part);
  }
  assertEquals(card.stats.numOoms, 1);
});

Deno.test("DeviceMemory: A request over what the device makes in one piece says so, and what is no way out", () => {
  const source = new SimulatedSource({ maxAllocationBytes: 8 * MiB });
  const memory = new DeviceMemory(new SlabPool(source), { name: "card", totalBytes: 64 * MiB });
  const error = assertThrows(() => memory.allocate(9 * MiB), OutOfMemoryError);
  assertEquals(error.maxAllocationBytes, 8 * MiB);
  for (const part of ["9 MiB on card", "8 MiB at most", "MAX_MEM_ALLOC_SIZE", "in parts"]) {
    assertStringIncludes(error.message, part);
  }
  assertEquals(error.message.includes("raise the limit"), false);
  memory.allocate(8 * MiB).release();
});

Deno.test("DeviceMemory: A request over the whole limit gets other advice", () => {
  const { memory } = device(8 * MiB);
  const error = assertThrows(() => memory.allocate(9 * MiB), OutOfMemoryError);
  assertStringIncludes(error.message, "split it");
});

Deno.test("DeviceMemory: After an out-of-memory error all that lived is intact and what fits succeeds", () => {
  const { memory, source } = device(32 * MiB);
  const kept = memory.allocate(8 * MiB);
  const place = kept.buffer.address;
  assertThrows(() => memory.allocate(40 * MiB), OutOfMemoryError);
  assertEquals([kept.state, kept.buffer.address], ["live", place]);
  assertEquals(memory.allocate(8 * MiB).state, "live");
  assertEquals(source.usedBytes, memory.stats.reservedBytes);
});

Deno.test("DeviceMemory: A driver that refuses below the limit is answered by the ladder too", () => {
  const { memory, source } = device(64 * MiB);
  memory.allocate(12 * MiB).release();
  // Once for the rounded size, once for the exact one: then the cache goes and it works.
  source.failCreation(1);
  source.failCreation(2);
  memory.allocate(20 * MiB);
  assertEquals(memory.stats.rungs, { "cached segments": 1 });
  source.totalBytes = source.usedBytes;
  const error = assertThrows(() => memory.allocate(20 * MiB), OutOfMemoryError);
  assert(error.cause instanceof NoMemoryError, "the driver's own error is its cause");
});

Deno.test("DeviceMemory: What is no matter of memory passes unchanged", () => {
  const { memory, source } = device(64 * MiB);
  source.failCreation(1, new TypeError("The context was released"));
  assertThrows(() => memory.allocate(64), TypeError, "The context was released");
  assertEquals([memory.stats.numOoms, memory.stats.numAllocs], [0, 0]);
});

Deno.test("DeviceMemory climbs its rungs over any kind of pool", () => {
  const pool = new FaultPool(new SlabPool(new SimulatedSource()));
  const card = new DeviceMemory(pool, { name: "card" });
  pool.failAllocation(1);
  using _pressure = memory.onPressure(() => true);
  assertEquals(card.allocate(64).state, "live");
  assertEquals(card.stats.rungs, { "onPressure callback": 1 });
});

Deno.test("DeviceMemory: Retry step: blocks that other queues still use come behind their work", () => {
  const home = new FakeQueue("home"), other = new FakeQueue("other");
  const source = Object.assign(new SimulatedSource(), { defaultQueue: home });
  const card = new DeviceMemory(new SlabPool(source), { name: "card" });
  card.setLimit(MiB);
  const first = card.allocate(MiB, { queue: other });
  other.work();
  first.release();
  card.allocate(MiB);
  assert(home.waitsFor(other, 1));
  assertEquals(card.stats.rungs, { "blocks of other queues": 1 });
});

Deno.test("DeviceMemory: The error keeps no handle alive", () => {
  const { memory } = device(8 * MiB);
  memory.allocate(64, { label: "small" });
  const error = assertThrows(() => memory.allocate(9 * MiB), OutOfMemoryError);
  const plain = structuredClone(error.details);
  assertEquals(plain.liveAllocations, [{ origin: "small", count: 1, nbytes: 64 }]);
});

Deno.test("DeviceMemory: allocateAsync lets the garbage collector find what was forgotten", async () => {
  const { memory } = device(64 * MiB);
  memory.setLimit(16 * MiB);
  const registry = new FinalizationRegistry<BufferHandle<SimulatedBuffer>>((handle) =>
    memory.reclaim(handle)
  );
  const forget = () => {
    const owner = { handle: memory.allocate(12 * MiB) };
    registry.register(owner, owner.handle);
  };
  forget();
  // An object may be collected in a later turn than the one that made it only.
  await new Promise((resolve) => setTimeout(resolve));
  assertThrows(() => memory.allocate(12 * MiB), OutOfMemoryError);
  const handle = await memory.allocateAsync(12 * MiB);
  assertEquals(handle.state, "live");
  assertEquals(memory.stats.leaksReclaimed, 1);
  assertEquals(memory.stats.rungs["garbage collection"], 1);
});

Deno.test("DeviceMemory: allocateAsync rejects with all its rungs when nothing helped", async () => {
  const { memory } = device(8 * MiB);
  memory.allocate(4 * MiB);
  const error = await assertRejects(() => memory.allocateAsync(9 * MiB), OutOfMemoryError);
  assertEquals(error.rungs.at(-1), { name: "garbage collection", freedBytes: 0 });
  assertEquals(memory.stats.numOoms, 1);
});

Deno.test("DeviceMemory: resetAccumulatedStats starts the counters of the ladder again", () => {
  const { memory } = device(8 * MiB);
  assertThrows(() => memory.allocate(9 * MiB), OutOfMemoryError);
  memory.resetAccumulatedStats();
  const { numOoms, numRetries, rungs } = memory.stats;
  assertEquals([numOoms, numRetries, rungs], [0, 0, {}]);
});

Deno.test("DeviceMemory: destroy ends the device's memory", () => {
  const { memory, source } = device(8 * MiB);
  const handle = memory.allocate(MiB);
  memory.destroy();
  assertEquals([handle.state, source.usedBytes, source.liveBuffers], ["destroyed", 0, 0]);
});

Deno.test("DeviceMemory.setLimit takes what limitBytes said", () => {
  const memory = new DeviceMemory(new HostPool(), { name: "cpu" });
  memory.setLimit(Infinity);
  assertEquals(memory.stats.limitBytes, Infinity);
  assertThrows(() => memory.setLimit(1.5), RangeError, "Infinity for none");
});
