import { assert, assertEquals, assertThrows } from "@std/assert";
import { BufferPool, PersistentBufferPool, SimulatedSource } from "../../../memory/mod.ts";
import { setVariables } from "../../variables.ts";

const [KiB, MiB, GiB] = [2 ** 10, 2 ** 20, 2 ** 30];

Deno.test("BufferPool takes powers of two, also above 2^31", () => {
  const pool = new BufferPool(new SimulatedSource());
  const sizes = [1, 2, 3, 1024, 1025, 1_100_000, 3 * GiB, 4 * GiB, 4 * GiB + 1];
  assertEquals(
    sizes.map((size) => pool.allocate(size).bucketSize),
    [1, 2, 4, 1024, 2048, 2 * MiB, 4 * GiB, 4 * GiB, 8 * GiB],
  );
});

Deno.test("BufferPool takes just what is asked for where a power of two would be too much", () => {
  const pool = new BufferPool(new SimulatedSource({ maxAllocationBytes: 5 * GiB, alignment: 512 }));
  assertEquals(pool.allocate(5 * GiB - 1000).bucketSize, 5 * GiB - 512);
  pool.limitBytes = pool.stats.reservedBytes + 700 * MiB;
  assertEquals(pool.allocate(600 * MiB).bucketSize, 600 * MiB);
});

Deno.test("PersistentBufferPool takes its ladder, then powers of two", () => {
  const pool = new PersistentBufferPool(new SimulatedSource());
  assertEquals(
    [1, 1024, 1025, 50_000, 40_000_000, 256 * MiB, 256 * MiB + 1].map((size) =>
      pool.allocate(size).bucketSize
    ),
    [KiB, KiB, 4 * KiB, 64 * KiB, 64 * MiB, 256 * MiB, 512 * MiB],
  );
});

Deno.test("PersistentBufferPool keeps so many buffers a bucket and frees the others at once", () => {
  const source = new SimulatedSource();
  const pool = new PersistentBufferPool(source, { maxBuffersPerBucket: 3 });
  const handles = Array.from({ length: 10 }, () => pool.allocate(4096));
  for (const handle of handles) handle.release();
  assertEquals(pool.getStats().buckets, { 4096: { cached: 3, live: 0 } });
  assertEquals(source.usedBytes, 3 * 4096);
  assertEquals(handles.map(({ state }) => state === "destroyed").filter(Boolean).length, 7);
});

Deno.test("PersistentBufferPool keeps so many bytes and frees the others at once", () => {
  const source = new SimulatedSource();
  const pool = new PersistentBufferPool(source, { maxCachedBytes: 10 * KiB });
  const handles = [4, 4, 4, 1, 1, 1].map((size) => pool.allocate(size * KiB));
  for (const handle of handles) handle.release();
  assertEquals(pool.stats.bytesCached, 10 * KiB);
  assertEquals(source.usedBytes, 10 * KiB);
  pool.allocate(64 * KiB).release();
  assertEquals(source.usedBytes, 10 * KiB);
});

Deno.test("PersistentBufferPool counts what is cached and live by bucket", () => {
  const pool = new PersistentBufferPool(new SimulatedSource());
  const first = pool.allocate(1000);
  pool.allocate(1000);
  pool.allocate(5000);
  first.release();
  assertEquals(pool.getStats().buckets, {
    1024: { cached: 1, live: 1 },
    16384: { cached: 0, live: 1 },
  });
  assertEquals(pool.getStats().hitRate, 0);
});

Deno.test("PersistentBufferPool takes its bound from NETCL_MAX_CACHED_GB", () => {
  const boundOf = (value: string | undefined): number => {
    using _variables = setVariables({ NETCL_MAX_CACHED_GB: value });
    return new PersistentBufferPool(new SimulatedSource()).maxCachedBytes;
  };
  assertEquals([boundOf("0.5"), boundOf(undefined)], [GiB / 2, 4 * GiB]);
  assertThrows(() => boundOf("much"), RangeError, '"much"');
});

Deno.test("A bucket hands out the buffer that came back last", () => {
  const pool = new BufferPool(new SimulatedSource());
  const [a, b] = [pool.allocate(64), pool.allocate(64)];
  const last = b.buffer;
  a.release();
  b.release();
  assert(pool.allocate(64).buffer === last);
});
