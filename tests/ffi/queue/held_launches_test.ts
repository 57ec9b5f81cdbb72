import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import { Buffer, CommandQueue, liveObjects, OpenCLError } from "../../../ffi/mod.ts";
import { context, device, program, queue, testOpenCL } from "../fixture.ts";

testOpenCL("HeldLaunches come before what is enqueued after them", () => {
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

testOpenCL("HeldLaunches: a queue that is released runs the launches that it holds back", () => {
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

testOpenCL("HeldLaunches: a launch that is refused leaves no launch held back", () => {
  using held = new CommandQueue(context, device);
  using kernel = program.kernel("put"), buffer = new Buffer(context, 4);
  kernel.setArgs([buffer, new Int32Array([9])]);
  const before = liveObjects(), many = new BigUint64Array([1n << 22n]);
  const wrong = () => held.enqueueKernelHeld(kernel, 1, many, many);
  assertMatch(assertThrows(wrong, OpenCLError).codeName, /CL_INVALID_WORK_(GROUP|ITEM)_SIZE/);
  assertEquals(liveObjects(), before);
});

testOpenCL("HeldLaunches: a queue that is forgotten runs those that it holds back", async () => {
  using buffer = new Buffer(context, 4, { data: new Int32Array([0]) });
  using kernel = program.kernel("put");
  kernel.setArgs([buffer, new Int32Array([9])]);
  (() => {
    new CommandQueue(context).enqueueKernelHeld(kernel, 1, new BigUint64Array([1n]), null);
  })();
  const out = new Int32Array(1);
  for (let turn = 0; turn < 200 && out[0] === 0; turn++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 1));
    queue.read(buffer, out, { blocking: true }).release();
  }
  assertEquals(out[0], 9);
});
