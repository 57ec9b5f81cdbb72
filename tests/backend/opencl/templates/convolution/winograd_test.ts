import { assert, assertEquals } from "@std/assert";
import {
  type Conv2dOptions,
  enableGrad,
  manualSeed,
  Tensor,
  withDevice,
} from "../../../../../mod.ts";
import { hostTarget, type Target } from "../../../../../backend/kernel/target.ts";
import { testOpenCL } from "../../../../opencl.ts";
import { templateOf } from "../chosen_template.ts";
import { both, inEveryType, values } from "./whole_numbers.ts";

type Shape = readonly [number, number, number, number];

/** A processor of wide vectors. */
const wide: Target = { ...hostTarget, vectorWidth: 16, localMemory: 2 ** 21, computeUnits: 2 };

function chosen(image: Shape, weight: Shape, options: Conv2dOptions = { padding: 1 }): string {
  return templateOf(() => Tensor.ones([...image]).conv2d(Tensor.ones([...weight]), options), wide);
}

Deno.test("convolutions of 3x3 taps without steps multiply 16 times for four results", () => {
  const name = "Winograd convolution";
  assertEquals(chosen([16, 16, 32, 32], [16, 16, 3, 3]), name);
  assertEquals(chosen([16, 64, 8, 8], [64, 64, 3, 3]), name);
  assertEquals(chosen([1, 64, 56, 56], [64, 64, 3, 3], {}), name);
  assertEquals(chosen([16, 64, 16, 16], [64, 32, 3, 3], { padding: 1, groups: 2 }), name);
  const ofImage = templateOf(() => {
    const x = Tensor.ones([16, 32, 16, 16], { requiresGrad: true });
    const y = enableGrad(() => x.conv2d(Tensor.ones([32, 32, 3, 3]), { padding: 1 }));
    y.backward(Tensor.full(y.shape, 2).realize());
    return x.grad!;
  }, wide);
  assertEquals(ofImage, name);
});

Deno.test("what F(2x2, 3x3) is not for, or costs more, is summed as it is", () => {
  for (
    const [image, weight, options] of [
      [[16, 16, 32, 32], [16, 16, 3, 3], { padding: 1, stride: 2 }],
      [[16, 16, 32, 32], [16, 16, 3, 3], { padding: 2, dilation: 2 }],
      [[16, 16, 32, 32], [16, 16, 5, 5], { padding: 2 }],
      [[16, 16, 32, 32], [16, 16, 3, 1], { padding: [1, 0] }],
      [[16, 3, 32, 32], [16, 3, 3, 3], { padding: 1 }],
      [[16, 16, 32, 32], [4, 16, 3, 3], { padding: 1 }],
      [[1, 512, 7, 7], [512, 512, 3, 3], { padding: 1 }],
      [[16, 16, 32, 32], [16, 1, 3, 3], { padding: 1, groups: 16 }],
    ] as const
  ) assert(chosen(image, weight, options) !== "Winograd convolution", `${image} by ${weight}`);
});

const cases: Readonly<Record<string, readonly [Shape, Shape, Conv2dOptions]>> = {
  "as wide as a vector": [[2, 16, 32, 32], [16, 16, 3, 3], { padding: 1 }],
  "of odd sizes": [[3, 30, 9, 29], [37, 30, 3, 3], { padding: 1 }],
  "without padding": [[2, 16, 21, 17], [16, 16, 3, 3], {}],
  "padded twice, of long lines": [[2, 16, 5, 150], [24, 16, 3, 3], { padding: 2 }],
  "padded along one axis": [[1, 8, 13, 24], [40, 8, 3, 3], { padding: [0, 3] }],
  "in groups": [[3, 48, 12, 12], [96, 16, 3, 3], { padding: 1, groups: 3 }],
  "whose images share a work-item": [[5, 64, 8, 8], [64, 64, 3, 3], { padding: 1 }],
  "of lines beyond a work-item": [[1, 8, 4, 300], [8, 8, 3, 3], { padding: 1 }],
  "of one tile": [[40, 16, 2, 2], [16, 16, 3, 3], { padding: 1 }],
};

