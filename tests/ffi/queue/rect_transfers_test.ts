import { assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "../../../ffi/mod.ts";
import { context, queue, testOpenCL } from "../fixture.ts";

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
