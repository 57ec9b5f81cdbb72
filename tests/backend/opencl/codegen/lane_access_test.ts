/** Lanes that are loaded and stored in part, as compilers without masked instructions have them. */
import { assertEquals } from "@std/assert";
import { preludeFor } from "../../../../backend/opencl/codegen/prelude.ts";
import { rawKernel, Tensor } from "../../../../mod.ts";
import { testOnOpenCL } from "../../../opencl.ts";

const arrays = {
  float: Float32Array,
  half: Float16Array,
  ushort: Uint16Array,
  int: Int32Array,
  uchar: Uint8Array,
};
/** Lanes that are loaded: the first of them, and the one behind the last. */
const bounds: readonly (readonly [low: number, high: number])[] = [
  ...Array.from({ length: 20 }, (_, k) => [0, k - 2] as const),
  ...[[-3, 7], [-20, 40], [2, 9], [5, 5], [1, 16], [-9, -2]] as const,
];
/** Elements of a row that is stored, of which the last is beside a vector. */
const ROW = 17;
/** Element from which is loaded. */
const FIRST = 32;

function textFor(T: string): string {
  const stored = T === "half" ? "float" : T;
  const text =
    `kernel void lanes(global const uchar* from, global const int* bounds, global float* loaded, global uchar* to) {
  const int k = get_global_id(0), low = bounds[2 * k], high = bounds[2 * k + 1];
  global const ${T}* p = (global const ${T}*)from + ${FIRST};
  global ${T}* q = (global ${T}*)to + ${ROW} * k;
  for (int i = 0; i < ${ROW} * (int)sizeof(${T}); ++i) ((global uchar*)q)[i] = 0;
  store_part_${T}(convert_${stored}16(load_part_${T}(p, 16)), q, high);
  vstore16(convert_float16(load_between_${T}(p, low, high)), 2 * k, loaded);
  vstore16(convert_float16(load_part_${T}(p, high)), 2 * k + 1, loaded);
}`;
  return `#undef CLANG_BUILTINS\n${preludeFor(text)}\n${text}`;
}

testOnOpenCL("part: lanes are loaded and stored in pieces, and nothing beside them", async () => {
  for (const [T, Numbers] of Object.entries(arrays)) {
    const numbers = Numbers.from(Array.from({ length: 2 * FIRST }, (_, k) => k + 1)),
      count = bounds.length;
    const lanes = rawKernel("lanes", {
      source: textFor(T),
      output: () => [
        { shape: [2 * count, 16], dtype: "float32" },
        { shape: [ROW * Numbers.BYTES_PER_ELEMENT * count], dtype: "uint8" },
      ],
      global: () => [count],
    });
    const [loaded, stored] = lanes(
      Tensor.fromHost(new Uint8Array(numbers.buffer)),
      Tensor.fromHost(Int32Array.from(bounds.flat())),
    );
    const row = (low: number, high: number, length: number): number[] =>
      Array.from({ length }, (_, k) => k >= low && k < Math.min(high, 16) ? FIRST + k + 1 : 0);
    const rows = bounds.flatMap(([low, high]) => [row(low, high, 16), row(0, high, 16)]);
    assertEquals(await loaded!.toArray(), rows, T);
    const kept = new Numbers((await stored!.toHost() as Uint8Array<ArrayBuffer>).buffer);
    assertEquals([...kept], bounds.flatMap(([, high]) => row(0, high, ROW)), T);
  }
});
