import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { decodeGguf, GgufFile, loadGguf } from "../../../../tensor/io/gguf/gguf.ts";
import { testDamage } from "../arbitraries.ts";
import "../../../../tensor/mod.ts";
import "../../../opencl.ts";

const path = new URL("fixtures/blocks.gguf", import.meta.url);
const file = Deno.readFileSync(path);
const numbers = Deno.readFileSync(new URL("fixtures/blocks.bin", import.meta.url));
const expected = new Float32Array(numbers.buffer);

Deno.test("decodeGguf gives the bits that the package gguf decodes, for every type", () => {
  const { arrays } = decodeGguf(file);
  const types = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split(" ");
  assertEquals(Object.keys(arrays), types);
  const bitsOf = (x: Float32Array<ArrayBuffer>) => new Uint32Array(x.buffer);
  for (const [k, name] of types.entries()) {
    const { data, shape, dtype } = arrays[name]!;
    const isLong = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"].includes(name);
    assertEquals(shape, isLong ? [1, 256] : [2, 128], name);
    assertEquals(dtype, { F16: "float16", BF16: "bfloat16" }[name] ?? "float32" as string);
    const ours = bitsOf(Float32Array.from(data as Float32Array));
    assertEquals(ours, bitsOf(expected.slice(256 * k, 256 * (k + 1))), name);
  }
});

Deno.test("decodeGguf reads values of every type, whole numbers exactly", () => {
  const { metadata } = decodeGguf(file);
  const wholes = { u8: 200, i8: -3, u16: 60000, i16: -30000, u32: 4000000000, i32: -5, i64: -7 };
  const others = { u64: 2n ** 63n, f32: 0.5, f64: 0.1, bool: true, string: "grün" };
  const values = { ...wholes, ...others, array: ["x", "", "yz"], floats: [0.5, -1.5] };
  const named = Object.entries(values).map(([name, value]) => [`a.${name}`, value]);
  const due = { "general.architecture": "test", ...Object.fromEntries(named) };
  assertEquals({ ...metadata }, due);
});

Deno.test("loadGguf makes tensors; GgufFile reads one of them by itself", async () => {
  const { tensors, metadata } = await loadGguf(path, { device: "cpu" });
  assertEquals(metadata["a.string"], "grün");
  assertEquals(await tensors.Q4_K!.toHost(), expected.slice(10 * 256, 11 * 256));
  for (const tensor of Object.values(tensors)) tensor.dispose();
  using open = await GgufFile.open(path);
  assertEquals(open.tensors.get("Q6_K")!.type, "Q6_K");
  assertEquals((await open.decode("Q6_K")).data, expected.slice(12 * 256));
  await assertRejects(() => open.decode("none"), RangeError, '"none"');
});

Deno.test("loadGguf names the file and what is wrong with it", async () => {
  const other = new URL("fixtures/make.py", import.meta.url);
  const error = await assertRejects(() => loadGguf(other), FileFormatError);
  assert(error.message.includes("make.py") && error.message.includes('"GGUF"'), error.message);
  const refused = (change: (view: DataView) => void, message: string) => {
    const bytes = file.slice();
    change(new DataView(bytes.buffer));
    assertThrows(() => decodeGguf(bytes), FileFormatError, message);
  };
  refused((v) => v.setUint32(4, 3, false), "other byte order");
  refused((v) => v.setUint32(4, 1, true), "version 1");
  refused((v) => v.setBigUint64(8, 2n ** 60n, true), "the number of tensors");
  refused((v) => v.setBigUint64(16, 2n ** 40n, true), "The file ends within");
  assertThrows(() => decodeGguf(file.slice(0, file.length - 64)), FileFormatError, '"Q6_K"');
});

testDamage("decodeGguf", () => [file], (bytes) => decodeGguf(bytes).arrays, 1000);
