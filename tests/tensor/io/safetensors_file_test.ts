import { assert, assertEquals, assertRejects } from "@std/assert";
import { FileFormatError, loadSafetensors } from "../../../tensor/io/mod.ts";
import { SafetensorsFile } from "../../../tensor/io/safetensors_file.ts";
import { encodeSafetensors } from "../../../tensor/io/safetensors_format.ts";
import type { HostArray } from "../../../tensor/io/core/host_array.ts";
import "../../../tensor/mod.ts";
import "../../opencl.ts";
import { inFolder } from "../../temporary_folder.ts";
import { pathToFileURL } from "node:url";

const floats = (...values: number[]): HostArray => ({
  data: Float32Array.from(values),
  shape: [values.length],
  dtype: "float32",
});

/** The bytes before the data: the length of the header, and the header. */
function headerOf(entries: object): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(entries)), length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  return new Uint8Array([...length, ...text]);
}

/** A folder with two files and an index; `change` may spoil the index. */
async function withIndex(
  fn: (index: string, folder: string) => Promise<void>,
  map: Record<string, unknown> = { a: "1.safetensors", b: "2.safetensors", c: "1.safetensors" },
): Promise<void> {
  await inFolder(async (folder) => {
    const index = `${folder}/model.safetensors.index.json`;
    const first = encodeSafetensors({ a: floats(1), c: floats(3) });
    await Deno.writeFile(`${folder}/1.safetensors`, first);
    await Deno.writeFile(`${folder}/2.safetensors`, encodeSafetensors({ b: floats(2, 2) }));
    await Deno.writeTextFile(index, JSON.stringify({ metadata: {}, weight_map: map }));
    await fn(index, folder);
  });
}

Deno.test("SafetensorsFile opens the files that an index names, loadSafetensors loads them", async () => {
  await withIndex(async (index, folder) => {
    using file = await SafetensorsFile.open(index);
    assertEquals([...file.tensors.keys()].sort(), ["a", "b", "c"]);
    assertEquals((await file.decode("b")).data, Float32Array.of(2, 2));
    await assertRejects(async () => await file.decode("d"), RangeError, '"d"');
    for (const path of [index, pathToFileURL(index)]) {
      const tensors = await loadSafetensors(path, { device: "cpu" });
      assertEquals(await tensors.c!.toArray(), [3]);
      for (const tensor of Object.values(tensors)) tensor.dispose();
    }
    using one = await SafetensorsFile.open(`${folder}/2.safetensors`);
    assertEquals([...one.tensors.keys()], ["b"]);
  });
});

Deno.test("SafetensorsFile: an index that lies, or leads out of its folder, is a FileFormatError", async () => {
  const odd: [map: Record<string, unknown> | null, says: string][] = [
    [{ a: "1.safetensors", z: "1.safetensors" }, '"z"'],
    [{ a: "../1.safetensors" }, "beside it"],
    [{ a: "/etc/passwd" }, "beside it"],
    [{ a: 1 }, "beside it"],
    [null, "weight_map"],
  ];
  for (const [map, says] of odd) {
    await withIndex(async (index) => {
      await assertRejects(() => SafetensorsFile.open(index), FileFormatError, says);
    }, map as Record<string, unknown>);
  }
});

Deno.test("SafetensorsFile reads the bytes of the tensor that is asked for, not the file", async () => {
  await inFolder(async (folder) => {
    // A file with a hole: 8 GB that nobody has written.
    const header = headerOf({
      big: { dtype: "F32", shape: [2 ** 31], data_offsets: [0, 2 ** 33] },
      last: { dtype: "F32", shape: [1], data_offsets: [2 ** 33, 2 ** 33 + 4] },
    });
    const path = `${folder}/large.safetensors`;
    {
      using file = await Deno.open(path, { write: true, create: true });
      await file.write(header);
      await file.seek(header.length + 2 ** 33, Deno.SeekMode.Start);
      await file.write(new Uint8Array(Float32Array.of(5).buffer));
    }
    using file = await SafetensorsFile.open(path);
    assertEquals((await file.decode("last")).data, Float32Array.of(5));
  });
});

Deno.test("SafetensorsFile: floats of 8 bits become float16, which holds each of them", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, k) => k);
  const header = headerOf({
    e4: { dtype: "F8_E4M3", shape: [256], data_offsets: [0, 256] },
    e5: { dtype: "F8_E5M2", shape: [256], data_offsets: [256, 512] },
  });
  await inFolder(async (folder) => {
    const path = `${folder}/bytes.safetensors`;
    await Deno.writeFile(path, new Uint8Array([...header, ...bytes, ...bytes]));
    using file = await SafetensorsFile.open(path);
    const decode = (byte: number, exponents: number, bias: number) => {
      const mantissas = 7 - exponents, sign = byte > 127 ? -1 : 1;
      const e = (byte & 127) >> mantissas, m = (byte & 2 ** mantissas - 1) / 2 ** mantissas;
      return sign * (e === 0 ? m * 2 ** (1 - bias) : (1 + m) * 2 ** (e - bias));
    };
    const e4 = (await file.decode("e4")).data as Float16Array;
    const e5 = (await file.decode("e5")).data as Float16Array;
    assert(e4 instanceof Float16Array && e5 instanceof Float16Array);
    for (const byte of bytes) {
      const low = byte & 127;
      assertEquals(e4[byte], low === 127 ? NaN : decode(byte, 4, 7), `E4M3 ${byte}`);
      const five = low > 124 ? NaN : low === 124 ? (byte > 127 ? -1 : 1) * Infinity : null;
      assertEquals(e5[byte], five ?? decode(byte, 5, 15), `E5M2 ${byte}`);
    }
  });
});
