import { assert, assertEquals, assertThrows } from "@std/assert";
import { liveQueues, MemFlags } from "../../../ffi/mod.ts";
import { type BufferHandle, OutOfMemoryError, type Pool, Shortage } from "../../../memory/mod.ts";
import { FakeQueue } from "../fences/fake_queue.ts";
import { poolsUnderTest } from "./pools_under_test.ts";
import { churn } from "../churn.ts";

// deno-lint-ignore no-explicit-any -- every kind of memory
type AnyPool = Pool<any>;

function checkLaws(pool: AnyPool): void {
  const s = pool.stats;
  assertEquals(s.bytesAllocated + s.bytesCached, s.reservedBytes, "allocated + cached = reserved");
  assert(s.requestedBytes <= s.bytesAllocated, "blocks are at least as large as asked for");
  assert(s.numFrees <= s.numAllocs, "no more releases than allocations");
  assertEquals(s.numAllocs - s.numFrees, pool.liveBlocks().length, "live blocks are counted");
  for (const gauge of [s.requested, s.allocated, s.reserved]) {
    assertEquals(gauge.allocated - gauge.freed, gauge.current, "in less out = now");
    assert(gauge.peak >= gauge.current, "a peak is a peak");
  }
  const segments = pool.segments();
  assertEquals(segments.reduce((sum, { nbytes }) => sum + nbytes, 0), s.reservedBytes);
  for (const { nbytes, blocks } of segments) {
    assertEquals(blocks.reduce((sum, block) => sum + block.nbytes, 0), nbytes, "blocks fill");
  }
  assert(s.nativeAllocs - s.nativeFrees === segments.length, "native objects are counted");
}

