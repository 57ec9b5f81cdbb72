/** Holds of what the driver still uses until it is done, whatever the program released meanwhile. */
import { countingFrees } from "../counting_frees.ts";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import {
  Buffer,
  CommandQueue,
  type Event,
  liveObjects,
  MemFlags,
  OpenCLError,
  SvmBuffer,
  UserEvent,
  withFaults,
} from "../../../ffi/mod.ts";
import { awaitDeferred } from "../../../ffi/events/context_work.ts";
import {
  alignedBytes,
  context,
  device,
  hasOpenCL,
  leftBehind,
  program,
  queue,
  testOpenCL,
} from "../fixture.ts";

/** Gives the collector and its finalizers a few turns. */
async function collect(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    gc();
  }
}

/**
 * Collects until an object is gone, or has been there too long: a busy machine's threads let go of it late. A
 * finalizer may come late, too; what it leaves for the next wait is waited for.
 */
async function collectUntilGone(object: WeakRef<WeakKey>): Promise<void> {
  const until = performance.now() + 5000;
  while (object.deref() && performance.now() < until) {
    await collect();
    awaitDeferred(context.unsafeHandle);
  }
}

const hasSvm = hasOpenCL && SvmBuffer.isAvailable(device);

/** A read whose array is gone when it is to be delivered, and of which nobody holds the event. */
function undeliverable(on: CommandQueue, buffer: Buffer): void {
  undeliverableEvent(on, buffer, (event) => event.release());
}

/** The same with its event. */
function undeliverableEvent(
  on: CommandQueue,
  buffer: Buffer,
  before: (event: Event) => void = () => {},
): Event {
  const gone = new Uint8Array(64);
  const event = on.read(buffer, gone);
  before(event);
  gone.buffer.transfer(0);
  const done = on.marker();
  while (done.status !== "complete") on.flush();
  done.release();
  return event;
}

testOpenCL("a read that cannot be delivered costs that read only", async () => {
  using mine = new CommandQueue(context);
  using buffer = new Buffer(context, 64);
  using lostRead = undeliverableEvent(mine, buffer);
  mine.write(buffer, new Uint8Array(64).fill(3)).release();
  const out = new Uint8Array(64);
  using read = mine.read(buffer, out);
  await read.wait();
  assert(out.every((byte) => byte === 3));
  using elsewhere = queue.marker();
  elsewhere.waitSync();
  await assertRejects(() => lostRead.wait(), TypeError, "transferred array");
  await mine.finish();
});

testOpenCL("what nobody waited for by itself is told by the wait for the queue, once", async () => {
  using mine = new CommandQueue(context);
  using buffer = new Buffer(context, 64);
  undeliverable(mine, buffer);
  assertThrows(() => mine.finishSync(), TypeError, "transferred array");
  mine.finishSync();
  undeliverable(mine, buffer);
  await assertRejects(() => mine.finish(), TypeError, "transferred array");
  await mine.finish();
});

testOpenCL("a lent array is held although an older read could not be delivered", async () => {
  using mine = new CommandQueue(context);
  using buffer = new Buffer(context, 1 << 16), gate = new UserEvent(context);
  undeliverable(mine, buffer);
  const lent = (() => {
    const data = new Uint8Array(1 << 16).fill(7);
    mine.write(buffer, data, { noCopy: true, wait: [gate] }).release();
    return new WeakRef(data.buffer);
  })();
  await collect();
  assert(lent.deref() !== undefined, "the driver has yet to read it");
  gate.complete();
  assertThrows(() => mine.finishSync(), TypeError);
});

for (const how of ["released", "forgotten"] as const) {
  testOpenCL(`an array that a ${how} buffer lives in stays until its commands end`, async () => {
    using mine = new CommandQueue(context), gate = new UserEvent(context);
    const [array, first] = (() => {
      const data = alignedBytes(1 << 16);
      const buffer = new Buffer(context, 1 << 16, { data, flags: MemFlags.USE_HOST_PTR });
      const part = buffer.subBuffer(0, 4096);
      mine.fill(part, new Uint8Array([1]), { wait: [gate] }).release();
      if (how === "released") {
        buffer.release();
        part.release();
      }
      return [new WeakRef(data.buffer), data.byteOffset] as const;
    })();
    await collect();
    assert(array.deref() !== undefined, "a fill is still to come");
    gate.complete();
    mine.finishSync();
    awaitDeferred(context.unsafeHandle);
    // deno-lint-ignore no-explicit-any -- in another function, so that no register holds the array
    const bytes = (() => [...new Uint8Array(array.deref() as any, first, 3)])();
    // A device with memory of its own brings them to the array where it is mapped only.
    if (context.devices[0]!.hostUnifiedMemory) assertEquals(bytes, [1, 1, 1]);
    await collectUntilGone(array);
    assertEquals(array.deref(), undefined, "then it is let go of");
  });
}

testOpenCL("an array that was only copied from is not kept", async () => {
  const [buffer, array] = (() => {
    const data = new Uint8Array(1 << 16);
    return [new Buffer(context, 1 << 16, { data }), new WeakRef(data.buffer)] as const;
  })();
  await collectUntilGone(array);
  assertEquals(array.deref(), undefined);
  buffer.release();
});

