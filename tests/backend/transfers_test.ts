import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { manager } from "../../backend/devices/devices.ts";
import { driverOf } from "../../backend/opencl/runtime/driver.ts";
import { type TransferOptions, Transfers } from "../../backend/opencl/transfers/transfers.ts";
import { Staging } from "../../backend/opencl/transfers/staging.ts";
import { withFaults } from "../../ffi/library/faults.ts";
import {
  Buffer,
  CommandQueue,
  type Event,
  liveObjects,
  OpenCLError,
  Status,
  UserEvent,
} from "../../ffi/mod.ts";
import { type BufferHandle, DeviceMemory, PinnedBufferPool, SlabPool } from "../../memory/mod.ts";
import { hasOpenCL, openCLDevice, testOpenCL } from "../opencl.ts";
import { busyDevice } from "../signals/busy.ts";

const queue = hasOpenCL ? openCLDevice.queue! : null!;

const KiB = 1024;

/** The ways that bytes can take; the default is what was measured best for the device. */
const ways: Record<string, TransferOptions> = {
  "by default": {},
  "not async": { async: false },
  "pinned": { pinned: true },
  "through plain memory": { pinned: false },
  "through a small ring": { stagingBytes: 4 * KiB },
  "pinned through a small ring": { pinned: true, stagingBytes: 4 * KiB },
};

function withTransfers<T>(options: TransferOptions, fn: (transfers: Transfers) => T): T {
  const transfers = new Transfers(queue, options);
  const result = fn(transfers);
  if (result instanceof Promise) return result.finally(() => transfers.dispose()) as T;
  transfers.dispose();
  return result;
}

function pattern(nbytes: number, seed = 1): Uint8Array<ArrayBuffer> {
  return new Uint8Array(nbytes).map((_, i) => (i * 31 + seed * 17 + (i >> 8)) & 255);
}

/**
 * Holds the queue back until it is called; for 30 ms where nothing should wait for a user event: NVIDIA's
 * driver ended these tests with a segmentation fault.
 */
function hold(): () => void {
  if (driverOf(queue.device).gates !== "events") {
    using busy = busyDevice(manager.default("cl"));
    busy(30).release();
    return () => {};
  }
  const event = new UserEvent(queue.context);
  queue.barrier([event]).release();
  return () => {
    event.complete();
    event.release();
  };
}

function testTransfers(
  name: string,
  fn: (transfers: Transfers) => void | Promise<void>,
  options: TransferOptions = {},
): void {
  testOpenCL(name, () => withTransfers(options, fn));
}

for (const [way, options] of Object.entries(ways)) {
  testTransfers(`what is written comes back, ${way}`, async (transfers) => {
    for (const nbytes of [0, 1, 3, 64, 1000, 4096, 4097, 100_000]) {
      using buffer = new Buffer(queue.context, Math.max(1, nbytes) + 8);
      const data = pattern(nbytes), into = new Uint8Array(nbytes);
      transfers.write(buffer, 8, data);
      await transfers.read([{ buffer, offset: 8, into }]);
      assertEquals(into, data);
      into.fill(0);
      transfers.readSync([{ buffer, offset: 8, into }]);
      assertEquals(into, data);
    }
  }, options);

  testTransfers(`the source may change as soon as write returns, ${way}`, async (transfers) => {
    using buffer = new Buffer(queue.context, 8 * KiB);
    const into = new Uint8Array(8 * KiB);
    for (let round = 0; round < 20; round++) {
      const data = pattern(8 * KiB, round), expected = data.slice();
      transfers.afterLaunch(); // as if the device were busy
      transfers.write(buffer, 0, data);
      data.fill(255);
      data.buffer.transfer(0);
      await transfers.read([{ buffer, offset: 0, into }]);
      assertEquals(into, expected);
    }
  }, options);
}

testOpenCL("a busy queue does not hold a write up", () => {
  for (const pinned of [true, false]) {
    for (const nbytes of [KiB, 128 * KiB]) {
      withTransfers({ pinned }, (transfers) => {
        using buffer = new Buffer(queue.context, nbytes);
        const letGo = hold();
        transfers.afterLaunch();
        transfers.write(buffer, 0, pattern(nbytes)); // would wait for ever if it waited
        letGo();
        assertEquals(bytesOf(transfers, buffer, nbytes), pattern(nbytes));
      });
    }
  }
});

/** The first bytes of a buffer. */
function bytesOf(transfers: Transfers, buffer: Buffer, nbytes: number): Uint8Array {
  const into = new Uint8Array(nbytes);
  transfers.readSync([{ buffer, offset: 0, into }]);
  return into;
}

