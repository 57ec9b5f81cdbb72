import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Conv2dOptions, enableGrad, Tensor, withDevice } from "../../../../../mod.ts";
import { schedule } from "../../../../../backend/internal.ts";
import { planKernel } from "../../../../../backend/opencl/templates/generate.ts";
import { nodeOf } from "../../../../../tensor/core/internals.ts";
import { hostTarget, type Target } from "../../../../../backend/kernel/target.ts";
import { testOpenCL } from "../../../../opencl.ts";
import { templateOf } from "../chosen_template.ts";
import { both, inEveryType, values } from "./whole_numbers.ts";

interface Case {
  readonly image: readonly [number, number, number, number];
  readonly weight: readonly [number, number, number, number];
  readonly options: Conv2dOptions;
}

/** The result, and the gradients of image and weight where the result's is not the same everywhere. */
async function isRight({ image, weight, options }: Case): Promise<void> {
  const [found, expected] = await both(async (whole) => {
    const x = whole(image, 5), w = whole(weight, 3);
    x.requiresGrad = w.requiresGrad = true;
    const y = x.conv2d(w, options).relu(), value = await values(y);
    y.backward(whole(y.shape, 11));
    return [value, await values(x.grad!), await values(w.grad!)];
  });
  assertEquals(found, expected);
}

const cases: Readonly<Record<string, Case>> = {
  "of one channel": { image: [3, 1, 28, 28], weight: [16, 1, 3, 3], options: { padding: 1 } },
  "of many channels": { image: [2, 24, 14, 14], weight: [40, 24, 3, 3], options: { padding: 1 } },
  "whose lines are longer than a tile": {
    image: [1, 4, 9, 70],
    weight: [9, 4, 3, 3],
    options: { padding: 1 },
  },
  "that pads one axis only": {
    image: [2, 3, 12, 20],
    weight: [8, 3, 1, 5],
    options: { padding: [0, 2] },
  },
  "with steps between positions": {
    image: [2, 8, 15, 17],
    weight: [12, 8, 5, 5],
    options: { padding: 2, stride: 2 },
  },
  "with long steps and no padding": {
    image: [2, 4, 13, 40],
    weight: [20, 4, 3, 3],
    options: { stride: 3 },
  },
  "that begins a residual network": {
    image: [1, 3, 32, 32],
    weight: [16, 3, 7, 7],
    options: { padding: 3, stride: 2 },
  },
  "of one tap with steps": {
    image: [3, 12, 18, 26],
    weight: [20, 12, 1, 1],
    options: { stride: 2 },
  },
  "of one tap with steps that end before the image": {
    image: [2, 9, 16, 14],
    weight: [24, 9, 1, 1],
    options: { stride: 2 },
  },
  "of one tap with steps, and long lines": {
    image: [1, 5, 6, 157],
    weight: [7, 5, 1, 1],
    options: { stride: 2 },
  },
  "with steps between taps": {
    image: [2, 4, 16, 24],
    weight: [8, 4, 3, 3],
    options: { padding: 2, dilation: 2 },
  },
  "in groups": {
    image: [2, 16, 10, 10],
    weight: [32, 8, 3, 3],
    options: { padding: 1, groups: 2 },
  },
  "of few positions and many channels": {
    image: [1, 70, 7, 7],
    weight: [150, 70, 3, 3],
    options: { padding: 1 },
  },
  "whose lines end within a tile, and channels within a vector": {
    image: [3, 30, 9, 29],
    weight: [37, 30, 3, 3],
    options: { padding: 1 },
  },
  "with steps between taps that overlap, and many channels": {
    image: [2, 24, 21, 45],
    weight: [50, 24, 3, 7],
    options: { padding: [1, 4], stride: [1, 2], dilation: [2, 1] },
  },
  "of five taps, few positions and many channels": {
    image: [1, 70, 7, 7],
    weight: [150, 70, 5, 5],
    options: { padding: 2 },
  },
  "of five taps whose lines end within a tile, and channels within a vector": {
    image: [3, 30, 9, 29],
    weight: [37, 30, 5, 5],
    options: { padding: 2 },
  },
  "of few channels in many groups": {
    image: [6, 60, 8, 8],
    weight: [120, 20, 3, 3],
    options: { padding: 1, groups: 3 },
  },
  "with a kernel as large as the image": {
    image: [4, 8, 5, 5],
    weight: [16, 8, 5, 5],
    options: {},
  },
  "whose kernel reaches far over the edges": {
    image: [2, 8, 6, 6],
    weight: [8, 8, 5, 5],
    options: { padding: 4 },
  },
};

