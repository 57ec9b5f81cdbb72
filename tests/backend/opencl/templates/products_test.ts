import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { noGrad, Tensor, withDevice } from "../../../../mod.ts";
import { hostTarget, type Target } from "../../../../backend/kernel/target.ts";
import { planningRules } from "../../../../backend/opencl/runtime/device_target.ts";
import { testOnOpenCL, testOpenCL } from "../../../opencl.ts";
import { templateOf, textOf } from "./chosen_template.ts";
import { assertNear } from "../../near.ts";
import { assertSameOnBoth } from "../both.ts";

testOnOpenCL("a long sum with few results is computed in parts, with what follows it", async () => {
  const n = 60_000;
  const a = Tensor.arange(n * 4).remainder(3).reshape([n, 4]).cast("float32").realize();
  const b = Tensor.arange(n * 20).remainder(5).reshape([n, 20]).cast("float32").realize();
  const bias = Tensor.arange(20).cast("float32");
  const product = a.transpose().matmul(b).add(bias).mul(2);
  assertStringIncludes(product.explain(), "_part");
  const result = await product.toHost();
  for (const [i, j] of [[0, 0], [1, 7], [3, 19]] as const) {
    let sum = 0;
    for (let k = 0; k < n; k++) sum += ((k * 4 + i) % 3) * ((k * 20 + j) % 5);
    assertEquals(result[i * 20 + j], (sum + j) * 2);
  }
});

testOnOpenCL("a sum of a prime number of terms is computed in one", async () => {
  const n = 65_537;
  const a = Tensor.ones([n, 4]).realize();
  const product = a.transpose().matmul(a);
  assertEquals([...await product.toHost("float32")], new Array(16).fill(n));
});

/** Small whole numbers: every order of summation gives the same floats. */
function whole(shape: readonly number[], factor: number): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: size }, (_, k) => (k * factor) % 5 - 2);
  return Tensor.fromHost(values).reshape([...shape]).realize();
}

const processor: Target = {
  ...hostTarget,
  localMemory: 2 ** 21,
  computeUnits: 2,
  vectorWidth: 16,
  ...planningRules(false, 2, 4096),
};

/** A linear layer: rows of weights lie along the sum. */
function linear([m, k, n]: readonly [number, number, number], activate: boolean): Tensor {
  const y = whole([m, k], 3).matmul(whole([n, k], 7).transpose()).add(whole([n], 2));
  return activate ? y.mul(0.125).gelu() : y;
}

Deno.test("columns along a sum are transposed for many rows, or for what follows them", () => {
  const chosen = (size: readonly [number, number, number], activate = false): string =>
    templateOf(() => linear(size, activate), processor);
  assertEquals(chosen([768, 128, 512]), "register-tiled gemm");
  assertEquals(chosen([16, 784, 256]), "inner-product gemm");
  assertEquals(chosen([16, 784, 256], true), "register-tiled gemm");
  assertEquals(chosen([768, 128, 10]), "inner-product gemm");
  assertEquals(chosen([768, 12, 64]), "inner-product gemm");
});

testOpenCL("products of transposed columns have the values of the built-in backend", async () => {
  const sizes = [[64, 64, 64], [100, 70, 65], [33, 17, 90], [9, 31, 47]] as const;
  for (const [k, size] of sizes.entries()) {
    const activate = k % 2 === 1;
    const values = (device: string) =>
      withDevice(device, () => noGrad(() => linear(size, activate).toHost("float32")));
    assertNear(await values("cl"), await values("cpu"), activate ? 1e-5 : 0, `${size}`);
  }
});

/** The gradient of the weights of a layer of so many inputs and outputs, from so many rows. */
function weightGradient([rows, inputs, outputs]: readonly [number, number, number]): Tensor {
  return whole([rows, outputs], 3).transpose().matmul(whole([rows, inputs], 7));
}

