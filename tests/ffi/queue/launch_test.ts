import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer, OpenCLError } from "../../../ffi/mod.ts";
import { contentOf, context, program, queue, testOpenCL } from "../fixture.ts";

const counting = Float32Array.from({ length: 256 }, (_, i) => i);

testOpenCL("launch: run takes buffers, typed arrays and plain numbers", async () => {
  using x = new Buffer(context, 1024, { data: counting }), y = new Buffer(context, 1024);
  using kernel = program.kernel("axpy");
  queue.fill(y, new Float32Array([1])).release();
  queue.run(kernel, { global: [256], args: [x, { buffer: y }, new Float32Array([0.5]), 256] })
    .release();
  queue.run(kernel, { global: [256], local: [64], args: [x, y, 2, new Uint32Array([2])] })
    .release();
  const out = await contentOf(y, new Float32Array(256));
  assertEquals([out[0], out[1], out[2], out[255]], [1, 3.5, 2, 128.5]);
});

testOpenCL("launch: run starts the ids at the offset", async () => {
  using buffer = new Buffer(context, 16);
  queue.fill(buffer, new Int32Array([0])).release();
  using kernel = program.kernel("put");
  queue.run(kernel, { global: [2], offset: [1], args: [buffer, 7] }).release();
  assertEquals(await contentOf(buffer, new Int32Array(4)), [0, 7, 7, 0]);
});

testOpenCL("launch: run names the kernel and the sizes when it fails", () => {
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

testOpenCL("launch: enqueueKernel launches what is set, without an event", async () => {
  using buffer = new Buffer(context, 16);
  using kernel = program.kernel("put");
  kernel.setBuffer(0, buffer);
  kernel.setBytes(1, new Int32Array([9]));
  queue.enqueueKernel(kernel, 1, new BigUint64Array([4n]), null);
  assertEquals(await contentOf(buffer, new Int32Array(4)), [9, 9, 9, 9]);
  using event = queue.enqueueKernelEvent(
    kernel,
    1,
    new BigUint64Array([4n]),
    new BigUint64Array([2n]),
  );
  await event.wait();
  assertEquals(event.status, "complete");
  using unset = program.kernel("put");
  const wrong = () => queue.enqueueKernel(unset, 1, new BigUint64Array([4n]), null);
  assertEquals(assertThrows(wrong, OpenCLError).codeName, "CL_INVALID_KERNEL_ARGS");
});
