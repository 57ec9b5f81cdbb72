import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Conv2dOptions, Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";

/** Whole numbers: every order of summation gives the same floats. */
function whole(shape: readonly number[], factor: number): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: size }, (_, k) => (k * factor) % 7 - 3);
  return Tensor.fromHost(values).reshape([...shape]).realize();
}

interface Case {
  readonly image: readonly [number, number, number, number];
  readonly weight: readonly [number, number, number, number];
  readonly options: Conv2dOptions;
}

/** The result, and the gradients of image and weight where the result's is not the same everywhere. */
async function convolved({ image, weight, options }: Case): Promise<number[][]> {
  const x = whole(image, 5), w = whole(weight, 3);
  x.requiresGrad = w.requiresGrad = true;
  const y = x.conv2d(w, options).relu();
  const value = [...await y.toHost() as Float32Array];
  y.backward(whole(y.shape, 11));
  const gradients = [x.grad!, w.grad!].map((t) => t.toHost());
  return [value, ...(await Promise.all(gradients)).map((a) => [...a as Float32Array])];
}

async function isRight(c: Case): Promise<void> {
  const expected = await withDevice("cpu", () => convolved(c));
  const found = await withDevice("cl", () => convolved(c));
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
    const x = whole([4, 8, 28, 28], 5), w = whole([16, 8, 3, 3], 3);
    x.requiresGrad = w.requiresGrad = true;
    assertEquals(x.conv2d(w, { padding: 1, stride: 2 }).explain().includes("pad"), false);
    const y = x.conv2d(w, { padding: 1 });
    assertEquals(y.explain().includes("pad"), false);
    y.realize().backward(whole(y.shape, 11));
    for (const t of [x.grad!, w.grad!]) assertEquals(t.explain().includes("pad"), false);
  }));
