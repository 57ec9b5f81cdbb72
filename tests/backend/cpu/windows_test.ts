import fc from "fast-check";
import { Tensor, withDevice } from "../../../mod.ts";
import { assertAgree } from "./strategies.ts";
import { testOnCPU } from "../../opencl.ts";

/** Gradients of the means of windows for weights. */
function gradient(
  image: readonly number[],
  kernel: number,
  stride: number,
  dilation: number,
): Tensor {
  const x = Tensor.zeros([...image], { requiresGrad: true });
  const means = x.avgPool2d([kernel, kernel + 1], { stride, dilation });
  const values = Float32Array.from({ length: means.size }, (_, k) => (k * 7919 % 1009) / 8 - 60);
  const weights = Tensor.fromHost(values, { shape: means.shape });
  means.mul(weights).sum().backward();
  return x.grad!;
}

Deno.test("windows are added up as by the reference, wherever they begin and whatever lies between", () => {
  const small = fc.integer({ min: 1, max: 3 }), side = fc.integer({ min: 8, max: 41 });
  const geometry = fc.tuple(small, small, small, small, side, side);
  withDevice("cpu", () => {
    const holds = fc.property(
      geometry,
      ([batch, kernel, stride, dilation, h, w]) =>
        assertAgree(() => gradient([batch, 2, h + 2, w + 4], kernel, stride, dilation)),
    );
    fc.assert(holds, { numRuns: 15 });
  });
});

testOnCPU("the gradient of pooling is that of the reference, where windows overlap", () => {
  for (const [kernel, stride, padding] of [[3, 2, 1], [3, 1, 1], [5, 3, 2], [2, 3, 0]] as const) {
    assertAgree(() => {
      const values = Float32Array.from({ length: 3 * 19 * 23 }, (_, k) => k * 7919 % 101);
      const x = Tensor.fromHost(values, { shape: [1, 3, 19, 23], requiresGrad: true });
      x.maxPool2d(kernel, { stride, padding }).square().sum().backward();
      return x.grad!;
    });
  }
});
