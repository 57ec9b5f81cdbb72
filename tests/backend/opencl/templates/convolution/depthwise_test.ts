import { assertEquals } from "@std/assert";
import { Tensor } from "../../../../../mod.ts";
import { testOnOpenCL, testOpenCL } from "../../../../opencl.ts";
import {
  assertConvolution,
  assertSame,
  type Convolution,
  inEveryType,
  templatesOf,
  values,
} from "./whole_numbers.ts";

Deno.test("convolutions of one channel each are computed in vectors along lines", () => {
  const all = ["depthwise convolution", "depthwise convolution", "depthwise weight gradient"];
  assertEquals(templatesOf([[8, 32, 16, 16], [32, 1, 7, 7], { padding: 3, groups: 32 }]), all);
  assertEquals(templatesOf([[2, 96, 7, 7], [96, 1, 3, 3], { padding: 1, groups: 96 }]), all);
  assertEquals(
    templatesOf([[4, 24, 14, 14], [48, 1, 3, 3], { padding: 1, groups: 24 }])[0],
    all[0],
  );
  assertEquals(
    templatesOf([[2, 96, 15, 15], [96, 1, 5, 5], { padding: 2, stride: 2, groups: 96 }]),
    all,
  );
});

const cases: Readonly<Record<string, Convolution>> = {
  "of large kernels": [[2, 5, 16, 16], [5, 1, 7, 7], { padding: 3, groups: 5 }],
  "of odd lines": [[3, 7, 9, 29], [7, 1, 3, 3], { padding: 1, groups: 7 }],
  "without padding": [[2, 6, 11, 33], [6, 1, 5, 3], { groups: 6 }],
  "with steps": [[2, 6, 15, 37], [6, 1, 5, 5], { padding: 2, stride: 2, groups: 6 }],
  "with steps of three": [[2, 6, 16, 20], [6, 1, 3, 3], { padding: 1, stride: 3, groups: 6 }],
  "with other steps down than along": [
    [1, 4, 14, 35],
    [4, 1, 3, 4],
    { padding: [1, 2], stride: [3, 2], groups: 4 },
  ],
  "with steps between taps": [[2, 4, 20, 40], [4, 1, 3, 5], {
    padding: [2, 6],
    dilation: [2, 3],
    groups: 4,
  }],
  "with both steps": [[1, 4, 19, 23], [4, 1, 3, 3], {
    padding: 3,
    stride: 2,
    dilation: 2,
    groups: 4,
  }],
  "with more outputs than inputs": [[2, 4, 10, 12], [12, 1, 3, 3], { padding: 1, groups: 4 }],
  "of pairs of channels": [[2, 8, 10, 12], [8, 2, 3, 3], { padding: 1, groups: 4 }],
  "of one channel": [[3, 1, 12, 18], [1, 1, 5, 5], { padding: 2 }],
  "padded by more than the kernel": [[1, 3, 5, 6], [3, 1, 3, 3], { padding: 4, groups: 3 }],
  "of images larger than a window": [[1, 2, 300, 200], [2, 1, 3, 3], { padding: 1, groups: 2 }],
  "with a kernel as large as the image": [[4, 5, 7, 7], [5, 1, 7, 7], { groups: 5 }],
  "of one tap": [[2, 5, 6, 18], [5, 1, 1, 1], { groups: 5 }],
};

for (const [name, each] of Object.entries(cases)) {
  testOpenCL(`a depthwise convolution ${name} is right`, () => assertConvolution(each));
}

testOnOpenCL("a depthwise convolution of no images is empty, and its gradient 0", async () => {
  const w = Tensor.ones([4, 1, 3, 3], { requiresGrad: true });
  const y = Tensor.ones([0, 4, 8, 8]).conv2d(w, { padding: 1, groups: 4 });
  assertEquals(await values(y), []);
  y.sum().backward();
  assertEquals(await values(w.grad!), Array(36).fill(0));
});

testOpenCL("what follows a depthwise convolution is computed with it, in any type", async () => {
  await assertSame((whole) => {
    const x = whole([2, 10, 9, 11], 5), w = whole([10, 1, 3, 3], 3), b = whole([10, 1, 1], 2);
    const y = x.conv2d(w, { padding: 1, groups: 10 }), around = whole([2, 10, 9, 11], 11);
    const fused = y.add(b).relu().add(around).mul(whole([9, 1], 3)).sub(whole([2, 1, 1, 1], 5));
    return Promise.all([fused, ...inEveryType(y, around)].map(values));
  });
});

testOpenCL("depthwise convolutions of half types and doubles have the right values", async () => {
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    await assertSame(async (whole) => {
      // So few positions that each sum is a number of all types.
      const x = whole([1, 6, 4, 5], 5).cast(dtype), w = whole([6, 1, 3, 3], 3).cast(dtype);
      x.requiresGrad = w.requiresGrad = true;
      const y = x.conv2d(w, { padding: 1, groups: 6 });
      y.backward(whole(y.shape, 11).cast(dtype));
      const all = [y, x.grad!, w.grad!].map((t) => values(t.cast("float64")));
      return await Promise.all(all);
    });
  }
});

testOpenCL("infinities reach the results and taps of a depthwise one that see them", async () => {
  await assertSame(async (whole) => {
    const x = whole([2, 3, 9, 21], 5), w = whole([3, 1, 3, 3], 3).add(4);
    const spoiled = Tensor.arange(0, x.size).reshape([...x.shape]).eq(20).where(Infinity, x);
    const image = spoiled.realize();
    image.requiresGrad = w.requiresGrad = true;
    const y = image.conv2d(w, { padding: 1, groups: 3 }), value = await values(y);
    y.backward(whole(y.shape, 11).add(4));
    return [value, await values(w.grad!)];
  });
});
