import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type DType, manualSeed, Tensor, withDevice } from "../../../../mod.ts";
import type { GemmHost } from "../../../../backend/cpu/blas/gemm_runner.ts";
import type { HostBlock } from "../../../../backend/cpu/script/runner.ts";
import { contractionRunner } from "../../../../backend/cpu/wasm/products/contraction.ts";
import { WasmRuntime } from "../../../../backend/cpu/wasm/runtime.ts";
import { HostPool } from "../../../../memory/mod.ts";
import {
  assertAgree,
  compute,
  learned,
  normal,
  numbersOf,
  sourcesOf,
  wasmBackend,
} from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";
import { assertNear } from "../../near.ts";
import { contractionsOf } from "../../loop_kernels.ts";

/** Small whole numbers, so that every sum is exact. */
function whole(shape: readonly number[], seed = 0, dtype: DType = "float32"): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float64Array.from({ length: size }, (_, k) => ((k + seed) * 7919 % 7) - 3);
  return Tensor.fromHost(values, { shape }).cast(dtype).realize();
}

function assertProduct(m: number, n: number, k: number, left = false, right = false): void {
  const a = left ? whole([k, m], 1).transpose() : whole([m, k], 1);
  const b = right ? whole([n, k], 2).transpose() : whole([k, n], 2);
  const [x, y] = [a, b].map((t) => t.toHostSync()) as [Float32Array, Float32Array];
  const wanted = new Float32Array(m * n);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) sum += x[i * k + l]! * y[l * n + j]!;
      wanted[i * n + j] = sum;
    }
  }
  assertNear(numbersOf(a.matmul(b)), wanted, 0, `${m} x ${k} by ${k} x ${n}`);
}

testOnCPU("products larger than a block are the sums of their blocks", () => {
  assertProduct(101, 9, 1030);
  assertProduct(5, 521, 40, true, true);
  assertProduct(97, 264, 520);
  assertProduct(1, 300, 700, false, true);
  assertProduct(130, 6, 515, true);
});

testOnCPU("many rows by a large matrix: shared lines, panels of it, its rows transposed", () => {
  for (const left of [false, true]) {
    assertProduct(331, 131, 301, left);
    assertProduct(323, 136, 258, left, true);
    assertProduct(64, 67, 30, left, true);
  }
});

testOnCPU("sums of any number of terms are those of all of them, unrolled or not", () => {
  for (let k = 1; k <= 140; k++) {
    assertProduct(6, 8, k);
    assertProduct(13, 11, k, true);
    if (k % 5 === 0) assertProduct(2, 17, k, false, true);
  }
});

testOnCPU("every rest of a tile is computed, and nothing around it is written", () => {
  for (let rest = 0; rest < 6; rest++) {
    for (const n of [8, 13, 16]) {
      assertProduct(12 + rest, n, 11);
      assertProduct(6 + rest, n, 12, true, true);
    }
  }
});

testOnCPU("batches, some of them broadcast, are products of their own", () => {
  assertAgree(() => whole([3, 2, 13, 9]).matmul(whole([3, 2, 9, 17], 3)));
  assertAgree(() => whole([3, 2, 13, 9]).matmul(whole([2, 9, 17], 3)));
  assertAgree(() => whole([3, 1, 13, 9]).matmul(whole([1, 4, 17, 9], 3).transpose()));
});

testOnCPU("windows of images are read where they are", () => {
  const image = whole([3, 8, 13, 12]), weight = whole([16, 8, 3, 3], 5);
  const convolved = () => image.conv2d(weight, { padding: 1, stride: 2 }).relu();
  assertAgree(convolved);
  const source = sourcesOf(convolved()).join("\n");
  assertStringIncludes(source, "WebAssembly SIMD: 3 times 42 x 72 by 72 x 16, float32");
  assertAgree(() => image.conv2d(whole([6, 4, 2, 3], 1), { groups: 2, dilation: 2 }));
});

testOnCPU("windows of few channels are columns that a table finds: none are copied", () => {
  const sizes = [[16, 16, 9, 16], [3, 7, 5, 24], [20, 5, 8, 8]] as const;
  for (const [channels, filters, height, width] of sizes) {
    const image = whole([2, channels, height + 2, width + 2]);
    const weight = whole([filters, channels, 3, 3], 5);
    const convolved = () => image.conv2d(weight).add(1);
    assertAgree(convolved);
    const source = sourcesOf(convolved()).join("\n"), k = 9 * channels;
    const text = `2 times ${filters} x ${k} by ${k} x ${height * width}, float32\n`;
    assertStringIncludes(source, text);
  }
});

/** Memory of the backend with what tensors hold. */
function blocksOf(tensors: readonly Tensor[]) {
  return tensors.map((tensor) => {
    const bytes = new Uint8Array(tensor.toHostSync().buffer as ArrayBuffer);
    const block = wasmBackend.memory.allocate(bytes.length);
    wasmBackend.write(block, bytes);
    return block;
  });
}

