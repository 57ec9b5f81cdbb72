import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer, MemFlags, OpenCLError } from "../../../ffi/mod.ts";
import { contentOf, context, device, hasOpenCL, queue, testOpenCL } from "../fixture.ts";

testOpenCL("Buffer takes its first content from an array", async () => {
  using buffer = new Buffer(context, 8, {
    data: new Int32Array([1, 2]),
    flags: MemFlags.READ_ONLY,
  });
  assertEquals(buffer.flags, MemFlags.READ_ONLY | MemFlags.COPY_HOST_PTR);
  assertEquals(await contentOf(buffer, new Int32Array(2)), [1, 2]);
  assertThrows(() => new Buffer(context, 9, { data: new Uint8Array(8) }), RangeError, "8 bytes");
});

testOpenCL("Buffer can live in an array of JavaScript", () => {
  const data = new Int32Array(new SharedArrayBuffer(4096));
  using buffer = new Buffer(context, 4096, { data, flags: MemFlags.USE_HOST_PTR });
  assert(buffer.usesHostMemory);
  queue.fill(buffer, new Int32Array([4])).release();
  using region = queue.map(buffer, { write: false });
  assertEquals(region.bytes.length, 4096);
  assertEquals([data[0], data[1023]], [4, 4]);
});

testOpenCL("Buffer says what is wrong with a size", () => {
  const error = assertThrows(() => new Buffer(context, 0), OpenCLError);
  assertEquals([error.code, error.codeName, error.call], [
    -61,
    "CL_INVALID_BUFFER_SIZE",
    "clCreateBuffer",
  ]);
  assert(error.message.includes("a buffer of 0 bytes"), error.message);
  for (const nbytes of [-1, 1.5, NaN, 2 ** 60]) {
    assertThrows(() => new Buffer(context, nbytes), RangeError, String(nbytes));
  }
});

Deno.test({
  name: "Buffer: one that is too large, and a part that is misaligned, have codes of their own",
  // NVIDIA accepts both, and fails at the first use.
  ignore: !hasOpenCL || device.platform.name.includes("NVIDIA"),
  fn() {
    const tooLarge = () => new Buffer(context, 2 * device.maxMemAllocSize);
    assertEquals(assertThrows(tooLarge, OpenCLError).codeName, "CL_INVALID_BUFFER_SIZE");
    using buffer = new Buffer(context, 1 << 16);
    const misaligned = () => buffer.subBuffer(1, 16);
    assertEquals(assertThrows(misaligned, OpenCLError).codeName, "CL_MISALIGNED_SUB_BUFFER_OFFSET");
  },
});
