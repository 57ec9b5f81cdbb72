/** Laws of the pools that hold whatever goes wrong around them. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  BufferPool,
  DeviceMemory,
  FaultPool,
  GuardPool,
  HostPool,
  LimitPool,
  memory,
  OutOfMemoryError,
  PersistentBufferPool,
  type Pool,
  Recorder,
  recordQueue,
  replay,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { OpenCLError } from "../../../ffi/mod.ts";
import { type ClockedQueue, World } from "../fences/clocked_queue.ts";

type MakePool = (source: SimulatedSource) => Pool<{ readonly address: number }>;

const pools: { [name: string]: MakePool } = {
  SlabPool: (source) => new SlabPool(source, { segmentBytes: 1024 }),
  BufferPool: (source) => new BufferPool(source),
  PersistentBufferPool: (source) => new PersistentBufferPool(source),
};

function withDefaultQueue(home: ClockedQueue): SimulatedSource {
  return Object.assign(new SimulatedSource(), { defaultQueue: home });
}

for (const [name, make] of Object.entries(pools)) {
  Deno.test(`${name}: a command that failed costs that command, not the pool`, () => {
    const world = new World(2), [home, other] = world.queues as [ClockedQueue, ClockedQueue];
    const pool = make(withDefaultQueue(home));
    world.nextFails = () => true;
    for (let i = 0; i < 3; i++) {
      const recorded = pool.allocate(512), lent = pool.allocate(512, { queue: other });
      recordQueue(recorded, other);
      recorded.release();
      lent.release();
      other.runTo(other.position);
    }
    pool.limitBytes = pool.stats.reservedBytes;
    pool.allocate(512).release();
    pool.allocate(512, { queue: other }).release();
    pool.destroy();
    assertEquals(pool.stats.reservedBytes, 0);
    assert(world.events.every(({ released }) => released));
  });

  Deno.test(`${name}: what an allocation asks of the driver does not grow with what waits`, () => {
    const asked = [40, 400].map((count) => {
      const world = new World(3), [home, b, c] = world.queues as ClockedQueue[];
      const pool = make(withDefaultQueue(home!));
      const handles = Array.from({ length: count }, (_, i) => {
        const handle = pool.allocate(256, { queue: i % 2 ? b! : home! });
        if (i % 3) recordQueue(handle, c!);
        return handle;
      });
      for (const handle of handles) handle.release();
      world.questions = 0;
      for (let i = 0; i < 5; i++) pool.allocate(256, { queue: i % 2 ? c! : home! });
      return world.questions;
    });
    assertEquals(asked[0], asked[1]);
    assert(asked[1]! <= 5 * 8, `${asked[1]} questions in 5 allocations`);
  });

  Deno.test(`${name}: the pool outlives its default queue, whose blocks nobody gets then`, () => {
    const world = new World(2), [home, other] = world.queues as [ClockedQueue, ClockedQueue];
    const pool = make(withDefaultQueue(home));
    const block = pool.allocate(1000), parked = pool.allocate(1000);
    const addresses = [block, parked].map(({ buffer }) => buffer.address);
    recordQueue(parked, other);
    home.work();
    block.release();
    parked.release();
    home.released = true;
    pool.limitBytes = 4 * pool.stats.reservedBytes;
    for (let i = 0; i < 3; i++) {
      const next = pool.allocate(1000, { queue: other });
      assert(!addresses.includes(next.buffer.address), "home may still use it");
      next.release();
    }
    pool.allocate(1000).release();
    pool.destroy();
    assertEquals(pool.stats.reservedBytes, 0);
  });

  Deno.test(`${name}: a pool ends although a recorded queue was released before`, () => {
    const world = new World(2), [home, other] = world.queues as [ClockedQueue, ClockedQueue];
    const pool = make(withDefaultQueue(home));
    const handle = pool.allocate(1000);
    recordQueue(handle, other);
    other.work();
    handle.release();
    other.released = true;
    pool.destroy();
    pool.destroy();
    assertEquals(pool.stats.reservedBytes, 0);
    assert(other.done > 0, "its work was waited for");
  });

  Deno.test(`${name}: a marker that cannot be made just now is made later`, () => {
    const world = new World(2), [home, other] = world.queues as [ClockedQueue, ClockedQueue];
    const pool = make(withDefaultQueue(home));
    const handle = pool.allocate(1000, { queue: other }), { address } = handle.buffer;
    const marker = other.marker.bind(other);
    other.marker = () => {
      throw new OpenCLError(-5, "clEnqueueMarkerWithWaitList");
    };
    const position = other.work();
    handle.release();
    assertEquals(pool.stats.bytesAllocated, 0);
    assert(pool.allocate(1000).buffer.address !== address, "it is in use");
    other.marker = marker;
    pool.limitBytes = pool.stats.reservedBytes;
    pool.allocate(1000);
    assert((home.clock.get(other) ?? 0) >= position || other.done >= position);
    pool.destroy();
  });

  Deno.test(`${name}: memory that cannot be given back does not keep the rest`, () => {
    const source = new SimulatedSource(), pool = make(source);
    const sizes = [600, 5000, 70_000];
    for (const handle of sizes.map((size) => pool.allocate(size))) handle.release();
    const destroy = source.destroy.bind(source);
    let calls = 0;
    source.destroy = (buffer) => {
      if (++calls === 1) throw new OpenCLError(-5, "clReleaseMemObject");
      destroy(buffer);
    };
    assertThrows(() => pool.destroy(), OpenCLError, "clReleaseMemObject");
    pool.destroy();
    assertEquals([pool.stats.reservedBytes, pool.stats.bytesCached], [0, 0]);
  });
}

Deno.test("an allocation that was rescued is one retry and no OOM, whoever counts", () => {
  const source = new SimulatedSource({ totalBytes: 4096 });
  const pool = new SlabPool(source, { segmentBytes: 1024, maxBytes: 4096 });
  const card = new DeviceMemory(pool, { name: "card" });
  const held = [1, 2, 3, 4].map(() => card.allocate(1024));
  using scope = card.scope();
  using recorder = new Recorder();
  recorder.attach("card", pool);
  using _rescue = memory.onPressure(() => {
    held.pop()?.release();
    held.pop()?.release();
    return true;
  });
  card.allocate(2000);
  const { numOoms, numRetries, rungs } = card.stats;
  assertEquals([numOoms, numRetries], [0, 1]);
  assertEquals([pool.stats.numOoms, pool.stats.numRetries, scope.numOoms], [0, 1, 0]);
  assertEquals(pool.stats.rungs, rungs);
  assertEquals(recorder.events().filter(({ action }) => action === "oom"), []);
});

const wrappers: { [name: string]: MakePool } = {
  "a plain pool": (source) => new SlabPool(source, { segmentBytes: 1024 }),
  LimitPool: (source) => new LimitPool(new SlabPool(source, { segmentBytes: 1024 }), 2048),
  FaultPool: (source) => {
    const pool = new FaultPool(new SlabPool(source, { segmentBytes: 1024 }));
    for (let nth = 1; nth < 6; nth++) pool.failAllocation(nth);
    return pool;
  },
  GuardPool: (source) =>
    new GuardPool(new SlabPool(source, { segmentBytes: 1024 }), {
      fill: () => {},
      read: (_buffer, _offset, nbytes) => new Uint8Array(nbytes).fill(nbytes === 64 ? 0xa5 : 0xff),
    }),
};

for (const [name, make] of Object.entries(wrappers)) {
  for (const through of ["the pool", "the device's memory"]) {
    Deno.test(`an allocation that fails is one OOM, from ${through}, for ${name}`, () => {
      const pool = make(new SimulatedSource({ totalBytes: 2048 }));
      const card = new DeviceMemory(pool, { name: "card" });
      using scope = card.scope();
      using _pressure = memory.onPressure(() => true);
      const lend = through === "the pool" ? pool : card;
      assertThrows(() => lend.allocate(4096), OutOfMemoryError);
      assertEquals([card.stats.numOoms, pool.stats.numOoms, scope.numOoms], [1, 1, 1]);
      assertEquals([card.stats.numRetries, card.stats.numAllocs], [0, 0]);
    });
  }
}

Deno.test("an allocation that the collector rescued is one retry and no OOM", async () => {
  const pool = new FaultPool(new HostPool());
  const card = new DeviceMemory(pool, { name: "card" });
  using scope = card.scope();
  pool.failAllocation(1);
  (await card.allocateAsync(64)).release();
  assertEquals([card.stats.numOoms, scope.numOoms, card.stats.numRetries], [0, 0, 1]);
  assertEquals(card.stats.rungs, { "garbage collection": 1 });
});

Deno.test("a recording that began with an allocation of no bytes can be replayed", () => {
  const pool = new HostPool(), empty = pool.allocate(0), block = pool.allocate(100);
  using recorder = new Recorder();
  recorder.attach("host", pool);
  empty.release();
  block.release();
  assertEquals(replay(recorder.events(), new HostPool()).events, 4);
});

Deno.test("a destroyed pool can be destroyed again, and releases of its handles count only", () => {
  const pool = new SlabPool(new SimulatedSource());
  const handle = pool.allocate(100);
  pool.destroy();
  handle.release();
  pool.destroy();
  assertEquals([handle.state, pool.stats.doubleReleases], ["destroyed", 1]);
});