/** A host of products that lends scratch memory of a pool. */
function hostWith(allocate: (nbytes: number) => HostBlock & Disposable): GemmHost {
  return {
    compile: () => ({ source: "", run() {} }),
    othersWorked() {},
    withScratch(_, size, use) {
      using block = allocate(4 * size);
      return use(block);
    },
  };
}

testOnCPU("a product for which that memory has no room is computed in other memory", () => {
  const { memory, strategy } = wasmBackend, elsewhere = new HostPool();
  const [a, b] = [whole([20, 30], 1, "float16"), whole([30, 17], 2, "float16")];
  const [kernel] = contractionsOf(() => a.matmul(b)), inputs = blocksOf([a, b]);
  const output = memory.allocate(4 * 20 * 17);
  let asked = 0;
  const full = hostWith((nbytes) => (asked++, elsewhere.allocate(nbytes)));
  const runner = contractionRunner(kernel!, strategy.wasm!, full)!;
  assertEquals([runner.run(inputs, [output]), asked > 0], [false, true]);
  for (const block of [...inputs, output]) block.release();
});

testOnCPU("half floats are multiplied as floats", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    assertAgree(() => whole([20, 30], 1, dtype).matmul(whole([30, 17], 2, dtype)).add(1));
  }
});

testOnCPU("tiles are the same in engines that give a module no memory of its own", () => {
  const { memory, strategy } = wasmBackend, { memory: shared } = strategy.wasm!;
  const host = hostWith((nbytes) => memory.allocate(nbytes));
  for (const [m, n, k] of [[20, 17, 300], [3, 16, 40], [64, 64, 144]] as const) {
    const a = whole([m, k], 1), b = whole([k, n], 2), product = a.matmul(b);
    const [kernel] = contractionsOf(() => product), inputs = blocksOf([a, b]);
    const found = [true, false].map((hasPrivatePages) => {
      const runtime = new WasmRuntime(shared, 2, { relaxed: false, hasPrivatePages });
      const output = memory.allocate(4 * m * n), sums = new Float32Array(m * n);
      assert(contractionRunner(kernel!, runtime, host)!.run(inputs, [output]));
      wasmBackend.readSync(output, new Uint8Array(sums.buffer));
      output.release();
      return sums;
    });
    assertEquals(found[1], found[0]);
    assertEquals([...found[0]!], compute(wasmBackend, a.matmul(b)));
    for (const block of inputs) block.release();
  }
});

testOnCPU("sums of any length are those of their pieces, however the left operand lies", () => {
  const lengths = [1, 15, 16, 17, 31, 32, 127, 128, 129, 144, 160, 255, 257, 4097, 16_384, 16_385];
  for (const k of lengths) {
    assertProduct(13, 19, k);
    assertProduct(13, 19, k, true);
    assertProduct(13, 16, k, false, true);
  }
});

Deno.test("a single row or column is added up by itself, with what follows it", () => {
  const makes: readonly (() => Tensor)[] = [
    () => whole([2, 8, 12, 13]).conv2d(whole([1, 8, 3, 3], 5), { padding: 1 }).sigmoid(),
    () => whole([5, 1, 40]).bmm(whole([5, 40, 33], 3)).add(1),
    () => whole([70, 90]).matmul(whole([90], 3)).relu(),
    () => whole([3, 4, 30]).conv1d(whole([4, 1, 3], 1), { groups: 4 }),
    () => {
      const few = learned(whole([2, 1, 9, 11]).detach());
      few.conv2d(whole([6, 1, 4, 4], 2), { stride: 2 }).square().sum().backward();
      return few.grad!;
    },
  ];
  withDevice("cpu", () => {
    for (const make of makes) assertAgree(make);
    assert(sourcesOf(makes[1]!()).every((source) => !source.includes("WebAssembly SIMD")));
  });
});

testOnCPU("what follows a product is computed in its parts: biases, residuals, rests", () => {
  for (const [m, n, k] of [[37, 41, 19], [6, 200, 300], [130, 7, 64], [64, 96, 40]] as const) {
    const of = (dtype: DType, isTransposed: boolean): Tensor => {
      manualSeed(9);
      const [a, b] = [normal([m, k], dtype), normal([k, n], dtype)];
      const [rows, columns] = [normal([m, 1], dtype), normal([n], dtype)];
      const beside = normal([m, n], dtype);
      const y = a.matmul(b).add(rows).mul(columns).clamp(-3, 5);
      return isTransposed ? y.transpose().contiguous() : y.add(beside);
    };
    for (const isTransposed of [false, true]) {
      const y = of("float32", isTransposed);
      const source = sourcesOf(y).join("\n");
      assert(source.includes("in the same parts"), source);
      assertNear(numbersOf(y), numbersOf(of("float64", isTransposed)), 2e-4, `${[m, n, k]}`);
    }
  }
});
