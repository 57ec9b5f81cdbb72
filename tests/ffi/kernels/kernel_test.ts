import { assert, assertEquals, assertThrows } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import {
  Buffer,
  DisposedError,
  type Kernel,
  leakedObjects,
  OpenCLError,
  Program,
} from "../../../ffi/mod.ts";
import { contentOf, context, program, queue, testOpenCL } from "../fixture.ts";

/** The arrays of the scalar types, and the least and the largest number of those of integers. */
const types = {
  char: [Int8Array, -128, 127],
  uchar: [Uint8Array, 0, 255],
  short: [Int16Array, -32768, 32767],
  ushort: [Uint16Array, 0, 65535],
  int: [Int32Array, -(2 ** 31), 2 ** 31 - 1],
  uint: [Uint32Array, 0, 2 ** 32 - 1],
  long: [BigInt64Array, -(2n ** 63n), 2n ** 63n - 1n],
  ulong: [BigUint64Array, 0n, 2n ** 64n - 1n],
  float: [Float32Array],
} as const;
const scalars = Object.keys(types).map((type) =>
  `kernel void k_${type}(global ${type}* y, ${type} value) { y[0] = value; }`
).join("\n");

testOpenCL("Kernel: numbers become what it declares; those out of range are refused", async () => {
  using built = new Program(context, scalars).build();
  using buffer = new Buffer(context, 8);
  const pass = async (type: keyof typeof types, value: number | bigint) => {
    using kernel = built.kernel(`k_${type}`);
    queue.run(kernel, { global: [1], args: [buffer, value] }).release();
    const out = new types[type][0](1);
    await queue.read(buffer, out).wait();
    return out[0];
  };
  for (const [name, [, low, high]] of Object.entries(types)) {
    if (low === undefined) continue;
    const type = name as keyof typeof types;
    assertEquals(await pass(type, low), low, type);
    assertEquals(await pass(type, high), high, type);
    using kernel = built.kernel(`k_${type}`);
    const outside = [BigInt(low) - 1n, BigInt(high) + 1n, 0.5, NaN];
    for (const value of outside) assertThrows(() => kernel.setNumber(1, value), RangeError);
  }
  assertEquals(await pass("float", 0.1), Math.fround(0.1));
});

testOpenCL("Kernel tells about its arguments and limits", () => {
  using kernel = program.kernel("axpy");
  assertEquals([kernel.name, kernel.numArgs], ["axpy", 4]);
  assertEquals(kernel.argument(0), { name: "x", typeName: "float*", addressSpace: "global" });
  assertEquals(kernel.argument(3), { name: "n", typeName: "uint", addressSpace: "private" });
  assert(kernel.workGroupSize() >= 1);
  assert(kernel.preferredWorkGroupSizeMultiple() >= 1);
  assertEquals(kernel.workGroupSize(queue.device), kernel.workGroupSize());
  assertEquals(kernel.compileWorkGroupSize(), [0, 0, 0]);
  assert(kernel.localMemSize() >= 0 && kernel.privateMemSize() >= 0);
});

testOpenCL("Kernel: a number for what is no scalar is refused with what to pass instead", () => {
  using kernel = program.kernel("axpy");
  const error = assertThrows(() => kernel.setNumber(0, 1), TypeError);
  assert(error.message.includes("argument 0 (float* x) of axpy"), error.message);
});

testOpenCL("Kernel: a value of the wrong size names the argument", () => {
  using kernel = program.kernel("axpy");
  const error = assertThrows(() => kernel.setBytes(2, new Float64Array(1)), OpenCLError);
  assertEquals([error.codeName, error.call], ["CL_INVALID_ARG_SIZE", "clSetKernelArg"]);
  assert(error.message.includes("argument 2 of axpy"), error.message);
});

testOpenCL("Kernel: local memory is an argument", async () => {
  using built = new Program(
    context,
    `kernel void reverse(global int* y, local int* t) {
      const size_t i = get_local_id(0), n = get_local_size(0);
      t[i] = y[i];
      barrier(CLK_LOCAL_MEM_FENCE);
      y[i] = t[n - 1 - i];
    }`,
  ).build();
  using buffer = new Buffer(context, 16, { data: new Int32Array([1, 2, 3, 4]) });
  using kernel = built.kernel("reverse");
  queue.run(kernel, { global: [4], local: [4], args: [buffer, { local: 16 }] }).release();
  assertEquals(await contentOf(buffer, new Int32Array(4)), [4, 3, 2, 1]);
});

testOpenCL("Kernel: clone keeps the arguments that are set", async () => {
  using buffer = new Buffer(context, 4);
  using kernel = program.kernel("put");
  kernel.setArgs([buffer, 5]);
  using copy: Kernel = kernel.clone();
  kernel.setNumber(1, 6);
  queue.run(copy, { global: [1] }).release();
  assertEquals(await contentOf(buffer, new Int32Array(1)), [5]);
});

testOpenCL("Kernel: a launch with memory that was released since it was set is refused", () => {
  const buffer = new Buffer(context, 4);
  using kernel = program.kernel("put");
  kernel.setArgs([buffer, 5]);
  buffer.release();
  assertThrows(() => queue.run(kernel, { global: [1] }), DisposedError, "Buffer");
});

testOpenCL("Kernel keeps what its arguments refer to from the collector", async () => {
  using kernel = program.kernel("put");
  const before = leakedObjects().Buffer;
  (() => kernel.setArgs([new Buffer(context, 4), 5]))();
  for (let turn = 0; turn < 5; turn++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assertEquals(leakedObjects().Buffer, before);
  queue.run(kernel, { global: [1] }).release();
  await queue.finish();
});