Deno.test("rows of a weight's gradient are packed where its terms are apart", () => {
  const isPacked = (size: readonly [number, number, number]): boolean =>
    / pack_row\(l0 \+ .*, 8, /.test(textOf(() => weightGradient(size), processor));
  assertEquals([isPacked([768, 128, 512]), isPacked([768, 128, 128])], [true, true]);
  assertEquals([isPacked([768, 512, 512]), isPacked([768, 512, 128])], [true, false]);
  assertEquals([isPacked([768, 128, 48]), isPacked([32, 128, 512])], [false, false]);
});

Deno.test("rows of a share that is moved back lie in panels at places that the text knows", () => {
  const text = textOf(() => weightGradient([64, 400, 120]), processor);
  assert(/ pack_row\(l0 \+ .*, 16, /.test(text));
  // A remainder by the panel for each row is an address for each row, computed for each term.
  assert(!text.includes("& 15"));
});

Deno.test("vectors that are read where they lie are asked for before their turn", () => {
  const text = (size: readonly [number, number, number]): string =>
    textOf(() => weightGradient(size), processor);
  assert(/prefetch_16\(a1 \+ \(u\d+ \+ 16\)\)/.test(text([768, 128, 512])));
  // Packed columns lie side by side.
  assert(!text([768, 512, 96]).includes("prefetch_16"));
});

testOpenCL("products by images, with results across, of long sums are transposed, too", () => {
  const make: Record<string, () => Tensor> = {
    "many images": () => whole([3, 40, 20], 3).matmul(whole([3, 35, 20], 7).transpose(1, 2)),
    "results across": () =>
      whole([50, 24], 3).matmul(whole([36, 24], 7).transpose()).transpose().exp2().contiguous(),
    "heads": () =>
      whole([2 * 20, 48], 3).matmul(whole([96, 48], 7).transpose()).reshape([2, 20, 6, 16])
        .transpose(1, 2).contiguous(),
    "rows apart": () => weightGradient([67, 100, 75]).relu(),
    "rows apart, of half a type": () =>
      weightGradient([129, 70, 96]).cast("bfloat16").mul(0.5).relu(),
    "rows far apart": () => weightGradient([70, 75, 520]).relu(),
    "rows far apart, of a long sum": () => weightGradient([1111, 128, 545]),
    "rows and columns far apart": () => weightGradient([131, 520, 549]),
    "rows far apart, of images": () =>
      whole([3, 66, 518], 3).transpose(1, 2).matmul(whole([3, 66, 64], 7)),
    "a sum in parts": () => whole([16, 9000], 3).matmul(whole([16, 9000], 7).transpose()).relu(),
  };
  assertSameOnBoth(make);
});

Deno.test("one row, one column or one channel is computed in tiles, too", () => {
  const chosen = (make: () => Tensor): string => templateOf(make, processor);
  assertEquals(chosen(() => whole([1, 200], 3).matmul(whole([200, 90], 7))), "register-tiled gemm");
  assertEquals(chosen(() => whole([90, 200], 3).matmul(whole([200, 1], 7))), "inner-product gemm");
  const image = (): Tensor => whole([2, 8, 12, 12], 3),
    weight = (): Tensor => whole([1, 8, 3, 3], 7);
  assertEquals(chosen(() => image().conv2d(weight())), "register-tiled gemm");
  assertEquals(chosen(() => image().conv2d(weight(), { padding: 1 })), "direct convolution");
});

testOpenCL("products with a vector and convolutions to one channel are the reference's", () => {
  const cases: Record<string, () => Tensor> = {
    "row by matrix": () => whole([1, 210], 3).matmul(whole([210, 77], 7)),
    "row by transposed matrix": () => whole([1, 210], 3).matmul(whole([77, 210], 7).transpose()),
    "matrix by vector": () => whole([77, 210], 3).matmul(whole([210], 7)),
    "transposed matrix by vector": () => whole([210, 77], 3).transpose().matmul(whole([210], 7)),
    "dot product": () => whole([1, 5000], 3).matmul(whole([5000, 1], 7)),
    "batches of rows": () => whole([3, 1, 40], 3).matmul(whole([3, 40, 18], 7)),
    "to one channel": () => whole([2, 5, 9, 21], 3).conv2d(whole([1, 5, 3, 3], 7), { padding: 1 }),
    "to one channel, in steps": () =>
      whole([2, 5, 9, 21], 3).conv2d(whole([1, 5, 3, 3], 7), { stride: 2 }),
  };
  assertSameOnBoth(cases);
});
