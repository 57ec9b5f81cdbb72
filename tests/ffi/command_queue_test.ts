import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  Buffer,
  CommandQueue,
  DisposedError,
  liveObjects,
  liveQueues,
  onQueueCreated,
  OpenCLError,
  UserEvent,
} from "../../ffi/mod.ts";
import { context, device, program, queue, testOpenCL } from "./fixture.ts";

const counting = Float32Array.from({ length: 256 }, (_, i) => i);

testOpenCL("CommandQueue moves arrays there and back, with offsets", async () => {
  using buffer = new Buffer(context, 1024);
  queue.write(buffer, counting).release();
  queue.write(buffer, new Float32Array([-1, -2]), { offset: 16 }).release();
  const out = new Float32Array(4);
  using event = queue.read(buffer, out, { offset: 12 });
  await event.wait();
  assertEquals([...out], [3, -1, -2, 6]);
});

testOpenCL("CommandQueue.write takes the content at the time of the call", async () => {
  using buffer = new Buffer(context, 4);
  using gate = new UserEvent(context);
  const source = new Int32Array([7]);
  queue.write(buffer, source, { wait: [gate] }).release();
  source[0] = 8;
  gate.complete();
  const out = new Int32Array(1);
  await queue.read(buffer, out).wait();
  assertEquals(out[0], 7);
});

testOpenCL("CommandQueue.write survives that its array is transferred away", async () => {
  using buffer = new Buffer(context, 1 << 20);
  using gate = new UserEvent(context);
  const source = new Uint8Array(1 << 20).fill(3);
  queue.write(buffer, source, { wait: [gate] }).release();
  source.buffer.transfer(0);
  gate.complete();
  const out = new Uint8Array(1 << 20);
  await queue.read(buffer, out).wait();
  assert(out.every((value) => value === 3));
});

testOpenCL("CommandQueue.read leaves the array alone until it is waited for", () => {
  using buffer = new Buffer(context, 4, { data: new Int32Array([5]) });
  const out = new Int32Array(1);
  queue.read(buffer, out).release();
  assertEquals(out[0], 0);
  queue.finishSync();
  assertEquals(out[0], 5);
});

testOpenCL(
  "CommandQueue.read into an array that was transferred meanwhile is an error",
  async () => {
    using buffer = new Buffer(context, 4);
    const out = new Int32Array(1);
    using event = queue.read(buffer, out);
    out.buffer.transfer(0);
    const error = await assertRejects(() => event.wait(), TypeError);
    assert(/transferred/.test(error.message));
  },
);

testOpenCL("borrowed and blocking transfers go straight to the array", async () => {
  using buffer = new Buffer(context, 1024);
  queue.write(buffer, counting, { blocking: true }).release();
  const out = new Float32Array(256);
  queue.read(buffer, out, { blocking: true }).release();
  assertEquals(out, counting);
  const lent = new Float32Array(256);
  using event = queue.read(buffer, lent, { borrow: true });
  await event.wait();
  assertEquals(lent, counting);
});

testOpenCL("transfers refuse memory that may move or is gone", () => {
  using buffer = new Buffer(context, 16);
  const resizable = new Uint8Array(new ArrayBuffer(16, { maxByteLength: 32 }));
  const growable = new Uint8Array(new SharedArrayBuffer(16, { maxByteLength: 32 }));
  const gone = new Uint8Array(16);
  gone.buffer.transfer();
  for (
    const [array, why] of [[resizable, "resizable"], [growable, "resizable"], [
      gone,
      "transferred",
    ]] as const
  ) {
    for (const move of [() => queue.write(buffer, array), () => queue.read(buffer, array)]) {
      assert(assertThrows(move, TypeError).message.includes(why));
    }
  }
});

