/** Products of a few rows with packed weights: which template takes them, and a GPU's kernels. */
import { assert, assertEquals } from "@std/assert";
import { blockBytes } from "../../../../backend/formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../../backend/formats/block_formats.ts";
import { profiler, Tensor, withDevice } from "../../../../mod.ts";
import { realizeAll } from "../../../../tensor/execution/realization.ts";
import { testOpenCL } from "../../../opencl.ts";
import { withDeviceType } from "../fixture.ts";
import { gpuTarget, templateOf, textOf } from "./chosen_template.ts";

/** Largest error of the built-in backend, which rounds rows to 16 bits, in parts of the largest result. */
const ROUNDED = 2e-4;

/** A product of so many rows with a matrix of blocks. */
function product(format: BlockFormatName, rows: number, n: number, k: number): Tensor {
  const size = n * k / formatTable[format].elements * blockBytes(formatTable[format]);
  const bytes = Uint8Array.from(
    { length: size },
    (_, i) => (Math.imul(i, 2654435761) >>> 24) & 0x3b,
  );
  const host = Float32Array.from({ length: rows * k }, (_, i) => Math.sin(0.3 * i));
  const x = Tensor.fromHost(host, { shape: [rows, k] });
  return x.matmul(Tensor.fromBlocks(bytes, format).decodeBlocks(format, [n, k]).transpose()).add(1);
}

Deno.test("products of a few rows with blocks are one kernel: each weight is read in words, once", () => {
  const make = () => product("Q4_0", 2, 64, 256);
  assertEquals(templateOf(make), "packed gemv");
  assertEquals(templateOf(make, { ...gpuTarget, isGpu: false, vectorWidth: 16 }), "packed gemv");
  assertEquals(templateOf(() => product("Q4_K", 1, 8, 256)), "packed gemv");
  const text = textOf(make, gpuTarget);
  const words = text.match(/global const uint\*/g)!.length;
  assertEquals(words, 4, "a word for each of the item's columns, whatever the rows");
  assert(text.includes("WARP_XOR_float") && !text.includes("barrier"));
  const local = textOf(make, { ...gpuTarget, warps: false, matrixUnits: null });
  assert(local.includes("barrier") && !local.includes("WARP"));
});

Deno.test("CPUs multiply packed rows as whole numbers, in vectors of up to eight sums", () => {
  const dotOf = (format: BlockFormatName, vectorWidth: number): string | undefined =>
    textOf(() => product(format, 1, 64, 256), { ...gpuTarget, isGpu: false, vectorWidth })
      .match(/ dot_short\d+/)?.[0];
  for (const format of ["Q4_0", "Q4_1", "Q5_1", "Q5_K", "Q8_0"] as const) {
    const found = [16, 8, 4].map((width) => dotOf(format, width));
    assertEquals(found, [" dot_short16", " dot_short16", " dot_short8"], format);
  }
});

testOpenCL("a GPU's products with blocks are those of the built-in backend", async () => {
  for (const [format, rows] of [["Q4_0", 1], ["Q8_0", 3], ["Q6_K", 2]] as const) {
    const make = () => product(format, rows, 37, 512);
    const wanted = await withDevice("cpu", () => make().toHost("float32"));
    await withDeviceType("gpu", async () => {
      const found = await make().toHost();
      const scale = Math.max(...Array.from(wanted, Math.abs));
      wanted.forEach((v, k) => {
        const off = Math.abs(Number(found[k]) - v);
        assert(off <= ROUNDED * scale, `${format}[${k}]: ${found[k]} for ${v}`);
      });
    });
  }
});

testOpenCL("products of one row with several matrices of blocks share a launch", async () => {
  const sizes = [96, 160, 224, 37];
  const make = () => sizes.map((n) => product("Q4_1", 1, n, 256));
  const wanted = await withDevice("cpu", () => Promise.all(make().map((y) => y.toHost("float32"))));
  await withDevice("cl", async () => {
    const all = make();
    profiler.reset();
    realizeAll(all);
    // Rows that a group's work-items do not divide are another text.
    assert(profiler.counters().kernels <= 2, `${profiler.counters().kernels} launches`);
    for (const [k, y] of all.entries()) {
      const due = wanted[k]!, found = await y.toHost("float32");
      const scale = Math.max(...due.map(Math.abs));
      due.forEach((v, j) =>
        assert(Math.abs(found[j]! - v) <= ROUNDED * scale, `${sizes[k]}: ${j}`)
      );
    }
  });
});