for (const [name, c] of Object.entries(cases)) {
  testOpenCL(`a convolution ${name} has the reference's values and gradients`, () => isRight(c));
}

/** The templates of the kernels of a weight's gradient. */
function gradientTemplates(kernel: number, stride: number): string {
  return templateOf(() => {
    const x = Tensor.ones([4, 16, 32, 32]), w = Tensor.ones([32, 16, kernel, kernel]);
    w.requiresGrad = true;
    const y = enableGrad(() => x.conv2d(w, { stride, padding: kernel >> 1 }));
    y.backward(Tensor.full(y.shape, 2).realize());
    return w.grad!;
  }, wide);
}

Deno.test("the gradient of a weight is computed in vectors, with steps and without", () => {
  assertEquals(gradientTemplates(1, 1), "inner-product gemm");
  assertEquals(gradientTemplates(1, 2), "inner-product gemm");
  assertEquals(gradientTemplates(3, 2), "weight-gradient convolution");
});

/** A processor of wide vectors. */
const wide: Target = { ...hostTarget, isGpu: false, vectorWidth: 16, localMemory: 2 ** 21 };

Deno.test("channels are lanes where they are many, and positions where lines are long or terms few", () => {
  const chosen = (c: number, side: number, o: number, k = 3): string =>
    templateOf(
      () => Tensor.ones([2, c, side, side]).conv2d(Tensor.ones([o, c, k, k]), { padding: k >> 1 }),
      wide,
    );
  assertEquals(chosen(512, 7, 512), "channel-lane convolution");
  assertEquals(chosen(64, 8, 64, 5), "channel-lane convolution");
  assertEquals(chosen(16, 28, 32, 5), "channel-lane convolution");
  assertEquals(chosen(1, 28, 16), "direct convolution");
  assertEquals(chosen(64, 32, 3), "direct convolution");
  assertEquals(chosen(4, 32, 16), "direct convolution");
});

Deno.test("a gradient that a pooling repeats is copied for the weight's, which sums it in vectors", () => {
  const { kernels } = withDevice("cpu", () => {
    const x = Tensor.ones([4, 24, 32, 32]).realize(), w = Tensor.ones([40, 24, 1, 1]).realize();
    w.requiresGrad = true;
    const y = x.conv2d(w).avgPool2d(2);
    y.backward(Tensor.ones(y.shape).realize());
    return schedule([nodeOf(w.grad!)], { device: { target: wide, planKernel } });
  });
  const names = kernels.flatMap(({ kernel }) =>
    kernel.kind === "loop" && kernel.contraction ? [planKernel(kernel, wide).name] : []
  );
  assertEquals(names, ["inner-product gemm"]);
});

testOpenCL("gradients of a convolution behind a pooling are those of the reference", async () => {
  const [found, expected] = await both(async (whole) => {
    const x = whole([4, 24, 32, 32], 5), w = whole([40, 24, 1, 1], 3);
    x.requiresGrad = w.requiresGrad = true;
    const y = x.conv2d(w).avgPool2d(2).mul(4);
    y.backward(whole(y.shape, 11));
    return [await values(x.grad!), await values(w.grad!)];
  });
  assertEquals(found, expected);
});

testOpenCL(
  "what follows a convolution of many channels is computed with it, in any type",
  async () => {
    const [found, expected] = await both((whole) => {
      const x = whole([2, 40, 9, 11], 5), w = whole([36, 40, 5, 5], 3), b = whole([36, 1, 1], 2);
      const y = x.conv2d(w, { padding: 2 }), around = whole([2, 36, 9, 11], 11);
      const fused = y.add(b).relu().add(around);
      return Promise.all([fused, ...inEveryType(y, around)].map(values));
    });
    assertEquals(found, expected);
  },
);

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
        isRight({ image: [n, c, h, w], weight: [o, c, kh, kw], options }),
    ),
    { numRuns: 5, seed: 7 },
  );
});

testOpenCL("a padded convolution and its gradients copy no image", () =>
  withDevice("cl", () => {
    const x = Tensor.ones([4, 8, 28, 28]).realize(), w = Tensor.ones([16, 8, 3, 3]).realize();
    x.requiresGrad = w.requiresGrad = true;
    assertEquals(x.conv2d(w, { padding: 1, stride: 2 }).explain().includes("pad"), false);
    const y = x.conv2d(w, { padding: 1 });
    assertEquals(y.explain().includes("pad"), false);
    y.realize().backward(Tensor.ones(y.shape).realize());
    for (const t of [x.grad!, w.grad!]) assertEquals(t.explain().includes("pad"), false);
  }));