testOpenCL("transfers refuse what lies beyond the buffer", () => {
  using buffer = new Buffer(context, 16);
  const array = new Uint8Array(16);
  assertThrows(() => queue.write(buffer, array, { offset: 1 }), RangeError, "it has 16 bytes");
  assertThrows(() => queue.read(buffer, array, { offset: -1 }), RangeError, "-1");
  assertThrows(() => queue.fill(buffer, array, { offset: 0.5, nbytes: 1 }), RangeError, "0.5");
});

testOpenCL("copy and fill cover the bytes that they were told to", async () => {
  using a = new Buffer(context, 32), b = new Buffer(context, 32);
  queue.fill(a, new Uint8Array([1])).release();
  queue.fill(b, new Uint16Array([0x0302]), { offset: 8, nbytes: 16 }).release();
  queue.fill(b, new Uint8Array([9]), { nbytes: 8 }).release();
  queue.copy(a, b, { sourceOffset: 4, destinationOffset: 10, nbytes: 3 }).release();
  const out = new Uint8Array(24);
  await queue.read(b, out).wait();
  assertEquals([...out.subarray(6, 16)], [9, 9, 2, 3, 1, 1, 1, 3, 2, 3]);
});

testOpenCL("rectangles move the box and nothing else", async () => {
  // A 4 x 4 matrix of bytes in the buffer; its middle 2 x 2 from and to an array of 3 x 3.
  using buffer = new Buffer(context, 16, { data: Uint8Array.from({ length: 16 }, (_, i) => i) });
  const options = {
    region: [2, 2, 1],
    buffer: { origin: [1, 1, 0], rowPitch: 4 },
    host: { origin: [1, 0, 0], rowPitch: 3 },
  } as const;
  const out = new Uint8Array(9).fill(99);
  await queue.readRect(buffer, out, options).wait();
  assertEquals([...out], [99, 5, 6, 99, 9, 10, 99, 99, 99]);
  const direct = new Uint8Array(9).fill(99);
  queue.readRect(buffer, direct, { ...options, blocking: true }).release();
  assertEquals(direct, out);
  queue.writeRect(buffer, new Uint8Array(9).fill(42), options).release();
  using other = new Buffer(context, 8);
  const copy = { region: [2, 2, 1], source: { origin: [1, 1, 0], rowPitch: 4 } } as const;
  queue.copyRect(buffer, other, { ...copy, destination: { rowPitch: 4 } }).release();
  const all = new Uint8Array(16), part = new Uint8Array(8);
  queue.read(buffer, all).release();
  queue.read(other, part).release();
  await queue.finish();
  assertEquals([...all], [0, 1, 2, 3, 4, 42, 42, 7, 8, 42, 42, 11, 12, 13, 14, 15]);
  assertEquals([...part.subarray(0, 2), ...part.subarray(4, 6)], [42, 42, 42, 42]);
  assertThrows(
    () => queue.readRect(buffer, out, { ...options, host: { origin: [2, 2, 0], rowPitch: 3 } }),
    RangeError,
    "the array",
  );
});

