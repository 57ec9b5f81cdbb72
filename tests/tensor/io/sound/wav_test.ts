import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { loadWav, saveWav, Tensor } from "../../../../mod.ts";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { decodeWav, encodeWav } from "../../../../tensor/io/sound/wav.ts";
import { testOnBackends } from "../../../opencl.ts";
import { testDamage } from "../arbitraries.ts";

const le = (value: number, bytes: number): number[] =>
  Array.from({ length: bytes }, (_, k) => Math.floor(value / 256 ** k) % 256);
const text = (word: string): number[] => [...new TextEncoder().encode(word)];

/** A file of one format, its samples as bytes. */
function wav(
  code: number,
  bits: number,
  channels: number,
  samples: number[],
  extra: number[] = [],
) {
  const block = channels * bits / 8;
  const format = [...le(code, 2), ...le(channels, 2), ...le(8000, 4), ...le(8000 * block, 4)];
  format.push(...le(block, 2), ...le(bits, 2), ...extra);
  const chunks = [...text("fmt "), ...le(format.length, 4), ...format];
  // A chunk of odd length in between, as editors leave their names.
  chunks.push(...text("LIST"), ...le(3, 4), 1, 2, 3, 0);
  chunks.push(...text("data"), ...le(samples.length, 4), ...samples);
  return Uint8Array.of(...text("RIFF"), ...le(chunks.length + 4, 4), ...text("WAVE"), ...chunks);
}

const bytesOf = (array: ArrayBufferView): number[] => [...new Uint8Array(array.buffer)];

const files: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  "8 bits": wav(1, 8, 1, [0, 128, 192]),
  "16 bits": wav(1, 16, 1, bytesOf(Int16Array.of(-32768, 0, 16384))),
  "24 bits": wav(1, 24, 1, [0, 0, 0x80, 0, 0, 0, 0, 0, 0x40]),
  "32 bits": wav(1, 32, 1, bytesOf(Int32Array.of(-(2 ** 31), 0, 2 ** 30))),
  "floats": wav(3, 32, 1, bytesOf(Float32Array.of(-1, 0, 0.5))),
  "doubles": wav(3, 64, 1, bytesOf(Float64Array.of(-1, 0, 0.5))),
  "the extensible format": wav(0xfffe, 16, 1, bytesOf(Int16Array.of(-32768, 0, 16384)), [
    ...[...le(22, 2), ...le(16, 2), ...le(0, 4), ...le(1, 16)],
  ]),
};

for (const [name, bytes] of Object.entries(files)) {
  Deno.test(`decodeWav reads samples of ${name}`, () => {
    const { data, shape, sampleRate } = decodeWav(bytes);
    assertEquals([[...data], shape, sampleRate], [[-1, 0, 0.5], [1, 3], 8000]);
  });
}

Deno.test("decodeWav tells channels apart, and reads what a cut recording holds", () => {
  const bytes = wav(1, 8, 2, [128, 0, 192, 64, 255, 1]);
  assertEquals([...decodeWav(bytes).data], [0, 0.5, 127 / 128, -1, -0.5, -127 / 128]);
  assertEquals(decodeWav(bytes.subarray(0, -3)).shape, [2, 1]);
});

testOnBackends("loadWav reads what saveWav wrote", async () => {
  const path = await Deno.makeTempFile({ suffix: ".wav" });
  const x = Tensor.rand([2, 100]).mul(2).sub(1);
  for (const [bits, atol] of [[16, 2 ** -15], [24, 2 ** -23], [32, 0]] as const) {
    await saveWav(path, x, { sampleRate: 44_100, bits });
    const { samples, sampleRate } = await loadWav(path);
    assertEquals([samples.shape as number[], sampleRate], [[2, 100], 44_100]);
    assertEquals(await samples.allClose(x, { rtol: 0, atol }), true, `${bits} bits`);
  }
  await saveWav(path, Tensor.fromHost([-2, 2]), { sampleRate: 8000 });
  assertEquals(await (await loadWav(path)).samples.toArray(), [[-1, 1 - 2 ** -15]]);
  const cube = Tensor.zeros([1, 1, 1]);
  const save = () => saveWav(path, cube, { sampleRate: 8000 });
  await assertRejects(save, RangeError, "(channels, frames)");
  await Deno.remove(path);
});

Deno.test("decodeWav says what is no sound", () => {
  const begin = files["8 bits"]!.slice(0, 12);
  const refused: Record<string, Uint8Array> = {
    "RIFF and WAVE": new Uint8Array(20),
    "before their format": Uint8Array.of(...begin, ...text("data"), ...le(0, 4)),
    "has no samples": files["8 bits"]!.slice(0, 40),
    "format 85 with 16 bits": wav(85, 16, 1, []),
    "0 channels": wav(1, 16, 0, []),
  };
  for (const [says, bytes] of Object.entries(refused)) {
    assertThrows(() => decodeWav(bytes), FileFormatError, says);
  }
});

const sources = () => [...Object.values(files), encodeWav(decodeWav(files["16 bits"]!))];
testDamage("decodeWav", sources, decodeWav, 1000);
