import { assert, assertEquals, assertRejects } from "@std/assert";
import { FileFormatError, loadSafetensors } from "../../../tensor/io/mod.ts";
import { SafetensorsFile } from "../../../tensor/io/safetensors_file.ts";
import { encodeSafetensors } from "../../../tensor/io/safetensors_format.ts";
import type { HostArray } from "../../../tensor/io/core/host_array.ts";
import "../../../tensor/mod.ts";
import "../../opencl.ts";

const floats = (...values: number[]): HostArray => ({
  data: Float32Array.from(values),
  shape: [values.length],
  dtype: "float32",
});

/** A folder with two files and an index; `change` may spoil the index. */
async function inFolder(
  fn: (index: string, folder: string) => Promise<void>,
  map: Record<string, unknown> = { a: "1.safetensors", b: "2.safetensors", c: "1.safetensors" },
): Promise<void> {
  const folder = await Deno.makeTempDir(), index = `${folder}/model.safetensors.index.json`;
  try {
    const first = encodeSafetensors({ a: floats(1), c: floats(3) });
    await Deno.writeFile(`${folder}/1.safetensors`, first);
    await Deno.writeFile(`${folder}/2.safetensors`, encodeSafetensors({ b: floats(2, 2) }));
    await Deno.writeTextFile(index, JSON.stringify({ metadata: {}, weight_map: map }));
    await fn(index, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("SafetensorsFile opens the files that an index names, loadSafetensors loads them", async () => {
  await inFolder(async (index, folder) => {
    using file = await SafetensorsFile.open(index);
    assertEquals([...file.tensors.keys()].sort(), ["a", "b", "c"]);
    assertEquals((await file.decode("b")).data, Float32Array.of(2, 2));
    await assertRejects(async () => await file.decode("d"), RangeError, '"d"');
    for (const path of [index, new URL(`file://${index}`)]) {
      const tensors = await loadSafetensors(path, { device: "cpu" });
      assertEquals(await tensors.c!.toArray(), [3]);
      for (const tensor of Object.values(tensors)) tensor.dispose();
    }
    using one = await SafetensorsFile.open(`${folder}/2.safetensors`);
    assertEquals([...one.tensors.keys()], ["b"]);
  });
});

Deno.test("SafetensorsFile: an index that lies, or leads out of its folder, is a FileFormatError", async () => {
  const odd: Record<string, [unknown, string]> = {
    missing: [{ a: "1.safetensors", z: "1.safetensors" }, '"z"'],
    outside: [{ a: "../1.safetensors" }, "beside it"],
    other: [{ a: "/etc/passwd" }, "beside it"],
    number: [{ a: 1 }, "beside it"],
    none: [null, "weight_map"],
  };
  for (const [map, message] of Object.values(odd)) {
    await inFolder(async (index) => {
      await assertRejects(() => SafetensorsFile.open(index), FileFormatError, message);
    }, map as Record<string, unknown>);
  }
});

Deno.test("SafetensorsFile reads the bytes of the tensor that is asked for, not the file", async () => {
  const folder = await Deno.makeTempDir();
  try {
    // A file with a hole: 8 GB that nobody has written.
    const header = new TextEncoder().encode(JSON.stringify({
      big: { dtype: "F32", shape: [2 ** 31], data_offsets: [0, 2 ** 33] },
      last: { dtype: "F32", shape: [1], data_offsets: [2 ** 33, 2 ** 33 + 4] },
    }));
    const path = `${folder}/large.safetensors`, prefix = new Uint8Array(8);
    new DataView(prefix.buffer).setBigUint64(0, BigInt(header.length), true);
    {
      using file = await Deno.open(path, { write: true, create: true });
      await file.write(prefix);
      await file.write(header);
      await file.seek(8 + header.length + 2 ** 33, Deno.SeekMode.Start);
      await file.write(new Uint8Array(Float32Array.of(5).buffer));
    }
    using file = await SafetensorsFile.open(path);
    assertEquals((await file.decode("last")).data, Float32Array.of(5));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("SafetensorsFile: floats of 8 bits become float16, which holds each of them", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, k) => k);
  const header = new TextEncoder().encode(JSON.stringify({
    e4: { dtype: "F8_E4M3", shape: [256], data_offsets: [0, 256] },
    e5: { dtype: "F8_E5M2", shape: [256], data_offsets: [256, 512] },
  }));
  const prefix = new Uint8Array(8), path = await Deno.makeTempFile();
  new DataView(prefix.buffer).setBigUint64(0, BigInt(header.length), true);
  await Deno.writeFile(path, new Uint8Array([...prefix, ...header, ...bytes, ...bytes]));
  try {
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
  } finally {
    await Deno.remove(path);
  }
});
