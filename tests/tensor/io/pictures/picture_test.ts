import { assert, assertEquals, assertRejects } from "@std/assert";
import { loadImage, saveImage, Tensor } from "../../../../mod.ts";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { decodeImage, encodeImage } from "../../../../tensor/io/pictures/picture.ts";
import { testOnBackends } from "../../../opencl.ts";
import { type Bytes, joined } from "../../../fuzz/damage.ts";
import { png } from "../../../fuzz/structures.ts";
import { testDamage } from "../arbitraries.ts";
import expected from "./fixtures/expected.json" with { type: "json" };

const fixture = (name: string): URL => new URL(`./fixtures/${name}`, import.meta.url);
const bytesOf = (name: string): Uint8Array<ArrayBuffer> => Deno.readFileSync(fixture(name));

for (const [name, { shape, values }] of Object.entries(expected)) {
  Deno.test(`decodeImage reads ${name} as Pillow does`, async () => {
    const channels = shape[0] as 1 | 3 | 4;
    const image = await decodeImage(bytesOf(name), { channels });
    assertEquals([image.shape, image.dtype], [shape, "uint8"]);
    // Decoders of JPEG may round in two ways.
    const apart = name.endsWith("jpg") ? 2 : 0;
    values.forEach((v, k) => assert(Math.abs(v - Number(image.data[k])) <= apart, `${name}: ${k}`));
  });
}

Deno.test("decodeImage gives the channels that are asked for", async () => {
  const { values } = expected["gray.png"];
  const three = await decodeImage(bytesOf("gray.png"));
  const four = await decodeImage(bytesOf("gray.png"), { channels: 4 });
  assertEquals(Array.from(three.data, Number), [...values, ...values, ...values]);
  assertEquals(Array.from(four.data, Number).slice(105), new Array(35).fill(255));
  const gray = await decodeImage(bytesOf("rgb.png"), { channels: 1 });
  const [r, g, b] = [0, 35, 70].map((k) => expected["rgb.png"].values[k]!);
  assertEquals(gray.data[0], Math.round(0.299 * r! + 0.587 * g! + 0.114 * b!));
});

testOnBackends("loadImage reads what saveImage wrote", async (backend) => {
  const folder = await Deno.makeTempDir();
  for (const channels of [1, 3, 4] as const) {
    const x = Tensor.randint(0, 256, [channels, 4, 6]).cast("uint8");
    await saveImage(`${folder}/x.png`, x);
    const back = await loadImage(`${folder}/x.png`, { channels });
    assertEquals([back.dtype, back.backend, await back.equal(x)], ["uint8", backend, true]);
  }
  const ramp = Tensor.linspace(0, 1, 64).reshape([8, 8]);
  await saveImage(`${folder}/ramp.JPG`, ramp, { quality: 1 });
  const jpeg = (await loadImage(`${folder}/ramp.JPG`, { channels: 1 })).cast("float32").div(255);
  assert(await jpeg.squeeze().allClose(ramp, { atol: 0.02 }), "a JPEG of floats");
  await Deno.remove(folder, { recursive: true });
});

Deno.test("saveImage says what can be written", async () => {
  const x = Tensor.zeros([3, 2, 2], { device: "cpu" });
  await assertRejects(() => saveImage("x.webp", x), RangeError, "does not write it");
  await assertRejects(() => saveImage("x", x), RangeError, "names end in .png");
  await assertRejects(() => saveImage("x.png", x.reshape([2, 3, 2])), RangeError, "[2,3,2]");
  await assertRejects(() => saveImage("x.png", x.reshape([3, 4, 1, 1])), RangeError, "[3,4,1,1]");
});

Deno.test("decodeImage says why a picture cannot be read", async () => {
  const refused = (bytes: Uint8Array<ArrayBuffer>, why: string) =>
    assertRejects(() => decodeImage(bytes), FileFormatError, why);
  await refused(bytesOf("rgb16.png").slice(0, 60), "it has no end");
  await refused(new TextEncoder().encode("no picture"), "is no PNG, JPEG");
  const bytes = bytesOf("rgb.png");
  await refused(bytes.with(45, bytes[45]! ^ 1), "another sum");
  const { message } = await assertRejects(() => loadImage(import.meta.filename!), FileFormatError);
  assert(message.includes("picture_test."), message);
});

/** A picture with a chunk of a PNG changed, and its checksum right. */
function withChunk(name: string, at: number, change: (body: Bytes) => Bytes): Bytes {
  const parts = png.parts(bytesOf(name)), part = parts[at]!;
  return png.join(parts.with(at, joined([part.slice(0, 4), change(part.slice(4))])));
}

// The decoder of Deno 2.9 ends the process for these, or takes 4 GB for the last.
Deno.test("decodeImage survives pictures that end the runtime", async () => {
  const refused = (bytes: Uint8Array<ArrayBuffer>, why: string) =>
    assertRejects(() => decodeImage(bytes), FileFormatError, why);
  await refused(withChunk("pal.png", 1, (palette) => palette.slice(0, 1)), "no colour");
  const huge = (header: Bytes) => joined([Uint8Array.of(0x7f, 0xff, 0xff, 0xff), header.slice(4)]);
  await refused(withChunk("interlaced16.png", 0, huge), "which is no size");
  await refused(withChunk("rgba.png", 0, huge), "which is no size");
  const icon = [0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 8, 0, 90, 0, 0, 0, 22, 0, 0, 0];
  await refused(joined([Uint8Array.from(icon), bytesOf("pal.png")]), "is no PNG, JPEG");
  const gif = [...new TextEncoder().encode("GIF89a"), 255, 255, 255, 255, 0xf0, 0, 0];
  await refused(
    Uint8Array.from([...gif, 0x2c, 0, 0, 0, 0, 255, 255, 255, 255, 0]),
    "bytes cannot hold",
  );
  const small = bytesOf("pal.gif"),
    picture = small.findLastIndex((byte, k) => byte === 0x2c && k < 800);
  await refused(small.with(picture + 6, 255).with(picture + 8, 255), "bytes cannot hold");
  await refused(bytesOf("rgb.bmp").with(25, 1), "bytes cannot hold");
  // 16,000 pixels square in 366 bytes: the gray of what is missing.
  const jpeg = bytesOf("gray.jpg"),
    frame = jpeg.findIndex((byte, k) => byte === 0xff && jpeg[k + 1] === 0xc0);
  const sides = joined([
    jpeg.slice(0, frame + 5),
    Uint8Array.of(0x3e, 0x80, 0x3e, 0x80),
    jpeg.slice(frame + 9),
  ]);
  await refused(sides, "16000 times 16000 pixels, which 366 bytes cannot hold");
});

Deno.test("encodeImage writes the same PNG for the same pixels, and cuts what is out of range", async () => {
  const array = { data: Float32Array.of(-1, 0.5, 2), shape: [1, 3], dtype: "float32" } as const;
  const bytes = await encodeImage(array, "png");
  assertEquals(await encodeImage(array, "png"), bytes);
  const { data } = await decodeImage(bytes as Uint8Array<ArrayBuffer>, { channels: 1 });
  assertEquals([...data], [0, 128, 255]);
});

testDamage("decodeImage", () => Object.keys(expected).map(bytesOf), (b) => decodeImage(b), 200);
