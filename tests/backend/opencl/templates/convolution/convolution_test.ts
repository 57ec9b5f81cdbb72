import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { enableGrad, Tensor } from "../../../../../mod.ts";
import { planKernel } from "../../../../../backend/opencl/templates/generate.ts";
import { testOnOpenCL, testOpenCL } from "../../../../opencl.ts";
import { templateOf, wideTarget } from "../chosen_template.ts";
import {
  assertConvolution,
  assertSame,
  type Convolution,
  inEveryType,
  templatesOf,
  values,
} from "./whole_numbers.ts";
import { contractionsOf } from "../../../loop_kernels.ts";

const cases: Readonly<Record<string, Convolution>> = {
  "of one channel": [[3, 1, 28, 28], [16, 1, 3, 3], { padding: 1 }],
  "of many channels": [[2, 24, 14, 14], [40, 24, 3, 3], { padding: 1 }],
  "whose lines are longer than a tile": [[1, 4, 9, 70], [9, 4, 3, 3], { padding: 1 }],
  "that pads one axis only": [[2, 3, 12, 20], [8, 3, 1, 5], { padding: [0, 2] }],
  "with steps between positions": [[2, 8, 15, 17], [12, 8, 5, 5], { padding: 2, stride: 2 }],
  "with long steps and no padding": [[2, 4, 13, 40], [20, 4, 3, 3], { stride: 3 }],
  "that begins a residual network": [[1, 3, 32, 32], [16, 3, 7, 7], { padding: 3, stride: 2 }],
  "of one tap with steps": [[3, 12, 18, 26], [20, 12, 1, 1], { stride: 2 }],
  "of one tap with steps that end before the image": [[2, 9, 16, 14], [24, 9, 1, 1], { stride: 2 }],
  "of one tap with steps, and long lines": [[1, 5, 6, 157], [7, 5, 1, 1], { stride: 2 }],
  "with steps between taps": [[2, 4, 16, 24], [8, 4, 3, 3], { padding: 2, dilation: 2 }],
  "in groups": [[2, 16, 10, 10], [32, 8, 3, 3], { padding: 1, groups: 2 }],
  "of few positions and many channels": [[1, 70, 7, 7], [150, 70, 3, 3], { padding: 1 }],
  "whose lines end within a tile": [[3, 30, 9, 29], [37, 30, 3, 3], { padding: 1 }],
  "with overlapping steps between taps": [[2, 24, 21, 45], [50, 24, 3, 7], {
    padding: [1, 4],
    stride: [1, 2],
    dilation: [2, 1],
  }],
  "of five taps, few positions and many channels": [[1, 70, 7, 7], [150, 70, 5, 5], { padding: 2 }],
  "of five taps whose lines end in a tile": [[3, 30, 9, 29], [37, 30, 5, 5], { padding: 2 }],
  "of few channels in many groups": [[6, 60, 8, 8], [120, 20, 3, 3], { padding: 1, groups: 3 }],
  "with a kernel as large as the image": [[4, 8, 5, 5], [16, 8, 5, 5], {}],
  "whose kernel reaches far over the edges": [[2, 8, 6, 6], [8, 8, 5, 5], { padding: 4 }],
};

for (const [name, c] of Object.entries(cases)) {
  testOpenCL(`a convolution ${name} is right, and its gradients`, () => assertConvolution(c));
}

Deno.test("the gradient of a weight is computed in vectors, with steps and without", () => {
  const templates = ([[1, 1], [1, 2], [3, 2]] as const).map(([kernel, stride]) =>
    templatesOf([[4, 16, 32, 32], [32, 16, kernel, kernel], { stride, padding: kernel >> 1 }])[2]
  );
  const names = ["inner-product gemm", "inner-product gemm", "weight-gradient convolution"];
  assertEquals(templates, names);
});

