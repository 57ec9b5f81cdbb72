/** A tensor's memory in commands that are enqueued by hand. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer, compile, DisposedError, Program, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnCPU, testOpenCL } from "../../opencl.ts";

testOpenCL("a tensor's buffer is an argument of a kernel that is enqueued by hand", async () => {
  const x = Tensor.arange(3000, { dtype: "float32" }).mul(2).slice([1, null]);
  assertEquals(x.isRealized, isEager());
  using out = new Buffer(x.context!, 4 * x.size);
  assertEquals(x.poolHandle.nbytes >= 4 * x.size, true);
  assert(x.isRealized);
  const source = `kernel void twice(global const float* x, global float* y) {
    y[get_global_id(0)] = 2 * x[get_global_id(0)];
  }`;
  using program = new Program(x.context!, source).build();
  using kernel = program.kernel("twice");
  x.queue!.run(kernel, { global: [x.size], args: [x.buffer, out] }).release();
  const y = Tensor.fromBuffer(out, { shape: x.shape });
  assertEquals((await y.add(1).toArray() as number[]).slice(0, 3), [5, 9, 13]);
  y.dispose();
  // Few numbers are on the host until somebody asks for their memory.
  const few = Tensor.fromHost([1, 2]), found = new Float32Array(2);
  few.queue!.read(few.buffer, found, { blocking: true });
  assertEquals([...found], [1, 2]);
});

testOpenCL("a lent buffer stays until the tensor is disposed of, and goes then", () => {
  const x = Tensor.full([1000], 2);
  const { buffer, queue } = x;
  x.requiresGrad = true;
  for (const value of [10, 50]) {
    using next = Tensor.full([1000], value).realize();
    x.assign(next).realize();
  }
  const found = new Float32Array(1000);
  queue!.read(buffer, found, { blocking: true });
  assertEquals(found[7], 2);
  assert(x.buffer !== buffer);
  const last = x.poolHandle;
  assertEquals(last.buffer, x.buffer);
  x.dispose();
  assertThrows(() => last.buffer, ReferenceError);
  assertThrows(() => x.buffer, DisposedError);
});

testOpenCL("a compiled function that takes a buffer is not replayed", async () => {
  let reads = 0;
  const step = compile((x: Tensor) => {
    const y = x.mul(3), found = new Float32Array(1);
    y.queue!.read(y.buffer, found, { blocking: true });
    reads += found[0]!;
    return y;
  });
  for (const k of [1, 2, 3]) assertEquals(await step(Tensor.full([1], k)).item(), 3 * k);
  assertEquals(reads, 18);
});

testOnCPU("the built-in backend has no OpenCL objects to lend", () => {
  const x = Tensor.ones([2]);
  assertThrows(() => x.buffer, TypeError, 'to("cl")');
  assertThrows(() => x.poolHandle, TypeError, 'to("cl")');
  assertEquals([x.queue, x.context], [null, null]);
});
