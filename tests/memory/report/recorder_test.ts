import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  DeviceMemory,
  type FenceQueue,
  HostPool,
  memory,
  type MemoryEvent,
  originOf,
  parseJSONLines,
  Recorder,
  recordQueue,
  registerDeviceMemory,
  replay,
  setActiveDevice,
  SimulatedSource,
  SlabPool,
  unregisterDeviceMemory,
} from "../../../memory/mod.ts";
import { toMemoryViz } from "../../../memory/report/memory_viz.ts";
import { churn } from "../churn.ts";

function pool() {
  return new SlabPool(new SimulatedSource(), { segmentBytes: 2 ** 20 });
}

/** A recorder of a pool, of a card. */
function recording(
  of: ReturnType<typeof pool>,
  options: ConstructorParameters<typeof Recorder>[0] = {},
): Recorder {
  const recorder = new Recorder(options);
  recorder.attach("card", of);
  return recorder;
}

const actions = (recorder: Recorder) => recorder.events().map(({ action }) => action);

Deno.test("Recorder notes allocations, releases, segments and failures with their sizes", () => {
  const memory = pool();
  using recorder = recording(memory);
  const handle = memory.allocate(1000, { label: "weights" });
  handle.release();
  memory.trim();
  memory.limitBytes = 0;
  assertThrows(() => memory.allocate(64));
  const events = recorder.events();
  assertEquals(
    events.map(({ action, nbytes, device }) => [action, nbytes, device]),
    [
      ["segment_alloc", 2 ** 20, "card"],
      ["alloc", 1000, "card"],
      ["free", 1000, "card"],
      ["segment_free", 2 ** 20, "card"],
      ["oom", 64, "card"],
    ],
  );
  const { id, bucketSize, segment, offset, label } = events[1]!;
  assertEquals([id, bucketSize, segment, offset, label], [1, 1024, 0, 0, "weights"]);
  assert(events.every(({ time }, i) => i === 0 || time >= events[i - 1]!.time));
});

Deno.test("Recorder names the user's line when it takes stacks", () => {
  const memory = pool();
  using recorder = recording(memory, { stacks: true });
  function makeWeights() {
    return memory.allocate(1000, { label: "weights" });
  }
  makeWeights();
  const event = recorder.events().find(({ action }) => action === "alloc")!;
  assertEquals(event.frames![0]!.name, "makeWeights");
  assertMatch(event.frames![0]!.filename, /recorder_test\.[jt]s$/);
  assertMatch(originOf(event), /^weights at recorder_test\.[jt]s:\d+$/);
});

Deno.test("Recorder notes what was live before it began", () => {
  const memory = pool();
  const early = memory.allocate(1000);
  using recorder = recording(memory);
  early.release();
  assertEquals(actions(recorder), ["segment_alloc", "alloc", "free"]);
});

Deno.test("Recorder stops when it is disposed of and keeps what it has", () => {
  const memory = pool();
  const recorder = recording(memory);
  memory.allocate(64);
  recorder[Symbol.dispose]();
  memory.allocate(64);
  assertEquals(actions(recorder), ["segment_alloc", "alloc"]);
});

Deno.test("Recorder sums up what falls out of its ring, so that it always adds up", () => {
  const memory = pool();
  using recorder = recording(memory, { capacity: 50 });
  const size = (random: number): number => 1 + Math.floor(random * 10_000);
  const live = churn((nbytes) => memory.allocate(nbytes), {
    ...{ seed: 4, steps: 2000, live: 10, share: 0.5, size },
  });
  const bytesOf = (action: MemoryEvent["action"]): number =>
    recorder.events().reduce((sum, event) => sum + (event.action === action ? event.nbytes : 0), 0);
  assertEquals(bytesOf("alloc") - bytesOf("free"), memory.stats.requestedBytes);
  assertEquals(bytesOf("segment_alloc") - bytesOf("segment_free"), memory.stats.reservedBytes);
  assert(recorder.events().length <= 50 + live.length + memory.segments().length);
  assertThrows(() => new Recorder({ capacity: 0 }), RangeError, "capacity 0");
});

