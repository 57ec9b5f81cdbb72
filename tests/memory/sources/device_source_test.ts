import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  CommandQueue,
  type Fault,
  liveObjects,
  OpenCLError,
  UserEvent,
  withFaults,
} from "../../../ffi/mod.ts";
import {
  BufferPool,
  DeviceMemory,
  DeviceSource,
  NoMemoryError,
  OutOfMemoryError,
  type Pool,
  SlabPool,
} from "../../../memory/mod.ts";
import { queue } from "../pools/pools_under_test.ts";

const test = (name: string, fn: () => void) =>
  Deno.test(name, { ignore: queue === null }, () => {
    const before = liveObjects();
    fn();
    assertEquals(liveObjects(), before, "nothing is left behind");
  });

const MiB = 2 ** 20;

/** A pool on a device that faults memory in, as discrete ones do. */
function faultingPool(): Pool {
  const home = queue!;
  return new SlabPool(new DeviceSource(home.context, { defaultQueue: home, commit: true }));
}

const pools: Record<string, () => Pool> = {
  SlabPool: () => new SlabPool(queue!),
  BufferPool: () => new BufferPool(queue!),
};

for (const [name, make] of Object.entries(pools)) {
  for (const status of [-4, -5, -6, -61]) {
    test(`${name}: clCreateBuffer that fails with ${status} is a shortage of memory`, () => {
      const pool = make();
      const faults: Fault[] = [{ call: "clCreateBuffer", status }];
      const error = assertThrows(
        () => withFaults(faults, () => pool.allocate(4096)),
        OutOfMemoryError,
        "the driver refused",
      );
      assert(error.cause instanceof NoMemoryError);
      assert(error.cause.cause instanceof OpenCLError && error.cause.cause.code === status);
      assertEquals([pool.stats.reservedBytes, pool.stats.numOoms], [0, 1]);
      pool.allocate(4096).release();
      pool.destroy();
    });
  }

  test(`${name}: the cache is given back when the driver has no more, then it works`, () => {
    const pool = make();
    pool.allocate(70 * MiB).release();
    const faults: Fault[] = [1, 2].map((nth) => ({ call: "clCreateBuffer", nth, status: -4 }));
    if (name === "BufferPool") faults.pop();
    const handle = withFaults(faults, () => pool.allocate(300 * MiB));
    assertEquals(pool.stats.rungs, { "cached segments": 1 });
    handle.release();
    pool.destroy();
  });
}

test("Memory that the driver promised and does not have is noticed at the allocation", () => {
  const pool = faultingPool();
  const kept = pool.allocate(MiB);
  const faults: Fault[] = [{ call: "clEnqueueMigrateMemObjects", status: -4 }];
  assertThrows(() => withFaults(faults, () => pool.allocate(100 * MiB)), OutOfMemoryError);
  assertEquals([kept.state, pool.stats.reservedBytes], ["live", 64 * MiB]);
  pool.allocate(100 * MiB).release();
  pool.destroy();
});

test("DeviceMemory's ladder answers a failure at the first use too", () => {
  const card = new DeviceMemory(faultingPool(), { name: "card", queue: queue! });
  card.allocate(80 * MiB).release();
  const faults: Fault[] = [1, 2].map((nth) => ({
    call: "clEnqueueMigrateMemObjects",
    nth,
    status: -4,
  }));
  const handle = withFaults(faults, () => card.allocate(100 * MiB));
  assertEquals([card.stats.numRetries, card.stats.numOoms], [1, 0]);
  handle.release();
  card.destroy();
});

test("Any other failure passes unchanged", () => {
  const pool = new SlabPool(queue!);
  const faults: Fault[] = [{ call: "clCreateBuffer", status: -34 }];
  assertThrows(() => withFaults(faults, () => pool.allocate(64)), OpenCLError, "INVALID_CONTEXT");
  assertEquals([pool.stats.numOoms, pool.stats.numAllocs], [0, 0]);
  pool.destroy();
});

test("A sub-buffer that cannot be made now can be made later", () => {
  const pool = new SlabPool(queue!);
  const handle = pool.allocate(64);
  const faults: Fault[] = [{ call: "clCreateSubBuffer", nth: 1, status: -13 }];
  assertThrows(() => withFaults(faults, () => handle.buffer), OpenCLError, "MISALIGNED");
  assertEquals(handle.buffer.nbytes, handle.bucketSize);
  handle.release();
  assertEquals(pool.largestFreeBytes, 64 * MiB);
  pool.destroy();
});

test("Base and offset mean the same bytes as the buffer, without a sub-buffer", () => {
  const pool = new SlabPool(queue!);
  pool.allocate(1000);
  const handle = pool.allocate(1000);
  const { base, offset } = handle;
  assert(offset > 0 && pool.stats.subBuffers === 0);
  const out = new Uint8Array(4);
  queue!.fill(base, new Uint8Array([7]), { offset, nbytes: 1000 }).release();
  queue!.read(handle.buffer, out, { blocking: true }).release();
  assertEquals([[...out], pool.stats.subBuffers], [[7, 7, 7, 7], 1]);
  handle.release();
  assertThrows(() => handle.base, ReferenceError, "after its release");
  pool.destroy();
});

test("DeviceSource reads limits and alignment from its devices", () => {
  const source = new DeviceSource(queue!.context);
  const { memBaseAddrAlign, maxMemAllocSize, name } = queue!.device;
  assertEquals(
    [source.alignment, source.maxAllocationBytes, source.name],
    [memBaseAddrAlign / 8, maxMemAllocSize, name],
  );
});

test("DeviceSource waits for what was given back and is in use before it says that memory is short", () => {
  const { context } = queue!, source = new DeviceSource(context);
  const shortage = (): Fault[] => [{ call: "clCreateBuffer", status: -4, nth: 1 }];
  assertThrows(() => withFaults(shortage(), () => source.create(4096, undefined)), NoMemoryError);
  const kept = source.create(4096, undefined);
  kept.keepUntilIdle();
  using gate = new UserEvent(context), busy = new CommandQueue(context);
  busy.marker([gate]).release();
  source.destroy(kept);
  gate.complete();
  source.destroy(withFaults(shortage(), () => source.create(4096, undefined)));
});