/** Transfers with a device's memory of its own, as a backend has them. */
function withMemory(
  options: TransferOptions,
  fn: (transfers: Transfers, memory: DeviceMemory) => void,
): void {
  const pinnedPool = new PinnedBufferPool(queue);
  const memory = new DeviceMemory(new SlabPool(queue), { name: "test", queue });
  try {
    withTransfers({ pinnedPool, ...options }, (transfers) => fn(transfers, memory));
  } finally {
    memory.destroy();
    pinnedPool.destroy();
  }
}

function testMemory(
  name: string,
  fn: (transfers: Transfers, memory: DeviceMemory) => void,
  options: TransferOptions = {},
): void {
  testOpenCL(name, () => withMemory({ pinned: true, ...options }, fn));
}

/** Reads a block on the compute queue, as a kernel would. */
function content(transfers: Transfers, memory: DeviceMemory, block: BufferHandle): Uint8Array {
  const into = new Uint8Array(block.nbytes);
  memory.uploads.await(block);
  transfers.readSync([{ buffer: block.base, offset: block.offset, into }]);
  return into;
}

for (const pinMemory of [false, true]) {
  const how = pinMemory ? "from pinned memory" : "through staging blocks";
  testMemory(`an upload ${how} waits for no kernel, and users for it`, (transfers, memory) => {
    const nbytes = 512 * KiB;
    const first = transfers.upload(memory, pattern(nbytes, 1), { pinMemory });
    const letGo = hold(); // the compute queue stands still from here on
    transfers.afterLaunch();
    const second = transfers.upload(memory, pattern(nbytes, 2), { pinMemory });
    // Done although the compute queue is not: an event that depended on it would never be.
    const other = new CommandQueue(queue.context);
    assertEquals(memory.uploads.isEmpty, false);
    transfers.awaitUploads();
    const into = new Uint8Array(nbytes);
    other.read(second.base, into, { offset: second.offset, blocking: true }).release();
    assertEquals(into, pattern(nbytes, 2));
    other.release();
    letGo();
    assertEquals(content(transfers, memory, first), pattern(nbytes, 1));
    assertEquals(content(transfers, memory, second), pattern(nbytes, 2));
    assert(memory.uploads.isEmpty);
    first.release();
    second.release();
  });
}

testMemory("a kernel that uses what is uploaded waits for the copy", (transfers, memory) => {
  const nbytes = 1024 * KiB;
  for (let round = 0; round < 20; round++) {
    const block = transfers.upload(memory, pattern(nbytes, round));
    assertEquals(content(transfers, memory, block), pattern(nbytes, round));
    block.release();
  }
});

testMemory("a block that a kernel still reads is not filled again", (transfers, memory) => {
  const nbytes = 1024 * KiB;
  const copies: { into: Uint8Array; event: Event }[] = [];
  for (let round = 0; round < 8; round++) {
    const letGo = hold();
    const block = transfers.upload(memory, pattern(nbytes, round));
    memory.uploads.await(block);
    const into = new Uint8Array(nbytes);
    const { base: buffer, offset } = block;
    copies.push({ into, event: queue.read(buffer, into, { offset, noCopy: true }) });
    block.release(); // its memory is the pool's while the read waits behind the gate
    const next = transfers.upload(memory, pattern(nbytes, 100 + round));
    transfers.awaitUploads();
    letGo();
    assertEquals(content(transfers, memory, next), pattern(nbytes, 100 + round));
    next.release();
  }
  queue.finishSync();
  copies.forEach(({ into, event }, round) => {
    assertEquals(into, pattern(nbytes, round));
    event.release();
  });
  assert(memory.stats.reservedBytes <= 2 * 64 * KiB * KiB, "the same blocks serve again");
});

testMemory("NETCL_ASYNC_H2D=0 copies before upload returns", (transfers, memory) => {
  for (const pinMemory of [false, true]) {
    const block = transfers.upload(memory, pattern(512 * KiB), { pinMemory });
    assert(memory.uploads.isEmpty);
    assertEquals(content(transfers, memory, block), pattern(512 * KiB));
    block.release();
  }
}, { async: false });

testOpenCL("pinned blocks of uploads are lent again, and come back when copies are done", () => {
  const pinnedPool = new PinnedBufferPool(queue);
  withMemory({ pinnedPool }, (transfers, memory) => {
    for (let round = 0; round < 20; round++) {
      transfers.upload(memory, pattern(300 * KiB, round), { pinMemory: true }).release();
      transfers.finishSync();
    }
    assertEquals(pinnedPool.stats.bytesAllocated, 0);
    assert(pinnedPool.stats.nativeAllocs <= 2, `${pinnedPool.stats.nativeAllocs} native`);
  });
  pinnedPool.destroy();
});

testOpenCL("where pinned memory runs out, uploads wait for earlier ones or do without", () => {
  const pinnedPool = new PinnedBufferPool(queue, { maxBytes: 1024 * KiB });
  withMemory({ pinnedPool }, (transfers, memory) => {
    for (const nbytes of [600 * KiB, 700 * KiB, 3000 * KiB]) {
      const block = transfers.upload(memory, pattern(nbytes), { pinMemory: true });
      assertEquals(content(transfers, memory, block), pattern(nbytes));
      block.release();
    }
  });
  pinnedPool.destroy();
});