Deno.test("Recorder tells two devices of one name apart, and leaves other names alone", () => {
  const [a, b] = [pool(), pool()];
  using recorder = recording(a);
  recorder.attach("card", b);
  b.allocate(64);
  assertEquals(recorder.nameOf(b), "card #2");
  assertEquals(recorder.events().at(-1)!.device, "card #2");
  const other = pool();
  recorder.attach("car", other);
  assertEquals(recorder.nameOf(other), "car");
});

Deno.test("Recorder: A recording replays: the same requests, the same peaks", () => {
  const recorded = pool();
  using recorder = recording(recorded);
  const size = (random: number): number => 1 + Math.floor(2 ** (18 * random));
  churn((nbytes) => recorded.allocate(nbytes), {
    ...{ seed: 9, steps: 3000, live: 30, share: 0.55, size },
  });
  const { peakRequestedBytes, peakReservedBytes, nativeAllocs } = recorded.stats;
  const result = replay(parseJSONLines(recorder.toJSONLines()), pool());
  assertEquals(result.peakRequestedBytes, peakRequestedBytes);
  assertEquals(result.peakReservedBytes, peakReservedBytes);
  assertEquals(result.nativeAllocs, nativeAllocs);
  assertEquals(result.overhead, peakReservedBytes / peakRequestedBytes);
});

Deno.test("Recorder: replay refuses what is no recording", () => {
  assertThrows(() => parseJSONLines('{"action":"alloc"}'), SyntaxError, "Line 1");
  assertThrows(
    () => replay([{ action: "free", id: 3, nbytes: 64 }], pool()),
    RangeError,
    "allocation 3 is released but not live",
  );
});

Deno.test("Recorder: The export for PyTorch's viewer obeys what the viewer relies on", () => {
  const memory = pool();
  using recorder = recording(memory, { stacks: true });
  const handles = [5000, 300_000, 800_000, 70_000].map((size, i) =>
    memory.allocate(size, { label: `block ${i}` })
  );
  handles[1]!.release();
  memory.allocate(2 ** 21).release();
  memory.trim();
  const { device_traces: [trace], segments } = JSON.parse(recorder.toMemoryViz()) as ReturnType<
    typeof toMemoryViz
  >;
  // It adds block sizes up to get addresses, and looks each event's address up in the segments.
  for (const { address, total_size, blocks, requested_size } of segments) {
    let end = address;
    for (const block of blocks) {
      assertEquals(block.address, end);
      end += block.size;
    }
    assertEquals(end, address + total_size);
    const live = blocks.filter(({ state }) => state === "active_allocated");
    assertEquals(requested_size, live.reduce((sum, block) => sum + block.requested_size, 0));
  }
  assertEquals(segments.reduce((sum, s) => sum + s.total_size, 0), memory.stats.reservedBytes);
  assertEquals(segments.reduce((sum, s) => sum + s.requested_size, 0), memory.stats.requestedBytes);
  const known = new Map<number, number>();
  for (const { action, addr, size, stream, time_us, frames } of trace!) {
    assert(Number.isSafeInteger(addr) && Number.isSafeInteger(time_us) && stream === 0);
    assert(frames.every(({ name, filename, line }) => name && filename && line >= 0));
    if (action === "segment_alloc") known.set(addr, size);
    if (action === "segment_free") assert(known.delete(addr), "it was there");
    if (action === "alloc" || action === "free_completed") {
      const home = [...known].find(([start, bytes]) =>
        addr >= start && addr + size <= start + bytes
      );
      assert(home !== undefined, "a block lies in a segment");
    }
  }
  const alloc = trace!.find(({ action }) => action === "alloc")!;
  assertEquals(alloc.frames[0]!.name, "block 0");
});