for (const released of [false, true]) {
  Deno.test(
    `shared memory is freed when its commands are done, on a ${
      released ? "released" : "live"
    } queue too`,
    { ignore: !hasSvm },
    () => {
      awaitDeferred(context.unsafeHandle);
      countingFrees((frees) => {
        const other = new CommandQueue(context);
        using gate = new UserEvent(context);
        const memory = new SvmBuffer(context, 4096);
        const done = memory.fill(other, new Uint8Array([9]), { wait: [gate] });
        if (released) other.release();
        memory.release();
        queue.finishSync();
        assertEquals(frees(), 0, "the fill is still to come");
        gate.complete();
        done.waitSync();
        awaitDeferred(context.unsafeHandle);
        assertEquals(frees(), 1);
        done.release();
        other.release();
      });
    },
  );
}

Deno.test("shared memory whose queues cannot be marked just now is freed later", {
  ignore: !hasSvm,
}, () => {
  awaitDeferred(context.unsafeHandle);
  const memory = new SvmBuffer(context, 64);
  withFaults(
    [{ call: "clEnqueueMarkerWithWaitList", status: -5 }],
    () => countingFrees((frees) => (memory.release(), assertEquals(frees(), 0))),
  );
  countingFrees((frees) => {
    for (let wait = 0; wait < 1000 && frees() === 0; wait++) queue.finishSync();
    assertEquals(frees(), 1);
  });
});

testOpenCL("an event outlives its queue", async () => {
  const left = await leftBehind(async () => {
    const mine = new CommandQueue(context);
    using buffer = new Buffer(context, 64), gate = new UserEvent(context);
    const write = mine.write(buffer, new Uint8Array(64).fill(5), { wait: [gate] });
    const out = new Uint8Array(64);
    const read = mine.read(buffer, out);
    mine.release();
    gate.complete();
    await write.wait();
    read.waitSync();
    assert(out.every((byte) => byte === 5));
    write.release();
    read.release();
  });
  assertEquals(left, {});
});

testOpenCL("a mapped region outlives its queue and its buffer", async () => {
  const left = await leftBehind(async () => {
    const mine = new CommandQueue(context);
    const buffer = new Buffer(context, 64);
    using part = buffer.subBuffer(0, 64);
    const region = mine.map(buffer);
    mine.release();
    buffer.release();
    region.bytes.fill(6);
    using unmapped = region.unmap();
    await unmapped.wait();
    assertEquals(region.bytes.length, 0);
    const out = new Uint8Array(64);
    queue.read(part, out, { blocking: true }).release();
    assert(out.every((byte) => byte === 6));
  });
  assertEquals(left, {});
});

testOpenCL("a view that somebody transferred away does not keep its region mapped", () => {
  using buffer = new Buffer(context, 64);
  const region = queue.map(buffer);
  region.bytes.buffer.transfer();
  region.unmap().release();
  assert(region.released);
});

testOpenCL("what waits for an event that nobody will complete fails, not hangs", async () => {
  using buffer = new Buffer(context, 64), mine = new CommandQueue(context);
  const gate = new UserEvent(context);
  using fill = mine.fill(buffer, new Uint8Array([1]), { wait: [gate] });
  gate.release();
  await assertRejects(() => fill.wait(), OpenCLError, "clWaitForEvents");
  (() => {
    const forgotten = new UserEvent(context);
    mine.fill(buffer, new Uint8Array([1]), { wait: [forgotten] }).release();
  })();
  await collect();
  await mine.finish();
});

testOpenCL("launches that cannot begin are an error of later calls, never a wait", async () => {
  const before = liveObjects();
  {
    using mine = new CommandQueue(context), buffer = new Buffer(context, 16);
    using kernel = program.kernel("put");
    kernel.setArgs([buffer, 4]);
    const size = new BigUint64Array([4n]);
    await withFaults([{ call: "clSetUserEventStatus", status: -5 }], async () => {
      mine.enqueueKernelHeld(kernel, 1, size, null);
      assertThrows(() => mine.flush(), OpenCLError, "clSetUserEventStatus");
      assertThrows(() => mine.finishSync(), OpenCLError, "clSetUserEventStatus");
      await assertRejects(() => mine.finish(), OpenCLError, "clSetUserEventStatus");
      assertThrows(() => mine.read(buffer, new Int32Array(4)), OpenCLError, "clSetUserEventStatus");
    });
    const out = new Int32Array(4);
    mine.read(buffer, out, { blocking: true }).release();
    assertEquals([...out], [4, 4, 4, 4], "afterwards they run");
  }
  {
    const mine = new CommandQueue(context);
    using buffer = new Buffer(context, 16), kernel = program.kernel("put");
    kernel.setArgs([buffer, 4]);
    mine.enqueueKernelHeld(kernel, 1, new BigUint64Array([4n]), null);
    withFaults([{ call: "clSetUserEventStatus", status: -5, nth: 1 }], () => {
      assertThrows(() => mine.release(), OpenCLError, "clSetUserEventStatus");
    });
    assert(mine.released);
  }
  assertEquals(liveObjects(), before);
});

testOpenCL("what no wait told is told when its event is released", () => {
  using mine = new CommandQueue(context);
  using buffer = new Buffer(context, 64);
  const event = undeliverableEvent(mine, buffer);
  mine.finishSync();
  assertThrows(() => event.release(), TypeError, "transferred array");
  event.release();
});