testOpenCL("the host runs as many launches ahead as it may, and no more", () => {
  using busy = busyDevice(manager.default("cl"));
  withTransfers({ maxLaunchesAhead: 64 }, (transfers) => {
    using slow = busy(400);
    for (let i = 0; i < 64; i++) transfers.afterLaunch();
    assert(slow.status !== "complete", "64 launches do not wait");
    for (let i = 0; i < 8; i++) transfers.afterLaunch();
    assertEquals(slow.status, "complete");
  });
});

testTransfers("marks of the launches do not pile up", (transfers) => {
  const before = liveObjects().Event;
  for (let i = 0; i < 10_000; i++) transfers.afterLaunch();
  assert(liveObjects().Event - before <= 8);
}, { maxLaunchesAhead: 64 });

testTransfers("a refused copy is an error, and the transfers go on", (transfers) => {
  using buffer = new Buffer(queue.context, KiB);
  const short = { call: "clEnqueueWriteBuffer", status: Status.CL_OUT_OF_RESOURCES } as const;
  for (const busy of [false, true]) {
    if (busy) transfers.afterLaunch();
    withFaults([short], () => {
      const error = assertThrows(() => transfers.write(buffer, 0, pattern(KiB)), OpenCLError);
      assertEquals((error as OpenCLError).codeName, "CL_OUT_OF_RESOURCES");
    });
  }
  transfers.write(buffer, 0, pattern(KiB));
  assertEquals(bytesOf(transfers, buffer, KiB), pattern(KiB));
});

testTransfers("a read that fails rejects", async (transfers) => {
  using buffer = new Buffer(queue.context, KiB);
  const lost = { call: "clEnqueueReadBuffer", status: Status.CL_DEVICE_NOT_AVAILABLE } as const;
  const read = [{ buffer, offset: 0, into: new Uint8Array(KiB) }];
  await withFaults([lost], async () => {
    await assertRejects(() => transfers.read(read), OpenCLError);
    assertThrows(() => transfers.readSync(read), OpenCLError);
  });
});

testOpenCL("finish waits for everything, and dispose leaves nothing behind", async () => {
  const before = liveObjects();
  const pinnedPool = new PinnedBufferPool(queue);
  const memory = new DeviceMemory(new SlabPool(queue), { name: "test", queue });
  const transfers = new Transfers(queue, { pinned: true, pinnedPool });
  using buffer = new Buffer(queue.context, 512 * KiB);
  transfers.upload(memory, pattern(512 * KiB));
  transfers.write(buffer, 0, pattern(512 * KiB));
  transfers.write(buffer, 0, pattern(1000));
  for (let i = 0; i < 1000; i++) transfers.afterLaunch();
  await transfers.finish();
  transfers.finishSync();
  transfers.dispose();
  memory.destroy();
  pinnedPool.destroy();
  assertEquals(liveObjects(), { ...before, Buffer: before.Buffer + 1 });
});

testOpenCL("memory of a resizable buffer can be written from, but not read into", async () => {
  const resizable = new Uint8Array(new ArrayBuffer(64, { maxByteLength: 128 }));
  resizable.set(pattern(64));
  for (const options of Object.values(ways)) {
    await withTransfers(options, async (transfers) => {
      using buffer = new Buffer(queue.context, 64);
      transfers.write(buffer, 0, resizable);
      await assertRejects(
        () => transfers.read([{ buffer, offset: 0, into: resizable }]),
        TypeError,
        "resizable",
      );
      const into = new Uint8Array(64);
      await transfers.read([{ buffer, offset: 0, into }]);
      assertEquals(into, pattern(64));
    });
  }
});

testOpenCL("Staging keeps every piece until its copy is done", () => {
  const pool = new PinnedBufferPool(queue);
  const sizes = fc.array(fc.tuple(fc.integer({ min: 1, max: 900 }), fc.boolean()), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(sizes, (sizes) => {
      const staging = new Staging(() => pool);
      using buffer = new Buffer(queue.context, KiB);
      const reads = sizes.map(([nbytes, pinned], i) => {
        staging.pass(
          pattern(nbytes, i),
          { pinned, maxBytes: 4 * KiB },
          (staged) => queue.write(buffer, staged, { noCopy: true }),
        );
        const into = new Uint8Array(nbytes);
        queue.read(buffer, into, { noCopy: true }).release();
        return into;
      });
      staging.release();
      queue.finishSync();
      reads.forEach((into, i) => assertEquals(into, pattern(into.length, i)));
      assertEquals(pool.stats.bytesAllocated, 0);
    }),
    { numRuns: 30 },
  );
  pool.destroy();
});