for (const [name, [image, weight, options]] of Object.entries(cases)) {
  testOpenCL(`a 3x3 convolution ${name} has the reference's values and gradients`, async () => {
    const [found, expected] = await both(async (whole) => {
      const x = whole(image, 5), w = whole(weight, 3);
      x.requiresGrad = w.requiresGrad = true;
      const y = x.conv2d(w, options).relu(), value = await values(y);
      y.backward(whole(y.shape, 11));
      return [value, await values(x.grad!), await values(w.grad!)];
    });
    assertEquals(found, expected);
  });
}

testOpenCL("a 3x3 convolution of no images is empty", () =>
  withDevice("cl", async () => {
    const y = Tensor.ones([0, 16, 32, 32]).conv2d(Tensor.ones([16, 16, 3, 3]), { padding: 1 });
    assertEquals(await values(y), []);
  }));

testOpenCL("what follows a 3x3 convolution is computed with it, in any type", async () => {
  const [found, expected] = await both((whole) => {
    const x = whole([2, 40, 9, 11], 5), w = whole([36, 40, 3, 3], 3), b = whole([36, 1, 1], 2);
    const y = x.conv2d(w, { padding: 1 }), around = whole([2, 36, 9, 11], 11);
    const lines = whole([9, 1], 3), images = whole([2, 1, 1, 1], 5);
    const fused = y.add(b).relu().add(around).mul(lines).sub(images);
    return Promise.all([fused, ...inEveryType(y, around)].map(values));
  });
  assertEquals(found, expected);
});

testOpenCL("3x3 convolutions of half types and doubles have the reference's values", async () => {
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    const [found, expected] = await both((whole) =>
      values(
        whole([2, 16, 10, 18], 5).cast(dtype).conv2d(whole([16, 16, 3, 3], 3).cast(dtype), {
          padding: 1,
        }),
      )
    );
    assertEquals(found, expected);
  }
});

testOpenCL("infinities and NaN stay where a plain sum has them", async () => {
  const [found, expected] = await both(async (whole) => {
    const x = whole([3, 16, 12, 20], 5), w = whole([16, 16, 3, 3], 3);
    const places = Tensor.arange(0, x.size).reshape([...x.shape]);
    const spoiled = places.eq(2000).where(Infinity, places.eq(5000).where(NaN, x));
    return await values(spoiled.conv2d(w, { padding: 1 }));
  });
  assert(found.includes(Infinity) && found.some(Number.isNaN));
  assertEquals(found, expected);
});

testOpenCL(
  "an outlier changes no result of a 3x3 convolution whose window does not see it",
  () =>
    withDevice("cl", async () => {
      manualSeed(6);
      const x = Tensor.rand([2, 16, 20, 22]).realize(), w = Tensor.randn([16, 16, 3, 3]).realize();
      const at = 7 * 20 * 22 + 9 * 22 + 11, places = Tensor.arange(0, x.size).reshape([...x.shape]);
      const spoiled = places.eq(at).where(1e30, x).realize();
      const [before, after] = await Promise.all(
        [x, spoiled].map((image) => values(image.conv2d(w, { padding: 1 }))),
      );
      const changed = before!.flatMap((v, k) => v === after![k] ? [] : [k]);
      assertEquals(changed.length, 9 * 16);
      assert(changed.every((k) => Math.abs(after![k]!) > 1e20));
    }),
);

testOpenCL(
  "a 3x3 convolution errs no more than twice as much as a sum of its products",
  () =>
    withDevice("cl", () => {
      manualSeed(5);
      for (const offset of [0, 100]) {
        const x = Tensor.randn([2, 64, 24, 24]).add(offset).realize();
        const w = Tensor.randn([32, 64, 3, 3]).realize(), options = { padding: 1 };
        const y = x.conv2d(w, options).cast("float64");
        const exact = x.cast("float64").conv2d(w.cast("float64"), options);
        const size = x.abs().conv2d(w.abs(), options).max().itemSync();
        const error = Number(y.sub(exact).abs().max().itemSync()) / Number(size);
        assert(error < 6e-7, `${error} of the sum of magnitudes, offset ${offset}`);
      }
    }),
);
