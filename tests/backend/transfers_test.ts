import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { manager } from "../../backend/devices.ts";
import { TransferEngine, type TransferOptions } from "../../backend/opencl/transfers.ts";
import { StagingRing } from "../../backend/opencl/staging_ring.ts";
import { withFaults } from "../../ffi/faults.ts";
import {
  Buffer,
  type CommandQueue,
  liveObjects,
  OpenCLError,
  Status,
  UserEvent,
} from "../../ffi/mod.ts";
import { hasOpenCL, testOpenCL } from "../opencl.ts";
import { busyDevice } from "../signals/busy.ts";

// Outside of the tests: the first queue starts the signal handling, which stays.
const queue = hasOpenCL ? manager.default("cl").queue! : null!;
if (hasOpenCL) queue.finishSync();

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

function withEngine<T>(options: TransferOptions, fn: (engine: TransferEngine) => T): T {
  const engine = new TransferEngine(queue, options);
  const result = fn(engine);
  if (result instanceof Promise) return result.finally(() => engine.dispose()) as T;
  engine.dispose();
  return result;
}

function pattern(nbytes: number, seed = 1): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: nbytes }, (_, i) => (i * 31 + seed * 17 + (i >> 8)) & 255);
}

/** Holds the queue back until it is called. */
function hold(target: CommandQueue): () => void {
  const event = new UserEvent(target.context);
  target.barrier([event]).release();
  return () => {
    event.complete();
    event.release();
  };
}

for (const [way, options] of Object.entries(ways)) {
  testOpenCL(`what is written comes back, ${way}`, async () => {
    await withEngine(options, async (engine) => {
      for (const nbytes of [0, 1, 3, 64, 1000, 4096, 4097, 100_000]) {
        using buffer = new Buffer(queue.context, Math.max(1, nbytes) + 8);
        const data = pattern(nbytes), into = new Uint8Array(nbytes);
        engine.write(buffer, 8, data);
        await engine.read([{ buffer, offset: 8, into }]);
        assertEquals(into, data);
        into.fill(0);
        engine.readSync([{ buffer, offset: 8, into }]);
        assertEquals(into, data);
      }
    });
  });

  testOpenCL(`the source may change as soon as write returns, ${way}`, async () => {
    await withEngine(options, async (engine) => {
      using buffer = new Buffer(queue.context, 8 * KiB);
      const into = new Uint8Array(8 * KiB);
      for (let round = 0; round < 20; round++) {
        const data = pattern(8 * KiB, round), expected = data.slice();
        engine.afterLaunch(); // as if the device were busy
        engine.write(buffer, 0, data);
        data.fill(255);
        data.buffer.transfer(0);
        await engine.read([{ buffer, offset: 0, into }]);
        assertEquals(into, expected);
      }
    });
  });
}

testOpenCL("a busy queue does not hold a write up", () => {
  for (const pinned of [true, false]) {
    for (const nbytes of [KiB, 128 * KiB]) {
      withEngine({ pinned }, (engine) => {
        using buffer = new Buffer(queue.context, nbytes);
        const letGo = hold(queue);
        engine.afterLaunch();
        engine.write(buffer, 0, pattern(nbytes)); // would wait for ever if it waited
        letGo();
        const into = new Uint8Array(nbytes);
        engine.readSync([{ buffer, offset: 0, into }]);
        assertEquals(into, pattern(nbytes));
      });
    }
  }
});

testOpenCL(
  "bytes that nothing uses are copied beside the kernels, and before the next ones",
  () => {
    withEngine({ pinned: true }, (engine) => {
      const nbytes = 512 * KiB;
      using buffer = new Buffer(queue.context, nbytes);
      engine.write(buffer, 0, new Uint8Array(nbytes), { unused: true });
      engine.finishSync();
      const before = liveObjects().Event;
      const letGo = hold(queue);
      engine.write(buffer, 0, pattern(nbytes), { unused: true });
      letGo();
      const into = new Uint8Array(nbytes);
      engine.readSync([{ buffer, offset: 0, into }]); // in the order of the compute queue
      assertEquals(into, pattern(nbytes));
      assert(liveObjects().Event <= before + 4, "no event for each chunk stays");
    });
  },
);

testOpenCL("an overlapped copy does not wait for the compute queue", () => {
  const nbytes = 512 * KiB;
  using buffer = new Buffer(queue.context, nbytes);
  // The ring holds one such copy: the second can only pass when the first is made.
  withEngine({ pinned: true, stagingBytes: nbytes }, (engine) => {
    engine.write(buffer, 0, new Uint8Array(nbytes), { unused: true });
    const letGo = hold(queue);
    engine.write(buffer, 0, pattern(nbytes, 1), { unused: true });
    engine.write(buffer, 0, pattern(nbytes, 2), { unused: true });
    letGo();
    const into = new Uint8Array(nbytes);
    engine.readSync([{ buffer, offset: 0, into }]);
    assertEquals(into, pattern(nbytes, 2));
  });
});