testOpenCL("map shows the buffer's memory, and unmap detaches the view", async () => {
  using buffer = new Buffer(context, 16, { data: new Uint8Array(16).fill(1) });
  const region = queue.map(buffer, { offset: 4, nbytes: 8 });
  const { bytes } = region;
  assertEquals([bytes.length, bytes[0]], [8, 1]);
  bytes.fill(2);
  const event = region.unmap();
  assertEquals(bytes.length, 0);
  assertEquals(region.unmap(), event);
  await event.wait();
  event.release();
  const out = new Uint8Array(16);
  await queue.read(buffer, out).wait();
  assertEquals([...out], [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
});

testOpenCL("a mapped view outlives the buffer's release", () => {
  const buffer = new Buffer(context, 1 << 16, { data: new Uint8Array(1 << 16).fill(6) });
  using region = queue.map(buffer);
  buffer.release();
  queue.finishSync();
  assert(region.bytes.every((value) => value === 6));
});

testOpenCL("migrate makes sure that the memory is there", async () => {
  using a = new Buffer(context, 64), b = new Buffer(context, 64);
  await queue.migrate([a, b], { contentUndefined: true }).wait();
  await queue.migrate([a], { toHost: true }).wait();
});

testOpenCL("run takes buffers, typed arrays and plain numbers", async () => {
  using x = new Buffer(context, 1024, { data: counting }), y = new Buffer(context, 1024);
  using kernel = program.kernel("axpy");
  queue.fill(y, new Float32Array([1])).release();
  queue.run(kernel, { global: [256], args: [x, { buffer: y }, new Float32Array([0.5]), 256] })
    .release();
  queue.run(kernel, { global: [256], local: [64], args: [x, y, 2, new Uint32Array([2])] })
    .release();
  const out = new Float32Array(256);
  await queue.read(y, out).wait();
  assertEquals([out[0], out[1], out[2], out[255]], [1, 3.5, 2, 128.5]);
});

testOpenCL("run starts the ids at the offset", async () => {
  using buffer = new Buffer(context, 16);
  queue.fill(buffer, new Int32Array([0])).release();
  using kernel = program.kernel("put");
  queue.run(kernel, { global: [2], offset: [1], args: [buffer, 7] }).release();
  const out = new Int32Array(4);
  await queue.read(buffer, out).wait();
  assertEquals([...out], [0, 7, 7, 0]);
});

testOpenCL("run names the kernel and the sizes when it fails", () => {
  using buffer = new Buffer(context, 16);
  using kernel = program.kernel("put");
  const run = (global: number[], local?: number[]) => () =>
    queue.run(kernel, { global, args: [buffer, 1], ...(local && { local }) });
  const error = assertThrows(run([6], [4096 * 64]), OpenCLError);
  assertEquals(error.call, "clEnqueueNDRangeKernel");
  assert(error.message.includes("put over [6] in groups of [262144]"), error.message);
  assertThrows(run([]), RangeError, "1 to 3 dimensions");
  assertThrows(run([4, 4], [2]), RangeError, "the dimensions differ");
  assertThrows(run([-1]), RangeError, "-1");
  assertThrows(() => queue.run(kernel, { global: [1], args: [buffer] }), TypeError, "declares 2");
});

testOpenCL("launches that are held back come before what is enqueued after them", () => {
  using held = new CommandQueue(context, device);
  using buffer = new Buffer(context, 400);
  using kernel = program.kernel("put");
  const before = liveObjects();
  const size = new BigUint64Array([1n]);
  for (let k = 1; k <= 100; k++) {
    kernel.setArgs([buffer, new Int32Array([k])]);
    held.enqueueKernelHeld(kernel, 1, size, null);
  }
  const out = new Int32Array(1);
  held.read(buffer, out, { blocking: true }).release();
  assertEquals(out[0], 100);
  kernel.setArgs([buffer, new Int32Array([7])]);
  held.enqueueKernelHeld(kernel, 1, size, null);
  held.finishSync();
  held.read(buffer, out, { blocking: true }).release();
  assertEquals(out[0], 7);
  assertEquals(liveObjects(), before);
});

testOpenCL("a queue that is released runs the launches that it holds back", () => {
  const held = new CommandQueue(context, device);
  using buffer = new Buffer(context, 4, { data: new Int32Array([0]) });
  using kernel = program.kernel("put");
  kernel.setArgs([buffer, new Int32Array([9])]);
  held.enqueueKernelHeld(kernel, 1, new BigUint64Array([1n]), null);
  held.release();
  const out = new Int32Array(1);
  for (let k = 0; out[0] === 0 && k < 1e5; k++) {
    queue.read(buffer, out, { blocking: true }).release();
  }
  assertEquals(out[0], 9);
});

testOpenCL("a launch that is refused leaves no launch held back", () => {
  using held = new CommandQueue(context, device);
  using kernel = program.kernel("put");
  const before = liveObjects();
  const wrong = () => held.enqueueKernelHeld(kernel, 4, new BigUint64Array(4).fill(1n), null);
  assertEquals(assertThrows(wrong, OpenCLError).codeName, "CL_INVALID_WORK_DIMENSION");
  assertEquals(liveObjects(), before);
});

testOpenCL("enqueueKernel launches what is set, without an event", async () => {
  using buffer = new Buffer(context, 16);
  using kernel = program.kernel("put");
  kernel.setBuffer(0, buffer);
  kernel.setBytes(1, new Int32Array([9]));
  queue.enqueueKernel(kernel, 1, new BigUint64Array([4n]), null);
  const out = new Int32Array(4);
  await queue.read(buffer, out).wait();
  assertEquals([...out], [9, 9, 9, 9]);
  using event = queue.enqueueKernelEvent(
    kernel,
    1,
    new BigUint64Array([4n]),
    new BigUint64Array([2n]),
  );
  await event.wait();
  assertEquals(event.status, "complete");
  const wrong = () => queue.enqueueKernel(kernel, 4, new BigUint64Array(4).fill(1n), null);
  assertEquals(assertThrows(wrong, OpenCLError).codeName, "CL_INVALID_WORK_DIMENSION");
});

testOpenCL("an out-of-order queue obeys wait lists, markers and barriers", async () => {
  using free = new CommandQueue(context, device, { outOfOrder: true });
  using buffer = new Buffer(context, 4);
  using gate = new UserEvent(context);
  const first = free.fill(buffer, new Int32Array([1]), { wait: [gate] });
  const second = free.fill(buffer, new Int32Array([2]), { wait: [first] });
  using marker = free.marker([second]), barrier = free.barrier();
  const out = new Int32Array(1);
  const read = free.read(buffer, out);
  assert(marker.status !== "complete");
  gate.complete();
  await read.wait();
  await barrier.wait();
  assertEquals([out[0], marker.status, barrier.status], [2, "complete", "complete"]);
  for (const event of [first, second, read]) event.release();
});

testOpenCL(
  "finish waits for what was enqueued before it, also while another finish runs",
  async () => {
    using buffer = new Buffer(context, 4, { data: new Float32Array([1]) });
    using kernel = program.kernel("spin");
    const launch = () => queue.run(kernel, { global: [1], local: [1], args: [buffer, 50] });
    using a = launch();
    const one = queue.finish();
    using b = launch();
    const two = queue.finish(), three = queue.finish();
    await one;
    assertEquals(a.status, "complete");
    await Promise.all([two, three]);
    assertEquals(b.status, "complete");
  },
);

testOpenCL("finish lets timers run", async () => {
  using buffer = new Buffer(context, 4, { data: new Float32Array([1]) });
  using kernel = program.kernel("spin");
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  queue.run(kernel, { global: [1], local: [1], args: [buffer, 200] }).release();
  await queue.finish();
  clearInterval(timer);
  assert(ticks >= 3, `${ticks} ticks`);
});

testOpenCL("liveQueues knows every queue until its release", () => {
  const seen: CommandQueue[] = [];
  using _listening = onQueueCreated((queue) => seen.push(queue));
  const mine = new CommandQueue(context);
  assertEquals(seen, [mine]);
  assert(liveQueues().includes(mine));
  mine.release();
  assert(!liveQueues().includes(mine));
  assert(liveQueues().includes(queue));
});

testOpenCL("onQueueCreated ends when it is disposed of", () => {
  let calls = 0;
  onQueueCreated(() => calls++)[Symbol.dispose]();
  new CommandQueue(context).release();
  assertEquals(calls, 0);
});

testOpenCL("a released queue is refused, and a released buffer", async () => {
  const gone = new CommandQueue(context);
  gone.release();
  gone.release();
  assertThrows(() => gone.flush(), DisposedError, "CommandQueue");
  await assertRejects(() => gone.finish(), DisposedError);
  const buffer = new Buffer(context, 4);
  buffer.release();
  assertThrows(() => queue.fill(buffer, new Uint8Array(1)), DisposedError, "Buffer");
});
