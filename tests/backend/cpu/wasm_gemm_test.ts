import { assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import type { Matrix } from "../../../backend/cpu/gemm.ts";
import { wasmGemm } from "../../../backend/cpu/wasm_gemm.ts";
import { makeTileModule } from "../../../backend/cpu/wasm_tile.ts";
import { Tensor, withDevice } from "../../../mod.ts";
import { schedule } from "../../../backend/graph/schedule.ts";
import { assertAgree, wasmBackend } from "./engines.ts";

/** A matrix of small whole numbers inside a larger array, so that every sum is exact. */
function matrix(rows: number, columns: number, isTransposed: boolean, seed: number): Matrix {
  const leading = (isTransposed ? rows : columns) + 3, offset = 5;
  const length = offset + leading * (isTransposed ? columns : rows);
  const data = Float32Array.from({ length }, (_, k) => ((k + seed) * 7919) % 7 - 3);
  return { data, offset, isTransposed, leading };
}

function element({ data, offset, isTransposed, leading }: Matrix, i: number, j: number): number {
  return Number(data[offset + (isTransposed ? j * leading + i : i * leading + j)]);
}

function assertProduct(m: number, n: number, k: number, left = false, right = false): void {
  const a = matrix(m, k, left, 1), b = matrix(k, n, right, 2), c = matrix(m, n, false, 3);
  const wanted = (c.data as Float32Array<ArrayBuffer>).slice();
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) sum += element(a, i, l) * element(b, l, j);
      wanted[c.offset + i * c.leading + j] = sum;
    }
  }
  wasmGemm().multiply({ dtype: "float32", m, n, k, a, b, c });
  assertEquals(c.data, wanted, `${m} x ${k} by ${k} x ${n}`);
}

Deno.test("a tile adds its product to what is there", () => {
  const { memory, tile } = makeTileModule();
  const floats = new Float32Array(memory.buffer);
  floats.set([1, 2, 3, 4], 0);
  floats.set([1, 10, 100, 1000, 2, 20, 200, 2000], 4);
  floats.fill(7, 12, 12 + 4 * 8);
  tile(0, 16, 48, 1, 32);
  assertEquals([...floats.subarray(12, 20)], [8, 17, 107, 1007, 9, 27, 207, 2007]);
  assertEquals([...floats.subarray(36, 44)], [11, 47, 407, 4007, 15, 87, 807, 8007]);
  assertEquals(floats[44], 0);
});

Deno.test("products of any size, layout and place are exact, and nothing else is written", () => {
  const size = fc.integer({ min: 1, max: 20 });
  fc.assert(fc.property(size, size, size, fc.boolean(), fc.boolean(), assertProduct));
});

Deno.test("products larger than a block are the sums of their blocks", () => {
  assertProduct(515, 9, 40);
  assertProduct(5, 521, 40, true, true);
  assertProduct(9, 11, 2050);
});

Deno.test("WebAssembly serves float32 alone, and the source says so", () => {
  withDevice("cpu", () => {
    const a = Tensor.ones([40, 40]).realize(), d = Tensor.ones([40, 40], { dtype: "float64" });
    const sourceOf = (t: Tensor): string => {
      const kernels = schedule([t.node]).kernels.map(({ kernel }) => kernel);
      return wasmBackend.prepare(kernels).map(({ source }) => source).join("\n");
    };
    assertStringIncludes(sourceOf(a.matmul(a)), "WebAssembly SIMD: 40 x 40 by 40 x 40");
    assertEquals(sourceOf(d.realize().matmul(d)).includes("WebAssembly"), false);
    const image = Tensor.randn([3, 8, 12, 12]).realize();
    const weight = Tensor.randn([16, 8, 3, 3]).realize();
    assertAgree(() => image.conv2d(weight, { padding: 1 }).relu());
  });
});
