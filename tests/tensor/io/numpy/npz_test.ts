import { assert, assertEquals, assertRejects } from "@std/assert";
import { Tensor } from "../../../../mod.ts";
import { crc32 } from "../../../../tensor/io/archives/crc32.ts";
import { zipParts } from "../../../../tensor/io/archives/zip_writer.ts";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { encodeNpy } from "../../../../tensor/io/numpy/npy_format.ts";
import { decodeNpz, loadNpz, saveNpz } from "../../../../tensor/io/numpy/npz.ts";
import { testOnBackends } from "../../../opencl.ts";
import { testDamage } from "../arbitraries.ts";
import { assertHolds, expectedArrays, fixtureNames, fixtureUrl, readFixture } from "../fixtures.ts";

const files = fixtureNames(".npz").map(readFixture);

for (const name of fixtureNames(".npz")) {
  Deno.test(`decodeNpz reads NumPy's ${name}`, async () => {
    const arrays = await decodeNpz(readFixture(name)), expected = expectedArrays(name);
    assertEquals(Object.keys(arrays), Object.keys(expected));
    for (const [key, array] of Object.entries(arrays)) assertHolds(array, expected[key]!, key);
  });
}

testOnBackends("loadNpz reads what saveNpz wrote, and both keep names and types", async () => {
  const path = await Deno.makeTempFile({ suffix: ".npz" });
  const x = Tensor.arange(6, { dtype: "float32" }).reshape([2, 3]);
  await saveNpz(path, { x: x.transpose(), "n/ü": x.cast("int64"), mask: x.gt(2) });
  const back = await loadNpz(path);
  assertEquals(Object.keys(back), ["x", "n/ü", "mask"]);
  assertEquals(Object.values(back).map((t) => t.dtype as string), ["float32", "int64", "bool"]);
  assertEquals(await back.x!.toArray(), [[0, 3], [1, 4], [2, 5]]);
  assertEquals(await back.mask!.toNumbers(), [0, 0, 0, 1, 1, 1]);
  await Deno.remove(path);
});

Deno.test("saveNpz refuses what NumPy cannot hold, and leaves the former file", async () => {
  const path = await Deno.makeTempFile({ suffix: ".npz" });
  const one = Tensor.ones([1], { device: "cpu" });
  await saveNpz(path, { one });
  await assertRejects(() => saveNpz(path, { two: one.cast("bfloat16") }), TypeError, "bfloat16");
  assertEquals(Object.keys(await loadNpz(path, { device: "cpu" })), ["one"]);
  await Deno.remove(path);
});

async function archive(...entries: [string, Uint8Array][]): Promise<Uint8Array<ArrayBuffer>> {
  return await new Blob(await Array.fromAsync(zipParts(entries)) as BlobPart[]).bytes();
}

const array = encodeNpy({ data: Float32Array.of(1, 2), shape: [2], dtype: "float32" });

function changed(bytes: Uint8Array<ArrayBuffer>, at: number, ...values: number[]) {
  const copy = bytes.slice();
  copy.set(values, at < 0 ? copy.length + at : at);
  return copy;
}

Deno.test("decodeNpz leaves out folders that a tool has packed as entries", async () => {
  const arrays = await decodeNpz(await archive(["in/", new Uint8Array()], ["in/x.npy", array]));
  assertEquals(Object.keys(arrays), ["in/x"]);
});

Deno.test("decodeNpz says what is wrong with an archive", async () => {
  const good = await archive(["x.npy", array]), directory = -(22 + 46 + 5);
  const refused: Record<string, Uint8Array<ArrayBuffer>> = {
    "no directory at its end": new Uint8Array(100),
    'Entry "x.txt" is no array': await archive(["x.txt", array]),
    'Entry "x.npy": This is no .npy file': await archive(["x.npy", new Uint8Array(3)]),
    'two entries "x.npy"': await archive(["x.npy", array], ["x.npy", array]),
    "its checksum is another": changed(good, 30 + 5 + array.length - 1, 1),
    "is encrypted": changed(good, directory + 8, 1),
    "compressed by method 12": changed(good, directory + 10, 12),
    "its header is not where it should be": changed(good, directory + 42, 1),
    "damaged at entry 1 of 2": changed(good, -12, 2),
    "beyond its end": changed(good, directory + 20, 255, 255, 255, 1),
    "give a maxBytes larger than 1000": changed(readFixture("deflated.npz"), 0, 0x50),
  };
  for (const [says, bytes] of Object.entries(refused)) {
    await assertRejects(() => decodeNpz(bytes, { maxBytes: 1000 }), FileFormatError, says);
  }
});

Deno.test("an entry of an npz file expands to no more than its directory says", async () => {
  const bytes = readFixture("deflated.npz"), view = new DataView(bytes.buffer);
  let at = bytes.length - 22;
  at = view.getUint32(at + 16, true);
  view.setUint32(at + 24, 20, true);
  await assertRejects(() => decodeNpz(bytes), FileFormatError, "expands to more than 20 bytes");
});

Deno.test("loadNpz names the file that is no archive", async () => {
  const error = await assertRejects(() => loadNpz(fixtureUrl("bool.npy")), FileFormatError);
  assert(error.message.includes("bool.npy") && error.message.includes("ZIP"), error.message);
});

testDamage("decodeNpz", () => files, (bytes) => decodeNpz(bytes), 300);

Deno.test("crc32 gives the check value of its standard, also in parts", () => {
  const bytes = new TextEncoder().encode("123456789");
  assertEquals(crc32(bytes), 0xcbf43926);
  assertEquals(crc32(bytes.subarray(5), crc32(bytes.subarray(0, 5))), 0xcbf43926);
});
