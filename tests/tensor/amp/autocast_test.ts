import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { amp, type DType, manualSeed, nn, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const halves = ["float16", "bfloat16"] as const;

testOnBackends("under autocast products are narrow, and what needs range is wide", () => {
  const x = Tensor.ones([2, 3, 4, 4]), k = Tensor.ones([5, 3, 3, 3]), b = Tensor.ones([5]);
  const narrow: Record<string, () => Tensor> = {
    matmul: () => x.matmul(Tensor.ones([4, 2])),
    "matmul of vectors": () => Tensor.ones([4]).matmul(Tensor.ones([4])),
    conv2d: () => x.conv2d(k, { bias: b }),
    Linear: () => new nn.Linear(4, 2).forward(x),
  };
  const labels = Tensor.fromHost(Int32Array.of(0, 1));
  const methods = ["exp", "log", "sum", "variance", "softmax", "logSoftmax", "logSumExp"] as const;
  const wide: Record<string, (h: Tensor) => Tensor> = {
    ...Object.fromEntries(methods.map((name) => [name, (h: Tensor) => h[name]()])),
    pow: (h) => h.pow(3),
    mean: (h) => h.mean(1),
    cumsum: (h) => h.cumsum(0),
    crossEntropy: (h) => h.crossEntropy(labels),
    mse: (h) => nn.mse(h, h),
    bceWithLogits: (h) => nn.bceWithLogits(h, h),
  };
  const kept: Record<string, (h: Tensor) => Tensor> = {
    relu: (h) => h.relu(),
    add: (h) => h.add(1),
    max: (h) => h.max(1),
    LayerNorm: (h) => new nn.LayerNorm(3).forward(h),
  };
  for (const dtype of halves) {
    const h = Tensor.ones([2, 3], { dtype });
    const check = (name: string, t: Tensor, expected: DType) =>
      assertEquals(t.dtype, expected, `${name} under ${dtype}`);
    amp.autocast(dtype, () => {
      for (const [name, fn] of Object.entries(narrow)) check(name, fn(), dtype);
      for (const [name, fn] of Object.entries(wide)) check(name, fn(h), "float32");
      for (const [name, fn] of Object.entries(kept)) check(name, fn(h), dtype);
      amp.autocast("float32", () => check("switched off", narrow.matmul!(), "float32"));
    });
    for (const [name, fn] of Object.entries(narrow)) check(`${name} outside`, fn(), "float32");
    for (const [name, fn] of Object.entries(wide)) {
      assertEquals(fn(h).dtype, dtype, `${name} outside`);
    }
  }
});

testOnBackends("products of half precision add up in single", async () => {
  for (const dtype of halves) {
    // In float16 alone 2048 + 1 is 2048; in bfloat16 256 + 1 is 256.
    const n = 5120;
    const ones = Tensor.ones([1, n]).realize();
    const product = amp.autocast(dtype, () => ones.matmul(ones.transpose()));
    assertEquals(await product.item(), n);
    assertEquals(await Tensor.ones([n], { dtype }).realize().sum().item(), n);
    const image = Tensor.ones([1, 80, 8, 8]).realize();
    const pixel = amp.autocast(dtype, () => image.conv2d(image));
    assertEquals(await pixel.item(), n);
  }
});

testOnBackends("gradients under autocast are near those without, in float32", async () => {
  manualSeed(2);
  const model = new nn.Sequential(
    new nn.Conv2d(1, 4, 3),
    new nn.BatchNorm2d(4),
    new nn.ReLU(),
    new nn.Flatten(),
    new nn.Linear(4 * 36, 10),
  );
  const x = Tensor.randn([8, 1, 8, 8]).realize();
  const labels = Tensor.fromHost(Int32Array.from({ length: 8 }, (_, k) => k));
  const gradients = async (): Promise<number[][]> => {
    model.zeroGrad();
    model.forward(x).crossEntropy(labels).backward();
    const all = model.parameters().map(async ({ grad }) => {
      assertEquals(grad!.dtype, "float32");
      return [...await grad!.toHost()].map(Number);
    });
    return await Promise.all(all);
  };
  const exact = await gradients();
  for (const dtype of halves) {
    const near = await amp.autocast(dtype, gradients);
    // 16 roundings of the last bit.
    const tolerance = 16 * 2 ** (dtype === "float16" ? -11 : -8);
    near.forEach((gradient, k) => {
      // What comes before a normalization has no gradient of its bias but noise.
      if (k === 1) return;
      const size = Math.hypot(...exact[k]!);
      const off = Math.hypot(...gradient.map((v, j) => v - exact[k]![j]!));
      assert(off > 0 && off < tolerance * size, `${dtype}: ${off / size} of parameter ${k}`);
    });
  }
});

testOnBackends("autocast belongs to the task that asked for it", async () => {
  const x = Tensor.ones([2, 2]);
  const inside = amp.autocast("bfloat16", async () => {
    await Promise.resolve();
    return x.matmul(x).dtype;
  });
  assertEquals(x.matmul(x).dtype, "float32");
  assertEquals(await inside, "bfloat16");
  // deno-lint-ignore no-explicit-any -- what TypeScript would refuse
  assertThrows(() => amp.autocast("int32" as any, () => x), TypeError, '"int32"');
  const sum = amp.autocast("float16", () => x.matmul(x).exp().sum());
  assertAlmostEquals(await sum.item(), 29.556, 1e-3);
});
