import { assert, assertEquals } from "@std/assert";
import { Buffer } from "../../../ffi/mod.ts";
import { contentOf, context, queue, testOpenCL } from "../fixture.ts";

testOpenCL("MappedRegion: map shows the buffer's memory, and unmap detaches the view", async () => {
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
  const content = await contentOf(buffer, new Uint8Array(16));
  assertEquals(content, [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
});

testOpenCL("MappedRegion: a mapped view outlives the buffer's release", () => {
  const buffer = new Buffer(context, 1 << 16, { data: new Uint8Array(1 << 16).fill(6) });
  using region = queue.map(buffer);
  buffer.release();
  queue.finishSync();
  assert(region.bytes.every((value) => value === 6));
});
