import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FileFormatError } from "../../../tensor/io/core/file_format_error.ts";
import { gunzip } from "../../../tensor/io/core/gzip.ts";
import { decodeIdx, loadIdx } from "../../../tensor/io/idx.ts";
import { assertHolds, expectedArray, fixtureNames, fixtureUrl, readFixture } from "./fixtures.ts";
import { inFolder } from "../../temporary_folder.ts";
import { testDamage } from "./arbitraries.ts";

for (const name of fixtureNames(".idx.gz")) {
  Deno.test(`loadIdx reads ${name}`, async () => {
    const array = await loadIdx(fixtureUrl(name));
    assertHolds(array, expectedArray(name), name);
    assertEquals(`${array.dtype}.idx.gz`, name);
  });
}

Deno.test("loadIdx reads a file that is not gzipped, by path or URL", async () => {
  const plain = await gunzip(readFixture("uint8.idx.gz"));
  await inFolder(async (folder) => {
    const path = `${folder}/plain`;
    await Deno.writeFile(path, plain);
    assertHolds(await loadIdx(path), expectedArray("uint8.idx.gz"), "plain");
    await Deno.writeFile(path, plain.subarray(0, 20));
    const { message } = await assertRejects(() => loadIdx(path), FileFormatError, "4 follow");
    assertEquals(message.startsWith(`Cannot read "${path}": `), true);
  });
});

const refused: Record<string, [bytes: number[], says: string]> = {
  "nothing": [[], "no IDX file"],
  "a magic number that is not zero": [[1, 0, 8, 0], "no IDX file"],
  "an unknown type": [[0, 0, 7, 0], "no IDX file"],
  "no number of axes": [[0, 0, 8], "no IDX file"],
  "a header that is cut": [[0, 0, 8, 2, 0, 0, 0, 1], "the file is cut"],
  "too few values": [[0, 0, 8, 1, 0, 0, 0, 2, 1], "takes 2 bytes: 1 follow"],
  "too many values": [[0, 0, 8, 1, 0, 0, 0, 1, 1, 1], "takes 1 bytes: 2 follow"],
  "a size beyond 2^53": [[0, 0, 14, 2, ...Array(8).fill(255)], "more than 2^53"],
};

for (const [what, [bytes, says]] of Object.entries(refused)) {
  Deno.test(`decodeIdx refuses ${what}`, () => {
    assertThrows(() => decodeIdx(Uint8Array.from(bytes)), FileFormatError, says);
  });
}

const files = () => Promise.all(fixtureNames(".idx.gz").map(readFixture).map((b) => gunzip(b)));
testDamage("decodeIdx", files, decodeIdx, 1000);
