import { assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { hostTarget, type Target } from "../../../../backend/kernel/target.ts";
import { planKernel } from "../../../../backend/opencl/templates/generate.ts";
import {
  type DType,
  enableGrad,
  noGrad,
  type PoolOptions,
  Tensor,
  withDevice,
} from "../../../../mod.ts";
import { testOnOpenCL, testOpenCL } from "../../../opencl.ts";
import { loopKernelsOf } from "../../loop_kernels.ts";
import { planner } from "../../schedule/nodes.ts";

/** Whole numbers, each of them often: the first of equals counts. */
function whole(shape: readonly number[], factor: number, dtype: DType = "float32"): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: size }, (_, k) => (k * factor) % 7 + 1);
  return noGrad(() => Tensor.fromHost(values).reshape([...shape]).cast(dtype).realize());
}

async function numbers(tensors: readonly Tensor[]): Promise<number[][]> {
  const values = await Promise.all(tensors.map((t) => t.toHost()));
  return values.map((v) => Array.from(v as ArrayLike<number>, Number));
}

/** The results of a computation on the OpenCL device and on the built-in backend. */
async function isRight(make: () => Tensor[]): Promise<void> {
  const expected = await withDevice("cpu", () => numbers(make()));
  assertEquals(await withDevice("cl", () => numbers(make())), expected);
}

function testRight(name: string, make: () => Tensor[]): void {
  testOpenCL(name, () => isRight(make));
}

/** A pooling behind what it is fused with, and its gradient. */
function pooled(shape: number[], kernel: number, options: PoolOptions, dtype: DType): Tensor[] {
  const x = whole(shape, 5, dtype), bias = whole([shape[1]!, 1, 1], 3, dtype);
  x.requiresGrad = true;
  const most = x.sub(bias).relu().maxPool2d(kernel, options);
  most.backward(whole(most.shape, 11, dtype));
  const sums = whole(shape, 3, dtype).avgPool2d(kernel, { ...options, countIncludePad: true });
  return [most, x.grad!, sums.mul(kernel * kernel)];
}

for (const dtype of ["float32", "float16", "bfloat16"] as const) {
  testOpenCL(`poolings of ${dtype} and their gradients have the reference's values`, async () => {
    await isRight(() => pooled([3, 5, 28, 28], 2, {}, dtype));
    await isRight(() => pooled([2, 3, 33, 37], 3, { stride: 2, padding: 1 }, dtype));
    await isRight(() => pooled([2, 3, 14, 9], 3, { stride: 1, padding: 1 }, dtype));
  });
}

testOpenCL("poolings of any geometry have the reference's values", () =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 6, max: 50 }),
      fc.integer({ min: 6, max: 50 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 3 }),
      fc.nat(1),
      (height, width, kernel, stride, padding) =>
        isRight(() =>
          pooled(
            [2, 2, height, width],
            kernel,
            { stride, padding: Math.min(padding, kernel >> 1) },
            "float32",
          )
        ),
    ),
    { numRuns: 8, seed: 3 },
  ));

testRight("a window's first NaN is its largest element, and gets its gradient", () => {
  const x = whole([1, 1, 8, 24], 5);
  const y = noGrad(() => x.eq(3).where(NaN, x).realize());
  y.requiresGrad = true;
  const most = y.maxPool2d(2);
  most.backward(whole(most.shape, 11));
  return [most, y.grad!];
});

testRight(
  "every second element is read and written in turn, in any type",
  () =>
    (["float32", "float16", "bfloat16", "int32", "bool"] as const).flatMap((dtype) => {
      const x = whole([5, 46], 5, dtype), y = whole([5, 23], 3, dtype);
      const even = x.slice(null, [0, 46, 2]), odd = x.slice(null, [1, 46, 2]);
      const both = Tensor.stack([even, y], 2).reshape([5, 46]);
      return [even.eq(odd), both, both.sum(1), x.pad([[1, 2], [3, 4]])];
    }),
);

