import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  DeviceMemory,
  FaultPool,
  GuardPool,
  HostPool,
  LimitPool,
  MemoryCorruptionError,
  OutOfMemoryError,
  recordQueue,
  SimulatedSource,
  SlabPool,
} from "../../../memory/mod.ts";
import { FakeQueue } from "../fences/fake_queue.ts";
import { queue } from "../pools/pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";

const KiB = 1024;

Deno.test("LimitPool limits what its own callers hold, not what others do", () => {
  const shared = new HostPool();
  const share = new LimitPool(shared, 10 * KiB);
  shared.allocate(100 * KiB);
  const handle = share.allocate(8 * KiB);
  const error = assertThrows(() => share.allocate(3 * KiB), OutOfMemoryError, "this share");
  assertEquals([error.freeBytes, error.limitBytes], [2 * KiB, 10 * KiB]);
  assertEquals(share.heldBytes, 8 * KiB);
  handle.release();
  handle.release();
  assertEquals(share.heldBytes, 0);
  share.allocate(10 * KiB);
});

Deno.test("LimitPool counts rounding, and lends nothing where only that is too much", () => {
  const share = new LimitPool(new HostPool(), 1000);
  assertThrows(() => share.allocate(1000), OutOfMemoryError);
  assertEquals([share.heldBytes, share.stats.requestedBytes], [0, 0]);
  share.allocate(700);
  assertEquals(share.heldBytes, 768);
});

Deno.test("FaultPool fails the allocation that it was told to, and only that", () => {
  const pool = new FaultPool(new HostPool());
  pool.failAllocation(2);
  pool.failAllocation(3, new TypeError("The device is gone"));
  pool.allocate(64);
  assertThrows(() => pool.allocate(64), OutOfMemoryError, "an injected failure");
  assertThrows(() => pool.allocate(64), TypeError, "The device is gone");
  pool.allocate(64);
  assertEquals(pool.stats.numAllocs, 2);
});

Deno.test("A wrapper passes recordQueue on", () => {
  const home = new FakeQueue("home"), other = new FakeQueue("other");
  const source = Object.assign(new SimulatedSource(), { defaultQueue: home });
  const upstream = new SlabPool(source);
  const pool = new LimitPool(upstream, 2 ** 30);
  const first = pool.allocate(64);
  recordQueue(first, other);
  other.work();
  first.release();
  assert(pool.allocate(64).offset !== first.offset, "it is still in use");
});

Deno.test("GuardPool fills what is lent, so that what nobody writes to is seen", () => {
  const pool = GuardPool.forHost(new HostPool());
  for (let turn = 0; turn < 2; turn++) {
    const handle = pool.allocate(100);
    assertEquals([...handle.buffer.bytes.subarray(0, 100)], new Array(100).fill(0x5a));
    handle.release();
    pool.clear();
  }
  pool.destroy();
});

Deno.test("GuardPool fills what is released with NaN", () => {
  const pool = GuardPool.forHost(new HostPool());
  const handle = pool.allocate(64);
  const values = new Float32Array(handle.buffer.bytes.buffer, handle.offset, 16).fill(1);
  handle.release();
  assert(values.every(Number.isNaN));
});

Deno.test("GuardPool finds a write behind the end, and says whose", () => {
  const pool = GuardPool.forHost(new HostPool());
  const handle = pool.allocate(100, { label: "gradient" });
  handle.buffer.bytes[102] = 0;
  const error = assertThrows(() => handle.release(), MemoryCorruptionError, "3 bytes behind");
  assertMatch(error.message, /\(gradient\), allocated at wrappers_test\.[jt]s:\d+/);
  assertEquals(handle.state, "pooled");
});

Deno.test("GuardPool finds a write after the release, and names both places", () => {
  const pool = GuardPool.forHost(new HostPool(), { quarantineBytes: KiB });
  const handle = pool.allocate(300, { label: "activation" });
  const { bytes } = handle.buffer;
  handle.release();
  bytes[5] = 1;
  const later = pool.allocate(600);
  const error = assertThrows(() => later.release(), MemoryCorruptionError, "byte 5");
  assertMatch(
    error.message,
    /\(activation\), allocated at wrappers_test\.[jt]s:\d+.*, released at wrappers_test\.[jt]s:\d+/,
  );
});

Deno.test("GuardPool names both places at a use after the release and at a second one", () => {
  const pool = GuardPool.forHost(new HostPool());
  const handle = pool.allocate(300);
  handle.release();
  const use = assertThrows(() => handle.buffer, ReferenceError, "Cannot use");
  const again = assertThrows(() => handle.release(), ReferenceError, "Cannot release again");
  for (const { message } of [use, again]) {
    assertMatch(
      message,
      /allocated at wrappers_test\.[jt]s:\d+.*, released at wrappers_test\.[jt]s:\d+/,
    );
  }
});

Deno.test("GuardPool notes no places without stacks, and finds the same misuse", () => {
  const pool = GuardPool.forHost(new HostPool(), { stacks: false });
  const handle = pool.allocate(300);
  handle.release();
  const { message } = assertThrows(() => handle.release(), ReferenceError, "Cannot release again");
  assertMatch(message, /allocated at a place that was not noted, released at a place that was not/);
  pool.stacks = true;
  const noted = pool.allocate(300);
  noted.release();
  assertThrows(() => noted.release(), ReferenceError, "allocated at wrappers_test.");
});

Deno.test("GuardPool lends what it keeps back when memory is short", () => {
  const pool = GuardPool.forHost(new HostPool({ segmentBytes: 64 * KiB }));
  const card = new DeviceMemory(pool, { name: "host" });
  card.setLimit(64 * KiB);
  for (let i = 0; i < 5; i++) card.allocate(40 * KiB).release();
  assertEquals(card.stats.numOoms, 0);
});

testOpenCL("GuardPool watches over device memory", () => {
  const pool = GuardPool.forQueue(new SlabPool(queue!), queue!);
  const handle = pool.allocate(256);
  const { buffer } = handle;
  queue!.fill(buffer, new Uint8Array([1]), { offset: 0, nbytes: 257 }).release();
  assertThrows(() => handle.release(), MemoryCorruptionError, "1 bytes behind its end");
  const other = pool.allocate(256);
  const stale = other.buffer;
  other.release();
  const values = new Float32Array(64);
  queue!.read(stale, values, { blocking: true }).release();
  assert(values.every(Number.isNaN));
  queue!.fill(stale, new Uint8Array([1]), { offset: 8, nbytes: 1 }).release();
  assertThrows(() => pool.clear(), MemoryCorruptionError, "byte 8 after the release");
  pool.destroy();
});
