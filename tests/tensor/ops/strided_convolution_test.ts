/** Gradients of images under convolutions with steps, and transposed convolutions: their values and their cost. */
import { assert, assertEquals } from "@std/assert";
import { schedule } from "../../../backend/internal.ts";
import { extent } from "../../../backend/kernel/kernel.ts";
import { noGrad, Tensor, withDevice } from "../../../mod.ts";
import { adjointProduct } from "../../../tensor/ops/images/adjoint.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { hasOpenCL, testOnCPU } from "../../opencl.ts";

/** Whole numbers: every order of summation gives the same floats. */
function whole(shape: readonly number[], factor: number): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: size }, (_, k) => (k * factor) % 7 - 3);
  return Tensor.fromHost(values).reshape([...shape]).realize();
}

/** Products that a tensor's contractions compute. */
function productsOf(t: Tensor): number {
  let products = 0;
  for (const { kernel } of schedule([nodeOf(t)]).kernels) {
    if (kernel.kind !== "loop" || kernel.contraction === null) continue;
    products += extent(kernel, [...kernel.outer, ...kernel.inner]);
  }
  return products;
}

testOnCPU("the gradient of an image under a convolution with steps multiplies no zeros", () => {
  for (const [kernel, stride, padding] of [[3, 2, 1], [1, 2, 0], [5, 3, 2], [4, 2, 1]] as const) {
    const x = Tensor.full([4, 32, 48, 48], 1), w = Tensor.full([32, 32, kernel, kernel], 1);
    const y = noGrad(() => x.conv2d(w, { stride, padding }));
    const forward = productsOf(y);
    x.requiresGrad = true;
    x.conv2d(w, { stride, padding }).backward(Tensor.full(y.shape, 2).realize());
    const backward = productsOf(x.grad!);
    assert(
      backward <= 1.1 * forward,
      `${kernel}x${kernel} in steps of ${stride}: ${backward} products, forward ${forward}`,
    );
  }
});

testOnCPU("a transposed convolution multiplies no zeros", () => {
  const x = Tensor.full([4, 32, 24, 24], 1), w = Tensor.full([32, 32, 4, 4], 1);
  const products = noGrad(() => productsOf(x.convTranspose2d(w, { stride: 2, padding: 1 })));
  assert(products <= 1.1 * 4 * 32 * 32 * 24 * 24 * 16, `${products} products`);
});

/** The definition: every product goes where it came from. */
function adjoint(g: Tensor, w: Tensor, geometry: Geometry, lengths: readonly number[]): number[] {
  const { stride, padding, dilation, groups } = geometry;
  const [n, o, ...positions] = g.shape as [number, number, ...number[]];
  const [, c, ...kernel] = w.shape as [number, number, ...number[]];
  const gs = g.toHostSync("float32"), ws = w.toHostSync("float32");
  const size = (s: readonly number[]) => s.reduce((a, b) => a * b, 1);
  const out = new Float32Array(n * c * groups * size(lengths));
  const indices = (shape: readonly number[], at: number) =>
    shape.toReversed().reduce<[number[], number]>(
      ([all, rest], m) => [[rest % m, ...all], Math.floor(rest / m)],
      [[], at],
    )[0];
  for (let at = 0; at < gs.length; at++) {
    const [i, j, ...p] = indices(g.shape, at) as [number, number, ...number[]];
    for (let tap = 0; tap < size(kernel); tap++) {
      const t = indices(kernel, tap);
      const x = p.map((q, k) => q * stride[k]! + t[k]! * dilation[k]! - padding[k]!);
      if (x.some((v, k) => v < 0 || v >= lengths[k]!)) continue;
      const place = x.reduce((sum, v, k) => sum * lengths[k]! + v, 0);
      for (let channel = 0; channel < c; channel++) {
        const group = Math.floor(j / (o / groups));
        const to = ((i * groups + group) * c + channel) * size(lengths) + place;
        out[to]! += gs[at]! * ws[(j * c + channel) * size(kernel) + tap]!;
      }
    }
  }
  assertEquals(positions.length, kernel.length);
  return [...out];
}

interface Geometry {
  readonly stride: readonly number[];
  readonly padding: readonly number[];
  readonly dilation: readonly number[];
  readonly groups: number;
}

/** Kernels shorter and longer than steps, steps of one axis, paddings beyond the kernel, lengths that nothing divides. */
const cases: readonly (Geometry & {
  readonly kernel: readonly number[];
  readonly lengths: readonly number[];
})[] = [
  { kernel: [3, 3], stride: [2, 2], padding: [1, 1], dilation: [1, 1], groups: 1, lengths: [9, 8] },
  { kernel: [1, 1], stride: [2, 3], padding: [0, 0], dilation: [1, 1], groups: 1, lengths: [7, 8] },
  { kernel: [4, 2], stride: [2, 2], padding: [1, 0], dilation: [1, 1], groups: 2, lengths: [6, 7] },
  {
    kernel: [5, 3],
    stride: [3, 1],
    padding: [2, 1],
    dilation: [1, 1],
    groups: 1,
    lengths: [11, 5],
  },
  { kernel: [2, 3], stride: [3, 2], padding: [4, 5], dilation: [1, 1], groups: 1, lengths: [5, 3] },
  { kernel: [3, 3], stride: [2, 2], padding: [2, 0], dilation: [2, 1], groups: 1, lengths: [9, 8] },
  { kernel: [7], stride: [4], padding: [3], dilation: [1], groups: 3, lengths: [29] },
  {
    kernel: [1, 3, 2],
    stride: [2, 2, 3],
    padding: [0, 1, 1],
    dilation: [1, 1, 1],
    groups: 1,
    lengths: [3, 4, 7],
  },
];

for (const device of hasOpenCL ? ["cpu", "cl"] as const : ["cpu"] as const) {
  Deno.test(`phases put every product where it came from, on ${device}`, () =>
    withDevice(device, () => {
      for (const { kernel, lengths, ...geometry } of cases) {
        const { stride, padding, dilation, groups } = geometry;
        const positions = lengths.map((n, k) =>
          Math.floor((n + 2 * padding[k]! - (kernel[k]! - 1) * dilation[k]! - 1) / stride[k]!) + 1
        );
        const g = whole([2, 2 * groups, ...positions], 5), w = whole([2 * groups, 3, ...kernel], 3);
        const expected = adjoint(g, w, geometry, lengths);
        for (const minSaved of device === "cpu" ? [0, Infinity] : [0]) {
          const found = adjointProduct(g, w, { name: "conv", ...geometry }, lengths, minSaved);
          assertEquals(found.shape, [2, 3 * groups, ...lengths]);
          const values = [...found.toHostSync("float32")].map((v) => v + 0);
          assertEquals(values, expected.map((v) => v + 0), JSON.stringify({ kernel, ...geometry }));
        }
      }
    }));
}