for (const { name, make, divides, keepsBack } of poolsUnderTest) {
  const test = (criterion: string, fn: (pool: AnyPool) => void) =>
    Deno.test(`${name}: ${criterion}`, () => {
      const pool = make();
      try {
        fn(pool);
        checkLaws(pool);
      } finally {
        pool.destroy();
      }
      assertEquals(pool.stats.reservedBytes, 0, "the end gives everything back");
    });

  test("divides a block into ones that are released one by one, or leaves it as it is", (pool) => {
    const whole = pool.allocate(4 * 4096 + 100, { label: "whole" });
    const places = [
      { offset: 0, nbytes: 4000 },
      { offset: 4096, nbytes: 8192 },
      { offset: 12_288, nbytes: 4196 },
    ];
    const { base, offset } = whole, { bytesAllocated } = pool.stats;
    const parts = pool.divide?.(whole, places) ?? null;
    if (parts === null) {
      assertEquals(whole.state, "live");
      return whole.release();
    }
    checkLaws(pool);
    assertEquals(parts.map(({ nbytes }) => nbytes), places.map(({ nbytes }) => nbytes));
    assertEquals(parts.map((part) => part.offset - offset), places.map(({ offset }) => offset));
    assert(parts.every((part) => part.base === base && part.label === "whole"));
    assertEquals([whole.state, pool.stats.bytesAllocated], ["pooled", bytesAllocated]);
    assertThrows(() => whole.buffer, ReferenceError);
    assertEquals(pool.divide!(whole, places), null, "it is gone");
    assert(parts.every(({ buffer }) => buffer !== base), "each has an object of its own");
    parts[1]!.release();
    checkLaws(pool);
    const again = pool.allocate(8000);
    assertEquals(again.offset, parts[1]!.offset, "its place is free");
    for (const handle of [again, parts[2]!, parts[0]!]) handle.release();
    const reserved = pool.stats.reservedBytes;
    pool.allocate(4 * 4096).release();
    assertEquals(pool.stats.reservedBytes, reserved, "the parts are one place again");
  });

  test("divides at no place where a block cannot begin", (pool) => {
    const whole = pool.allocate(4096),
      places = [{ offset: 0, nbytes: 8 }, { offset: 8, nbytes: 8 }];
    assertEquals(pool.divide?.(whole, places) ?? null, null);
    assertEquals([whole.state, whole.nbytes], ["live", 4096]);
    whole.release();
  });

  test("a handle knows what was asked and what was given", (pool) => {
    const handle = pool.allocate(1000, { label: "weights" });
    assertEquals(handle.nbytes, 1000);
    assert(handle.bucketSize >= 1000);
    assert(handle.pool === pool);
    assertEquals(handle.state, "live");
    assertEquals(handle.label, "weights");
    assert(handle.buffer.nbytes >= 1000);
    checkLaws(pool);
  });

  test("a handle goes from live to pooled to destroyed", (pool) => {
    const handle = pool.allocate(4096);
    handle.release();
    assertEquals(handle.state, "pooled");
    assertThrows(() => handle.buffer, ReferenceError, "4 KiB");
    pool.clear();
    assertEquals(handle.state, "destroyed");
  });

  test("a released block serves the next request of its size", (pool) => {
    const first = pool.allocate(4096);
    const { buffer } = first;
    first.release();
    // Pinned memory is lent again when the device is through with it, not before.
    for (const queue of liveQueues()) queue.finishSync();
    const { nativeAllocs, subBuffers, hits } = pool.stats;
    const second = pool.allocate(4096);
    assert(second.buffer === buffer, "the very same object");
    assertEquals([pool.stats.nativeAllocs, pool.stats.subBuffers], [nativeAllocs, subBuffers]);
    assertEquals(pool.stats.hits, hits + 1);
  });

  test("tryAllocate lends as allocate does, or says what is short and counts nothing", (pool) => {
    const block = pool.tryAllocate(4096);
    assert(!(block instanceof Shortage));
    assertEquals([block.nbytes, block.state, block.pool === pool], [4096, "live", true]);
    block.release();
    pool.clear();
    pool.limitBytes = 0;
    const { numAllocs, numOoms, nativeAllocs } = pool.stats;
    const shortage = pool.tryAllocate(2 ** 20);
    assert(shortage instanceof Shortage);
    assert(shortage.steps.length >= 3, "a pool has steps of its own");
    const { stats } = pool;
    assertEquals([stats.numAllocs, stats.numOoms, stats.nativeAllocs], [
      numAllocs,
      numOoms,
      nativeAllocs,
    ]);
  });

  test("two live handles never share memory", (pool) => {
    const handles = Array.from({ length: 20 }, (_, i) => pool.allocate(100 + 60 * i));
    assertEquals(new Set(handles.map((handle) => handle.buffer)).size, 20);
    const places = new Set(pool.liveBlocks().map(({ segment, offset }) => `${segment}:${offset}`));
    assertEquals(places.size, 20);
  });

  test("a second release changes nothing, and a stale handle cannot give away another's block", (pool) => {
    const stale = pool.allocate(4096);
    stale.release();
    const owner = pool.allocate(4096);
    const before = pool.stats.doubleReleases;
    if (keepsBack) assertThrows(() => stale.release(), ReferenceError, "again");
    else {
      stale.release();
      stale[Symbol.dispose]();
      assertEquals(pool.stats.doubleReleases, before + 2);
    }
    assertEquals(owner.state, "live");
    assert(pool.allocate(4096).buffer !== owner.buffer);
  });

  test("handles are disposable", (pool) => {
    let outer: BufferHandle<unknown>;
    {
      using handle = pool.allocate(64);
      outer = handle;
    }
    assertEquals(outer.state, "pooled");
  });

  test("no bytes are legal and take no memory", (pool) => {
    const handle = pool.allocate(0);
    assertEquals([handle.nbytes, handle.bucketSize, handle.state], [0, 0, "live"]);
    assertEquals(pool.stats.nativeAllocs, 0);
    checkLaws(pool);
    handle.release();
    assertEquals([pool.stats.numAllocs, pool.stats.numFrees], [1, 1]);
    assert(handle.state !== "live");
  });

  test("sizes that are no whole numbers from 0 are refused by name", (pool) => {
    for (const size of [-1, 1.5, NaN, Infinity, 2 ** 53]) {
      assertThrows(() => pool.allocate(size), RangeError, String(size));
    }
    assertThrows(() => pool.allocate(2 ** 55), RangeError, "check the shape");
    assertEquals(pool.stats.numAllocs, 0);
  });

  test("flags are part of what is reused", (pool) => {
    const readOnly = pool.allocate(4096, { flags: MemFlags.READ_ONLY });
    const { buffer } = readOnly;
    readOnly.release();
    assert(pool.allocate(4096).buffer !== buffer);
    // Pinned memory is lent again when the device is through with it, not before.
    for (const queue of liveQueues()) queue.finishSync();
    assert(pool.allocate(4096, { flags: MemFlags.READ_ONLY }).buffer === buffer);
  });

  if (divides) {
    test("blocks begin where the device allows it", (pool) => {
      for (let i = 0; i < 30; i++) assertEquals(pool.allocate(1 + 37 * i).offset % 256, 0);
    });
  }

  test("a handle of another pool is refused", (pool) => {
    const other = make();
    const handle = other.allocate(64);
    assertThrows(() => pool.release(handle), TypeError, "another pool");
    assertEquals(handle.state, "live");
    other.destroy();
  });

  test("trim frees at least so much, largest first, and clear everything", (pool) => {
    const handles = [1 << 20, 1 << 16, 1 << 12].map((size) => pool.allocate(size));
    for (const handle of handles) handle.release();
    const reserved = pool.stats.reservedBytes;
    const freed = pool.trim(1);
    assert(freed >= 1 << 20);
    assertEquals(pool.stats.reservedBytes, reserved - freed);
    pool.clear();
    assertEquals([pool.stats.reservedBytes, pool.stats.bytesCached, pool.trim()], [0, 0, 0]);
    assertEquals(pool.largestFreeBytes, 0);
  });

  test("trim leaves live blocks alone", (pool) => {
    const handle = pool.allocate(5000);
    const { buffer } = handle;
    pool.clear();
    assertEquals(handle.state, "live");
    assert(handle.buffer === buffer);
    assert(pool.stats.reservedBytes >= 5000);
  });

  test("the limit holds, and what fits afterwards succeeds", (pool) => {
    const kept = pool.allocate(10_000);
    pool.limitBytes = pool.stats.reservedBytes + 2 ** 20;
    const error = assertThrows(() => pool.allocate(2 ** 27), OutOfMemoryError, "128 MiB");
    assertEquals(error.limitBytes, pool.limitBytes);
    assert(error.requestedBytes >= 2 ** 27 && error.rungs.length >= 3);
    assertEquals(pool.stats.numOoms, 1);
    assert(pool.stats.reservedBytes <= pool.limitBytes);
    assertEquals(kept.state, "live");
    pool.allocate(2 ** 19).release();
    pool.limitBytes = Infinity;
    pool.allocate(2 ** 20).release();
  });

  test("cached blocks of other sizes make room within the limit", (pool) => {
    pool.limitBytes = 3 * 2 ** 20;
    for (let i = 0; i < 4; i++) pool.allocate(2 ** (16 + i)).release();
    const handle = pool.allocate(2 ** 21);
    assertEquals(handle.state, "live");
    assert(pool.stats.reservedBytes <= pool.limitBytes);
  });

  test("an out-of-order queue is refused", (pool) => {
    const queue = new FakeQueue("out of order", { outOfOrder: true });
    assertThrows(() => pool.allocate(64, { queue }), TypeError, "out-of-order");
  });

  test("reclaiming a forgotten handle is counted as a leak, and only once", (pool) => {
    const handle = pool.allocate(4096);
    pool.reclaim(handle);
    if (!keepsBack) pool.reclaim(handle);
    assertEquals([pool.stats.leaksReclaimed, pool.stats.requestedBytes], [1, 0]);
  });

  Deno.test(`${name}: peaks and counters can be reset apart`, () => {
    const pool = make();
    const kept = pool.allocate(1000);
    pool.allocate(100_000).release();
    const { current } = pool.stats.requested;
    pool.resetPeakStats();
    assertEquals([pool.stats.peakRequestedBytes, pool.stats.numAllocs], [current, 2]);
    pool.resetAccumulatedStats();
    const { numAllocs, numFrees, hits, misses, nativeAllocs, requestedBytes } = pool.stats;
    assertEquals([numAllocs, numFrees, hits, misses, nativeAllocs], [0, 0, 0, 0, 0]);
    assertEquals([requestedBytes, pool.stats.requested.freed], [current, 0]);
    kept.release();
    assertEquals([pool.stats.requestedBytes, pool.stats.requested.freed], [0, current]);
    pool.destroy();
  });

  test("an observer sees every block and segment until it leaves", (pool) => {
    const seen: string[] = [];
    const watch = pool.observe({
      allocated: ({ label }) => seen.push(`alloc ${label}`),
      released: ({ label }) => seen.push(`free ${label}`),
      reserved: () => seen.push("segment"),
      unreserved: () => seen.push("segment gone"),
      exhausted: () => seen.push("exhausted"),
    });
    pool.allocate(1000, { label: "a" }).release();
    pool.clear();
    pool.limitBytes = 0;
    assertThrows(() => pool.allocate(64), OutOfMemoryError);
    pool.limitBytes = Infinity;
    watch[Symbol.dispose]();
    pool.allocate(1000, { label: "b" }).release();
    assertEquals(seen, ["segment", "alloc a", "free a", "segment gone", "exhausted"]);
  });

  test("statistics add up over thousands of random calls", (pool) => {
    const live = churn((nbytes) => pool.allocate(nbytes), {
      ...{ seed: 11, steps: 3000, live: 40, share: 0.55 },
      size: (random) => Math.floor(2 ** (14 * random)),
      after(step) {
        if (step % 500 !== 0) return;
        checkLaws(pool);
        pool.trim(2 ** 20);
      },
    });
    const requested = live.reduce((sum, { nbytes }) => sum + nbytes, 0);
    const guards = keepsBack ? 64 * live.length : 0;
    assertEquals(pool.stats.requestedBytes, requested + guards);
    for (const handle of live) handle.release();
    assertEquals([pool.stats.requestedBytes, pool.stats.bytesAllocated], [0, 0]);
  });

  Deno.test(`${name}: the end destroys also what callers hold`, () => {
    const pool = make();
    const handle = pool.allocate(4096);
    pool.destroy();
    assertEquals(handle.state, "destroyed");
    assertEquals([pool.stats.reservedBytes, pool.stats.requestedBytes], [0, 0]);
  });
}
