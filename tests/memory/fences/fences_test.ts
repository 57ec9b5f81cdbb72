import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer, CommandQueue, Program } from "../../../ffi/mod.ts";
import {
  BufferPool,
  PersistentBufferPool,
  type Pool,
  recordQueue,
  releasingTogether,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { FakeQueue } from "./fake_queue.ts";
import { queue } from "../pools/pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";

/** A simulated device with a queue of its own, as the OpenCL pools have one. */
class DeviceWithQueue extends SimulatedSource {
  constructor(readonly defaultQueue: FakeQueue) {
    super();
  }
}

type SimulatedPool = Pool<{ readonly address: number }>;

const pools: Record<string, (home: FakeQueue) => SimulatedPool> = {
  BufferPool: (home) => new BufferPool(new DeviceWithQueue(home)),
  PersistentBufferPool: (home) => new PersistentBufferPool(new DeviceWithQueue(home)),
  SlabPool: (home) => new SlabPool(new DeviceWithQueue(home), { segmentBytes: 2 ** 16 }),
};
const SIZE = 2 ** 16;

for (const [name, make] of Object.entries(pools)) {
  const test = (
    criterion: string,
    fn: (pool: SimulatedPool, home: FakeQueue, other: FakeQueue) => void,
  ) =>
    Deno.test(`${name}: ${criterion}`, () => {
      const home = new FakeQueue("home"), other = new FakeQueue("other");
      const pool = make(home);
      fn(pool, home, other);
      pool.destroy();
      for (const { events } of [home, other]) {
        for (const event of events) assert(event.released, "every event is let go");
      }
    });

  test("one queue reuses its blocks at once, without any event", (pool, home) => {
    for (let i = 0; i < 10; i++) pool.allocate(SIZE).release();
    assertEquals([pool.stats.nativeAllocs, home.events.length], [1, 0]);
  });

  test("a second queue reuses its own blocks at once too", (pool, _home, other) => {
    for (let i = 0; i < 10; i++) pool.allocate(SIZE, { queue: other }).release();
    assertEquals([pool.stats.nativeAllocs, other.waits.length], [1, 0]);
  });

  test("another queue gets new memory while there is some", (pool, home, other) => {
    home.work();
    const first = pool.allocate(SIZE);
    const { address } = first.buffer;
    first.release();
    assert(pool.allocate(SIZE, { queue: other }).buffer.address !== address);
    assertEquals([pool.stats.fences, other.waits.length], [0, 0]);
  });

  test("when memory is short another queue gets the block behind a fence", (pool, home, other) => {
    pool.limitBytes = SIZE;
    const first = pool.allocate(SIZE);
    home.work();
    first.release();
    pool.allocate(SIZE, { queue: other });
    assert(other.waitsFor(home, 1), "other waits for what home was given");
    assert(home.events.every((event) => !event.waitedFor), "the host does not");
    assertEquals([pool.stats.fences, pool.stats.numRetries], [1, 1]);
    assertEquals(pool.stats.rungs, { "blocks of other queues": 1 });
  });

  test("the default queue waits for work before the release only", (pool, home, other) => {
    pool.limitBytes = SIZE;
    const first = pool.allocate(SIZE, { queue: other });
    other.work();
    first.release();
    for (let i = 0; i < 5; i++) other.work();
    pool.allocate(SIZE);
    assertEquals(home.waits.map(({ queue, position }) => [queue, position]), [[other, 2]]);
  });

  test("a block whose queue is done moves to another one without a fence", (pool, home, other) => {
    const first = pool.allocate(SIZE, { queue: other });
    other.work();
    first.release();
    other.complete();
    pool.allocate(SIZE);
    assertEquals([pool.stats.nativeAllocs, pool.stats.fences, home.waits.length], [1, 0, 0]);
  });

  test("a block passed on from queue to queue stays behind all of them", (pool, home, other) => {
    const third = new FakeQueue("third");
    pool.limitBytes = SIZE;
    const first = pool.allocate(SIZE);
    home.work();
    first.release();
    const second = pool.allocate(SIZE, { queue: other });
    other.work();
    const { enqueued } = other;
    second.release();
    pool.allocate(SIZE, { queue: third });
    assert(other.waitsFor(home, 1) && third.waitsFor(other, enqueued));
  });

  test("a recorded queue holds the block back until its work is done", (pool, home, other) => {
    const first = pool.allocate(SIZE);
    recordQueue(first, other);
    recordQueue(first, other);
    other.work();
    first.release();
    const second = pool.allocate(SIZE);
    assertEquals(pool.stats.nativeAllocs, 2);
    second.release();
    other.complete();
    pool.allocate(SIZE);
    pool.allocate(SIZE);
    assertEquals([pool.stats.nativeAllocs, home.waits.length], [2, 0]);
  });

  test("a recorded queue's block is lent behind it when memory is short", (pool, home, other) => {
    pool.limitBytes = SIZE;
    const first = pool.allocate(SIZE);
    recordQueue(first, other);
    other.work();
    first.release();
    pool.allocate(SIZE);
    assert(home.waitsFor(other, 1));
    assert(other.events.every((event) => !event.waitedFor));
  });

  test("blocks released together have one marker until the last goes", (pool, home, other) => {
    const blocks = Array.from({ length: 5 }, () => pool.allocate(SIZE));
    for (const block of blocks) recordQueue(block, other);
    other.work();
    releasingTogether(() => blocks.forEach((block) => block.release()));
    assertEquals(other.events.length, 1);
    const { nativeAllocs } = pool.stats;
    pool.allocate(SIZE);
    assertEquals(pool.stats.nativeAllocs, nativeAllocs + 1, "none is lent before that is done");
    assert(!other.events[0]!.released);
    other.complete();
    for (const _ of blocks) pool.allocate(SIZE);
    assertEquals([pool.stats.nativeAllocs, home.waits.length], [nativeAllocs + 1, 0]);
    assert(other.events[0]!.released);
  });

  test("clear waits for what recorded queues still use", (pool, _home, other) => {
    const first = pool.allocate(SIZE);
    recordQueue(first, other);
    other.work();
    first.release();
    pool.clear();
    assert(other.events.some((event) => event.waitedFor));
    assertEquals(pool.stats.reservedBytes, 0);
  });

  test("a block whose queue is gone is never lent again", (pool, _home, other) => {
    const first = pool.allocate(SIZE, { queue: other });
    const { address } = first.buffer;
    other.work();
    other.released = true;
    first.release();
    for (let i = 0; i < 3; i++) assert(pool.allocate(SIZE).buffer.address !== address);
    pool.clear();
  });

  test("queues that come and go leave nothing behind", (pool) => {
    for (let i = 0; i < 50; i++) {
      const passing = new FakeQueue(`queue ${i}`);
      pool.allocate(SIZE, { queue: passing }).release();
      passing.complete();
      passing.released = true;
      assert(passing.events.length === 1);
    }
    assertEquals(pool.stats.nativeAllocs, 1);
  });

  test("recordQueue refuses a released block and a foreign handle", (pool, _home, other) => {
    const handle = pool.allocate(64);
    handle.release();
    assertThrows(() => recordQueue(handle, other), ReferenceError, "after its release");
    const foreign = { ...handle, addUser: undefined } as unknown as typeof handle;
    assertThrows(() => recordQueue(foreign, other), TypeError, "does not come from a pool");
  });
}

Deno.test("A pool without a queue lends a used block to nobody in particular only when it is done", () => {
  const pool = new BufferPool(new SimulatedSource());
  const other = new FakeQueue("other");
  pool.limitBytes = SIZE;
  const first = pool.allocate(SIZE, { queue: other });
  other.work();
  first.release();
  pool.allocate(SIZE);
  assert(other.events.some((event) => event.waitedFor), "with no queue to wait, the host does");
  pool.destroy();
});

const source = `
kernel void slow_copy(global const float* s, global float* d, int n) {
  float v = 0;
  for (int k = 0; k < 400; k++) for (int i = 0; i < n; i++) v += s[i] * 1e-9f;
  for (int i = 0; i < n; i++) d[i] = s[i] + 0 * v;
}
kernel void put(global float* d, float v) { d[get_global_id(0)] = v; }`;

for (const kind of [BufferPool, PersistentBufferPool, SlabPool]) {
  testOpenCL(`${kind.name}: real queues that share a block spoil no data`, async () => {
    const home = queue!, n = 65536;
    using other = new CommandQueue(home.context);
    using program = new Program(home.context, source).build();
    using slow = program.kernel("slow_copy"), put = program.kernel("put");
    using result = new Buffer(home.context, 4 * n);
    const pool = new kind(home);
    pool.limitBytes = 4 * n;
    for (let trial = 0; trial < 5; trial++) {
      const a = pool.allocate(4 * n);
      const { unsafeHandle } = a.buffer;
      home.run(put, { global: [n], args: [a, 1] }).release();
      home.run(slow, { global: [1], local: [1], args: [a, result, new Int32Array([n])] })
        .release();
      home.flush();
      a.release();
      const b = pool.allocate(4 * n, { queue: other });
      assertEquals(b.buffer.unsafeHandle, unsafeHandle, "there is only one block");
      other.run(put, { global: [n], args: [b, 2] }).release();
      await other.finish();
      await home.finish();
      const out = new Float32Array(n);
      home.read(result, out, { blocking: true }).release();
      assert(out.every((value) => value === 1), "the first queue read what it wrote");
      b.release();
    }
    assert(pool.stats.fences >= 5);
    pool.destroy();
  });
}
