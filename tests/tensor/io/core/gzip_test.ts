import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { gzipSync } from "node:zlib";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { gunzip } from "../../../../tensor/io/core/gzip.ts";

function gzipped(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(gzipSync(bytes));
}

Deno.test("gunzip gives back what gzip took", async () => {
  await fc.assert(fc.asyncProperty(fc.uint8Array({ size: "large" }), async (bytes) => {
    assertEquals(await gunzip(gzipped(bytes)), bytes);
  }));
});

Deno.test("gunzip refuses a stream that is cut or damaged", async () => {
  const bytes = gzipped(Uint8Array.from({ length: 1000 }, (_, i) => (i * i) % 251));
  await assertRejects(() => gunzip(bytes.subarray(0, 100)), FileFormatError, "gzip stream");
  const damaged = bytes.slice();
  damaged[damaged.length - 6]! ^= 1; // the checksum
  await assertRejects(() => gunzip(damaged), FileFormatError, "gzip stream");
});

Deno.test("gunzip stops at maxBytes, before memory is short", async () => {
  const bomb = gzipped(new Uint8Array(2 ** 22));
  assertEquals(bomb.length < 5000, true);
  await assertRejects(() => gunzip(bomb, { maxBytes: 2 ** 20 }), FileFormatError, "maxBytes");
  assertEquals((await gunzip(bomb, { maxBytes: 2 ** 22 })).length, 2 ** 22);
});
