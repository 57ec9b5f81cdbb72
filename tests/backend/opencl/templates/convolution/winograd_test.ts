import { assert, assertEquals } from "@std/assert";
import { type Conv2dOptions, manualSeed, Tensor } from "../../../../../mod.ts";
import { testOnOpenCL, testOpenCL } from "../../../../opencl.ts";
import {
  assertConvolution,
  assertSame,
  both,
  type Convolution,
  inEveryType,
  type Shape,
  templatesOf,
  values,
} from "./whole_numbers.ts";

const chosen = (image: Shape, weight: Shape, options: Conv2dOptions = { padding: 1 }): string[] =>
  templatesOf([image, weight, options]);

Deno.test("convolutions of 3x3 taps without steps multiply 16 times for four results", () => {
  const name = "Winograd convolution";
  assertEquals(chosen([16, 16, 32, 32], [16, 16, 3, 3])[0], name);
  assertEquals(chosen([16, 64, 8, 8], [64, 64, 3, 3])[0], name);
  assertEquals(chosen([1, 64, 56, 56], [64, 64, 3, 3], {})[0], name);
  // Only those eights of channels are computed that there are.
  assertEquals(chosen([1, 96, 40, 40], [24, 96, 3, 3])[0], name);
  assertEquals(chosen([16, 64, 16, 16], [64, 32, 3, 3], { padding: 1, groups: 2 })[0], name);
  assertEquals(chosen([16, 32, 16, 16], [32, 32, 3, 3])[1], name, "the gradient of an image");
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
  ) {
    const [template] = chosen(image, weight, options);
    assert(template !== "Winograd convolution", `${image} by ${weight}`);
  }
});

const cases: Readonly<Record<string, Convolution>> = {
  "as wide as a vector": [[2, 16, 32, 32], [16, 16, 3, 3], { padding: 1 }],
  "of odd sizes": [[3, 30, 9, 29], [37, 30, 3, 3], { padding: 1 }],
  "without padding": [[2, 16, 21, 17], [16, 16, 3, 3], {}],
  "padded twice, of long lines": [[2, 16, 5, 150], [24, 16, 3, 3], { padding: 2 }],
  "padded along one axis": [[1, 8, 13, 24], [40, 8, 3, 3], { padding: [0, 3] }],
  "in groups": [[3, 48, 12, 12], [96, 16, 3, 3], { padding: 1, groups: 3 }],
  "whose images share a work-item": [[5, 64, 8, 8], [64, 64, 3, 3], { padding: 1 }],
  "of lines beyond a work-item": [[1, 8, 4, 300], [8, 8, 3, 3], { padding: 1 }],
  "of eights of channels in groups": [[2, 64, 10, 14], [48, 32, 3, 3], { padding: 1, groups: 2 }],
  "of one tile": [[40, 16, 2, 2], [16, 16, 3, 3], { padding: 1 }],
};

for (const [name, each] of Object.entries(cases)) {
  testOpenCL(`a 3x3 convolution ${name} is right`, () => assertConvolution(each));
}

testOnOpenCL("a 3x3 convolution of no images is empty", async () => {
  const y = Tensor.ones([0, 16, 32, 32]).conv2d(Tensor.ones([16, 16, 3, 3]), { padding: 1 });
  assertEquals(await values(y), []);
});

testOpenCL("what follows a 3x3 convolution is computed with it, in any type", async () => {
  await assertSame((whole) => {
    const x = whole([2, 40, 9, 11], 5), w = whole([36, 40, 3, 3], 3), b = whole([36, 1, 1], 2);
    const y = x.conv2d(w, { padding: 1 }), around = whole([2, 36, 9, 11], 11);
    const lines = whole([9, 1], 3), images = whole([2, 1, 1, 1], 5);
    const fused = y.add(b).relu().add(around).mul(lines).sub(images);
    return Promise.all([fused, ...inEveryType(y, around)].map(values));
  });
});

testOpenCL("3x3 convolutions of half types and doubles have the reference's values", async () => {
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    await assertSame((whole) =>
      values(
        whole([2, 16, 10, 18], 5).cast(dtype).conv2d(whole([16, 16, 3, 3], 3).cast(dtype), {
          padding: 1,
        }),
      )
    );
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

testOnOpenCL("an outlier changes no result of 3x3 windows that do not see it", async () => {
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
});

testOnOpenCL("a 3x3 convolution errs no more than twice as much as a sum of its products", () => {
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
});
