import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer, CommandQueue, UserEvent } from "../../../ffi/mod.ts";
import { contentOf, context, device, program, queue, testOpenCL } from "../fixture.ts";

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
  assertEquals(await contentOf(buffer, new Int32Array(1)), [7]);
});

testOpenCL("CommandQueue.write survives that its array is transferred away", async () => {
  using buffer = new Buffer(context, 1 << 20);
  using gate = new UserEvent(context);
  const source = new Uint8Array(1 << 20).fill(3);
  queue.write(buffer, source, { wait: [gate] }).release();
  source.buffer.transfer(0);
  gate.complete();
  assert((await contentOf(buffer, new Uint8Array(1 << 20))).every((value) => value === 3));
});

testOpenCL("CommandQueue.read leaves the array alone until it is waited for", () => {
  using buffer = new Buffer(context, 4, { data: new Int32Array([5]) });
  const out = new Int32Array(1);
  queue.read(buffer, out).release();
  assertEquals(out[0], 0);
  queue.finishSync();
  assertEquals(out[0], 5);
});

testOpenCL("CommandQueue.read into an array transferred meanwhile is an error", async () => {
  using buffer = new Buffer(context, 4);
  const out = new Int32Array(1);
  using event = queue.read(buffer, out);
  out.buffer.transfer(0);
  const error = await assertRejects(() => event.wait(), TypeError);
  assert(/transferred/.test(error.message));
});

testOpenCL("CommandQueue: borrowed and blocking transfers go straight to the array", async () => {
  using buffer = new Buffer(context, 1024);
  queue.write(buffer, counting, { blocking: true }).release();
  const out = new Float32Array(256);
  queue.read(buffer, out, { blocking: true }).release();
  assertEquals(out, counting);
  const lent = new Float32Array(256);
  using event = queue.read(buffer, lent, { noCopy: true });
  await event.wait();
  assertEquals(lent, counting);
});

testOpenCL("CommandQueue: copy and fill cover the bytes that they were told to", async () => {
  using a = new Buffer(context, 32), b = new Buffer(context, 32);
  queue.fill(a, new Uint8Array([1])).release();
  queue.fill(b, new Uint16Array([0x0302]), { offset: 8, nbytes: 16 }).release();
  queue.fill(b, new Uint8Array([9]), { nbytes: 8 }).release();
  queue.copy(a, b, { sourceOffset: 4, destinationOffset: 10, nbytes: 3 }).release();
  const out = await contentOf(b, new Uint8Array(24));
  assertEquals(out.slice(6, 16), [9, 9, 2, 3, 1, 1, 1, 3, 2, 3]);
});

testOpenCL("CommandQueue: migrate makes sure that the memory is there", async () => {
  using a = new Buffer(context, 64), b = new Buffer(context, 64);
  await queue.migrate([a, b], { contentUndefined: true }).wait();
  await queue.migrate([a], { toHost: true }).wait();
});

testOpenCL("CommandQueue: an out-of-order one obeys wait lists, markers, barriers", async () => {
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

testOpenCL("CommandQueue: finish waits for all before it, also beside another", async () => {
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
});

testOpenCL("CommandQueue: finish lets timers run", async () => {
  using buffer = new Buffer(context, 4, { data: new Float32Array([1]) });
  using kernel = program.kernel("spin");
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  queue.run(kernel, { global: [1], local: [1], args: [buffer, 200] }).release();
  await queue.finish();
  clearInterval(timer);
  assert(ticks >= 3, `${ticks} ticks`);
});

testOpenCL("CommandQueue.mayBeBusy is false from a finish to the next command", () => {
  using own = new CommandQueue(context, device);
  using buffer = new Buffer(context, 4);
  own.fill(buffer, new Uint8Array([1])).release();
  assertEquals(own.mayBeBusy, true);
  own.finishSync();
  assertEquals(own.mayBeBusy, false);
  own.marker().release();
  assertEquals(own.mayBeBusy, true);
  own.finishSync();
});