testRight("two elements a lane are put together where each comes from another place", () => {
  const x = whole([6, 46], 5), image = whole([2, 12, 9, 17], 3);
  for (const t of [x, image]) t.requiresGrad = true;
  const every = x.slice(null, [1, null, 2]), shuffled = image.pixelShuffle(2);
  const wide = image.interpolate({ scaleFactor: 2 });
  every.mul(every).sum().add(shuffled.mul(3).sum()).add(wide.square().sum()).backward();
  return [x.grad!, image.grad!, shuffled, wide];
});

testRight("the gradient under a convolution with steps is summed as it is put together", () => {
  const x = whole([3, 12, 18, 26], 5),
    w = whole([20, 12, 3, 3], 3),
    v = whole([20, 12, 1, 1], 2);
  x.requiresGrad = true;
  const inner = x.sub(3).relu();
  const y = inner.conv2d(w, { stride: 2, padding: 1 }).add(inner.conv2d(v, { stride: 2 }));
  y.backward(whole(y.shape, 11));
  return [x.grad!, x.grad!.sum([0, 2, 3]), x.grad!.mul(x).sum([0, 2, 3])];
});

Deno.test("poolings are computed in vectors where those are wide", () => {
  const target: Target = { ...hostTarget, isGpu: false, vectorWidth: 16, localMemory: 2 ** 21 };
  const chosen = (make: () => Tensor): string[] =>
    loopKernelsOf(() => enableGrad(make), { target, planKernel: planner() })
      .map((kernel) => planKernel(kernel, target).name);
  const gradient = (kernel = 2, options: PoolOptions = {}) => (): Tensor => {
    const x = whole([4, 3, 28, 28], 5);
    x.requiresGrad = true;
    x.relu().maxPool2d(kernel, options).sum().backward();
    return x.grad!;
  };
  const large = whole([2, 4, 56, 56], 5);
  assertEquals(chosen(() => large.relu().maxPool2d(2)), ["windows side by side"]);
  assertEquals(chosen(() => large.maxPool2d(3, { stride: 2, padding: 1 })), [
    "windows side by side",
  ]);
  for (const make of [gradient(), gradient(3, { stride: 2, padding: 1 })]) {
    const names = chosen(make);
    for (const name of ["one item a row", "short rows"]) assertEquals(names.includes(name), false);
  }
});

testOnOpenCL("long sums over two lines side by side compile, and are right", () => {
  const lines = Tensor.arange(4 * 2 * 1024).remainder(7).reshape([4, 2, 1024]).realize();
  const sums = lines.transpose(1, 2).sum([1, 2]).toHostSync();
  assertEquals(sums, lines.sum([1, 2]).toHostSync());
});

testRight(
  "what is the same in all lanes is reduced as ever, and compiles",
  () =>
    [Tensor.full([3, 64], 2), whole([3, 1], 3).expand([3, 64])].flatMap((x) => [
      x.sum(0),
      x.max(0).mul(whole([64], 3)),
      x.transpose(0, 1).mul(3).mean(1),
      x.argmax(0),
      x.reshape([1, 1, 3, 64]).maxPool2d(2),
      x.sum(0).add(whole([3, 64], 3).sum(0)),
    ]),
);

testRight("short sums for two of something beside each other compile, and are right", () => {
  const points = whole([300, 1, 2], 3), centres = whole([2, 2], 5);
  const apart = points.sub(centres);
  return [
    apart.square().sum(2),
    apart.max(2).add(1),
    apart.argmin(2),
    points.mul(whole([2, 3, 2], 5).permute([1, 0, 2]).sum(0)).sum(2),
    whole([40, 2, 3], 3).sum(2),
  ];
});

testOnOpenCL("where padding is left out again, no constant is there that compilers warn of", () => {
  const x = Tensor.ones([4, 3], { dtype: "float64" }).realize();
  const text = x.pad([[1, 2], [1, 0]]).slice([1, 2]).mul(2).explain();
  assertMatch(text, /\(0\) < p\d+/);
  assertEquals(text.includes("(0) >= 0"), false);
});
