/** Gradients of images under convolutions with steps, and transposed convolutions: their values and their cost. */
import { assert, assertEquals } from "@std/assert";
import { schedule } from "../../../backend/internal.ts";
import { extent } from "../../../backend/kernel/kernel.ts";
import { noGrad, Tensor } from "../../../mod.ts";
import { adjointProduct } from "../../../tensor/ops/images/adjoint.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

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
    const backward = productsOf(x.grad!), what = `${kernel}x${kernel} in steps of ${stride}`;
    assert(backward <= 1.1 * forward, `${what}: ${backward} products, forward ${forward}`);
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
  const indices = (shape: readonly number[], at: number): number[] => {
    const found: number[] = [];
    for (const m of shape.toReversed()) found.unshift(at % m), at = Math.floor(at / m);
    return found;
  };
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

/** Kernel, steps, padding, dilation, lengths and groups: a number for each axis, as digits. */
type Row = readonly [string, string, string, string, lengths: readonly number[], groups?: number];

/** Kernels shorter and longer than steps, steps of one axis, paddings beyond the kernel, lengths that nothing divides. */
const cases: readonly Row[] = [
  ["33", "22", "11", "11", [9, 8]],
  ["11", "23", "00", "11", [7, 8]],
  ["42", "22", "10", "11", [6, 7], 2],
  ["53", "31", "21", "11", [11, 5]],
  ["23", "32", "45", "11", [5, 3]],
  ["33", "22", "20", "21", [9, 8]],
  ["7", "4", "3", "1", [29], 3],
  ["132", "223", "011", "111", [3, 4, 7]],
];

testOnBackends("phases put every product where it came from", (backend) => {
  for (const [kernels, strides, paddings, dilations, lengths, groups = 1] of cases) {
    const [kernel, stride, padding, dilation] = [kernels, strides, paddings, dilations]
      .map((digits) => Array.from(digits, Number)) as [number[], number[], number[], number[]];
    const geometry = { stride, padding, dilation, groups };
    const positions = lengths.map((n, k) =>
      Math.floor((n + 2 * padding[k]! - (kernel[k]! - 1) * dilation[k]! - 1) / stride[k]!) + 1
    );
    const g = whole([2, 2 * groups, ...positions], 5), w = whole([2 * groups, 3, ...kernel], 3);
    const expected = adjoint(g, w, geometry, lengths);
    for (const minSaved of backend === "cpu" ? [0, Infinity] : [0]) {
      const found = adjointProduct(g, w, { name: "conv", ...geometry }, lengths, minSaved);
      assertEquals(found.shape, [2, 3 * groups, ...lengths]);
      const values = [...found.toHostSync("float32")].map((v) => v + 0);
      assertEquals(values, expected.map((v) => v + 0), JSON.stringify({ kernel, ...geometry }));
    }
  }
});