Deno.test("channels are lanes where they are many, and positions where lines are long or terms few", () => {
  const chosen = (c: number, side: number, o: number, k = 3, images = 2): string =>
    templatesOf([[images, c, side, side], [o, c, k, k], { padding: k >> 1 }])[0]!;
  assertEquals(chosen(512, 7, 512), "channel-lane convolution");
  // A vector of a line's 7 or 4 positions takes as long as one of 16.
  assertEquals(chosen(512, 7, 512, 3, 1), "channel-lane convolution");
  assertEquals(chosen(32, 4, 64), "channel-lane convolution");
  assertEquals(chosen(64, 8, 64, 5), "channel-lane convolution");
  assertEquals(chosen(16, 28, 32, 5), "channel-lane convolution");
  // Weights of 1,152 terms and more are turned again for every few lines: the caches hold no larger window.
  const target = { ...wideTarget, localMemory: 2 ** 20 };
  for (const [c, side, o, stride] of [[256, 14, 256, 1], [256, 14, 512, 2], [128, 28, 256, 2]]) {
    const make = () => {
      const x = Tensor.ones([1, c!, side!, side!]), w = Tensor.ones([o!, c!, 3, 3]);
      return x.conv2d(w, { padding: 1, stride: stride! });
    };
    assertEquals(templateOf(make, target), "direct convolution");
  }
  assertEquals(chosen(1, 28, 16), "direct convolution");
  assertEquals(chosen(64, 32, 3), "direct convolution");
  assertEquals(chosen(4, 32, 16), "direct convolution");
});

Deno.test("a gradient that a pooling repeats is copied for the weight's, which sums it in vectors", () => {
  const gradient = () => {
    const x = Tensor.ones([4, 24, 32, 32]).realize(), w = Tensor.ones([40, 24, 1, 1]).realize();
    w.requiresGrad = true;
    const y = enableGrad(() => x.conv2d(w).avgPool2d(2));
    y.backward(Tensor.ones(y.shape).realize());
    return w.grad!;
  };
  const found = contractionsOf(gradient, { target: wideTarget, planKernel });
  assertEquals(found.map((kernel) => planKernel(kernel, wideTarget).name), ["inner-product gemm"]);
});

testOpenCL("gradients of a convolution behind a pooling are those of the reference", async () => {
  await assertSame(async (whole) => {
    const x = whole([4, 24, 32, 32], 5), w = whole([40, 24, 1, 1], 3);
    x.requiresGrad = w.requiresGrad = true;
    const y = x.conv2d(w).avgPool2d(2).mul(4);
    y.backward(whole(y.shape, 11));
    return [await values(x.grad!), await values(w.grad!)];
  });
});

testOpenCL("what follows a convolution of many channels is fused, in any type", async () => {
  await assertSame((whole) => {
    const x = whole([2, 40, 9, 11], 5), w = whole([36, 40, 5, 5], 3), b = whole([36, 1, 1], 2);
    const y = x.conv2d(w, { padding: 2 }), around = whole([2, 36, 9, 11], 11);
    const fused = y.add(b).relu().add(around);
    return Promise.all([fused, ...inEveryType(y, around)].map(values));
  });
});

testOpenCL("convolutions of any geometry have the reference's values and gradients", () => {
  const side = fc.integer({ min: 5, max: 20 }), few = fc.integer({ min: 1, max: 3 });
  const geometry = fc.record({
    n: few,
    c: fc.integer({ min: 1, max: 10 }),
    o: fc.integer({ min: 1, max: 20 }),
    h: side,
    w: side,
    kh: few,
    kw: few,
    padding: fc.tuple(fc.nat(2), fc.nat(2)),
    stride: fc.tuple(few, few),
    dilation: fc.tuple(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 2 })),
  });
  return fc.assert(
    fc.asyncProperty(
      geometry,
      ({ n, c, o, h, w, kh, kw, ...options }) =>
        assertConvolution([[n, c, h, w], [o, c, kh, kw], options]),
    ),
    { numRuns: 5, seed: 7 },
  );
});

testOnOpenCL("a padded convolution and its gradients copy no image", () => {
  const x = Tensor.ones([4, 8, 28, 28]).realize(), w = Tensor.ones([16, 8, 3, 3]).realize();
  x.requiresGrad = w.requiresGrad = true;
  assertEquals(x.conv2d(w, { padding: 1, stride: 2 }).explain().includes("pad"), false);
  const y = x.conv2d(w, { padding: 1 });
  assertEquals(y.explain().includes("pad"), false);
  y.realize().backward(Tensor.ones(y.shape).realize());
  for (const t of [x.grad!, w.grad!]) assertEquals(t.explain().includes("pad"), false);
});