testOpenCL("the host runs as many launches ahead as it may, and no more", () => {
  using busy = busyDevice(manager.default("cl"));
  withEngine({ maxLaunchesAhead: 64 }, (engine) => {
    using slow = busy(400);
    for (let i = 0; i < 64; i++) engine.afterLaunch();
    assert(slow.status !== "complete", "64 launches do not wait");
    for (let i = 0; i < 8; i++) engine.afterLaunch();
    assertEquals(slow.status, "complete");
  });
});

testOpenCL("marks of the launches do not pile up", () => {
  withEngine({ maxLaunchesAhead: 64 }, (engine) => {
    const before = liveObjects().Event;
    for (let i = 0; i < 10_000; i++) engine.afterLaunch();
    assert(liveObjects().Event - before <= 8);
  });
});

testOpenCL("a copy that the device refuses is an error, and the engine goes on", () => {
  withEngine({}, (engine) => {
    using buffer = new Buffer(queue.context, KiB);
    const short = { call: "clEnqueueWriteBuffer", status: Status.CL_OUT_OF_RESOURCES } as const;
    for (const busy of [false, true]) {
      if (busy) engine.afterLaunch();
      withFaults([short], () => {
        const error = assertThrows(() => engine.write(buffer, 0, pattern(KiB)), OpenCLError);
        assertEquals((error as OpenCLError).codeName, "CL_OUT_OF_RESOURCES");
      });
    }
    engine.write(buffer, 0, pattern(KiB));
    const into = new Uint8Array(KiB);
    engine.readSync([{ buffer, offset: 0, into }]);
    assertEquals(into, pattern(KiB));
  });
});

testOpenCL("a read that fails rejects", async () => {
  await withEngine({}, async (engine) => {
    using buffer = new Buffer(queue.context, KiB);
    const lost = { call: "clEnqueueReadBuffer", status: Status.CL_DEVICE_NOT_AVAILABLE } as const;
    await withFaults([lost], async () => {
      await assertRejects(
        () => engine.read([{ buffer, offset: 0, into: new Uint8Array(KiB) }]),
        OpenCLError,
      );
      assertThrows(
        () => engine.readSync([{ buffer, offset: 0, into: new Uint8Array(KiB) }]),
        OpenCLError,
      );
    });
  });
});

testOpenCL("finish waits for everything, and dispose leaves nothing behind", async () => {
  const before = liveObjects();
  const engine = new TransferEngine(queue, { pinned: true });
  using buffer = new Buffer(queue.context, 512 * KiB);
  engine.write(buffer, 0, pattern(512 * KiB), { unused: true });
  engine.write(buffer, 0, pattern(1000));
  for (let i = 0; i < 1000; i++) engine.afterLaunch();
  await engine.finish();
  engine.finishSync();
  engine.dispose();
  assertEquals(liveObjects(), { ...before, Buffer: before.Buffer + 1 });
});

testOpenCL("memory of a resizable buffer can be written from, but not read into", async () => {
  const resizable = new Uint8Array(new ArrayBuffer(64, { maxByteLength: 128 }));
  resizable.set(pattern(64));
  for (const options of Object.values(ways)) {
    await withEngine(options, async (engine) => {
      using buffer = new Buffer(queue.context, 64);
      engine.write(buffer, 0, resizable);
      await assertRejects(
        () => engine.read([{ buffer, offset: 0, into: resizable }]),
        TypeError,
        "resizable",
      );
      const into = new Uint8Array(64);
      await engine.read([{ buffer, offset: 0, into }]);
      assertEquals(into, pattern(64));
    });
  }
});

testOpenCL("StagingRing keeps every piece until its copy is done", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 40 }), (sizes) => {
      const ring = new StagingRing(KiB, null);
      using buffer = new Buffer(queue.context, KiB);
      const into = new Uint8Array(KiB);
      sizes.forEach((nbytes, i) => {
        const data = pattern(nbytes, i);
        ring.pass(data, (staged) => {
          assertEquals(staged, data);
          return queue.write(buffer, staged, { borrow: true });
        });
        queue.read(buffer, into.subarray(0, nbytes), { blocking: true }).release();
        assertEquals(into.subarray(0, nbytes), data);
      });
      ring.release();
    }),
    { numRuns: 30 },
  );
});

testOpenCL("StagingRing refuses what it can never hold", () => {
  const ring = new StagingRing(KiB, null);
  const error = assertThrows(
    () => ring.pass(new Uint8Array(KiB + 1), () => queue.marker()),
    RangeError,
  );
  assertEquals(error.message, "Cannot stage 1088 bytes: the ring has 1024");
});
