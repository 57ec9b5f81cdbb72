import { assertEquals } from "@std/assert";
import { Tensor } from "../../../../mod.ts";
import { col2im } from "../../../../tensor/ops/shaping/im2col.ts";
import { testOnBackends } from "../../../opencl.ts";

/** Sums of windows along an axis of `n` elements, by their definition. */
function sums(x: readonly number[], n: number, taps: number, stride: number, dilation: number) {
  const out = new Array<number>(n).fill(0);
  x.forEach((value, k) => out[Math.floor(k / taps) * stride + k % taps * dilation]! += value);
  return out;
}

testOnBackends("col2im adds up windows of every step, stretch and size", async () => {
  for (const stride of [1, 2, 3]) {
    for (const dilation of [1, 2, 4]) {
      for (const taps of [1, 2, 5]) {
        for (const behind of new Set([0, stride - 1])) {
          const positions = 4, n = (positions - 1) * stride + (taps - 1) * dilation + 1 + behind;
          const x = Array.from({ length: positions * taps }, (_, k) => k * 37 % 11 - 5);
          const windows = Tensor.fromHost(x, { shape: [positions, taps], requiresGrad: true });
          const image = col2im(windows, [n], [stride], [dilation]);
          const name = `steps ${stride}, stretch ${dilation}, ${taps} taps`;
          assertEquals(await image.toArray(), sums(x, n, taps, stride, dilation), name);
          image.mul(Tensor.arange(n)).sum().backward();
          const places = x.map((_, k) => Math.floor(k / taps) * stride + k % taps * dilation);
          assertEquals(await windows.grad!.reshape([-1]).toArray(), places, name);
        }
      }
    }
  }
});
