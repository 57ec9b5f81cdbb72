import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { FileFormatError } from "../../../tensor/io/core/file_format_error.ts";
import { gunzip } from "../../../tensor/io/core/gzip.ts";
import { decodeIdx, loadIdx } from "../../../tensor/io/idx.ts";
import { assertHolds, expectedArray, fixtureNames, fixtureUrl, readFixture } from "./fixtures.ts";
import { assertOnlyFormatErrors, damaged } from "./arbitraries.ts";

const dtypes: Record<string, string> = {
  "uint8.idx.gz": "uint8",
  "int8.idx.gz": "int8",
  "int16.idx.gz": "int16",
  "float32.idx.gz": "float32",
  "float64.idx.gz": "float64",
};

for (const name of fixtureNames(".idx.gz")) {
  Deno.test(`loadIdx reads ${name}`, async () => {
    const array = await loadIdx(fixtureUrl(name));
    assertHolds(array, expectedArray(name), name);
    assertEquals(array.dtype as string, dtypes[name] ?? "int32");
  });
}

Deno.test("loadIdx reads a file that is not gzipped, by path or URL", async () => {
  const plain = await gunzip(readFixture("uint8.idx.gz"));
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeFile(path, plain);
    assertHolds(await loadIdx(path), expectedArray("uint8.idx.gz"), "plain");
    await Deno.writeFile(path, plain.subarray(0, 20));
    const { message } = await assertRejects(() => loadIdx(path), FileFormatError, "4 follow");
    assertEquals(message.startsWith(`Cannot read "${path}": `), true);
  } finally {
    await Deno.remove(path);
  }
});

const refused: Record<string, { bytes: number[]; says: string }> = {
  "nothing": { bytes: [], says: "no IDX file" },
  "a magic number that is not zero": { bytes: [1, 0, 8, 0], says: "no IDX file" },
  "an unknown type": { bytes: [0, 0, 7, 0], says: "no IDX file" },
  "no number of axes": { bytes: [0, 0, 8], says: "no IDX file" },
  "a header that is cut": { bytes: [0, 0, 8, 2, 0, 0, 0, 1], says: "the file is cut" },
  "too few values": { bytes: [0, 0, 8, 1, 0, 0, 0, 2, 1], says: "takes 2 bytes: 1 follow" },
  "too many values": { bytes: [0, 0, 8, 1, 0, 0, 0, 1, 1, 1], says: "takes 1 bytes: 2 follow" },
  "a size beyond 2^53": {
    bytes: [0, 0, 14, 2, 255, 255, 255, 255, 255, 255, 255, 255],
    says: "more than 2^53",
  },
};

for (const [what, { bytes, says }] of Object.entries(refused)) {
  Deno.test(`decodeIdx refuses ${what}`, () => {
    assertThrows(() => decodeIdx(Uint8Array.from(bytes)), FileFormatError, says);
  });
}

Deno.test("decodeIdx answers any damage with a FileFormatError or an array", async () => {
  const files = await Promise.all(fixtureNames(".idx.gz").map(readFixture).map((b) => gunzip(b)));
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), damaged(files)), (bytes) => {
      assertOnlyFormatErrors(() => decodeIdx(bytes));
    }),
    { numRuns: 1000 },
  );
});