Deno.test("Recorder: An allocation of no bytes and a failure do not confuse the export", () => {
  const event = (action: MemoryEvent["action"], nbytes: number) =>
    ({ time: 0, action, device: "card", nbytes, id: 1, segment: -1, offset: 0 }) as const;
  const { device_traces, segments } = toMemoryViz([event("alloc", 0), event("oom", 64)]);
  assertEquals(device_traces[0]!.map(({ action }) => action), ["oom"]);
  assertEquals(segments, []);
});

Deno.test("Recorder: memory.record records all devices, also one that is opened later", () => {
  const early = {}, late = {};
  const earlyMemory = new DeviceMemory(new HostPool(), { name: "early" });
  const lateMemory = new DeviceMemory(new HostPool(), { name: "late" });
  registerDeviceMemory(early, earlyMemory);
  using recorder = memory.record();
  registerDeviceMemory(late, lateMemory);
  registerDeviceMemory({ alias: true }, lateMemory);
  earlyMemory.allocate(64).release();
  lateMemory.allocate(64).release();
  const count = (device: string) =>
    recorder.events().filter((event) => event.device === device && event.action === "alloc").length;
  assertEquals([count("early"), count("late")], [1, 1]);
  unregisterDeviceMemory(early);
  unregisterDeviceMemory(late);
});

Deno.test("Recorder: memory means the active device where none is named", () => {
  const device = {};
  const card = new DeviceMemory(new HostPool(), { name: "card" });
  registerDeviceMemory(device, card);
  setActiveDevice(() => device);
  card.allocate(100);
  assertEquals(memory.stats().requestedBytes, 100);
  memory.setLimit(12345);
  assertEquals(memory.stats(device).limitBytes, 12345);
  memory.setLimit(null);
  memory.resetPeakStats();
  memory.resetAccumulatedStats();
  assertEquals(memory.stats().numAllocs, 0);
  memory.emptyCache();
  unregisterDeviceMemory(device);
  assertThrows(() => memory.stats(), TypeError, "never used, or is shut down");
});

Deno.test("Recorder: memory.snapshot is plain data", () => {
  const device = {};
  const card = new DeviceMemory(pool(), { name: "card" });
  registerDeviceMemory(device, card);
  card.allocate(1000, { label: "weights" });
  const snapshot = JSON.parse(JSON.stringify(memory.snapshot(device)));
  assertEquals(snapshot.device, "card");
  assertEquals(snapshot.stats.requestedBytes, 1000);
  assertEquals(snapshot.segments[0].blocks[0].allocation.label, "weights");
  assertEquals(snapshot.liveAllocations, [{ origin: "weights", count: 1, nbytes: 1000 }]);
  unregisterDeviceMemory(device);
});

Deno.test("Recorder notes the queue of each allocation and release, and who else uses the block", () => {
  const queue = (): FenceQueue => {
    const event = { status: "complete", waitSync: () => {}, release: () => {} } as const;
    const marker = () => event;
    return { released: false, outOfOrder: false, marker, barrier: marker, flush: () => {} };
  };
  const compute = queue(), transfer = queue();
  const memory = pool();
  using recorder = recording(memory);
  const a = memory.allocate(1000, { queue: compute });
  const b = memory.allocate(1000, { queue: transfer });
  recordQueue(b, compute);
  a.release();
  b.release();
  memory.allocate(1000).release();
  const events = recorder.events().filter(({ action }) => action === "alloc" || action === "free");
  const [one, other] = events.map(({ queue }) => queue);
  assert(one !== undefined && other !== undefined && one !== other);
  assertEquals(
    events.map(({ action, queue, users }) => [action, queue, users]),
    [
      ["alloc", one, undefined],
      ["alloc", other, undefined],
      ["free", one, undefined],
      ["free", other, [one]],
      ["alloc", undefined, undefined],
      ["free", undefined, undefined],
    ],
  );
  assert(recorder.toJSONLines().includes(`"queue":${other},"users":[${one}]`));
});
