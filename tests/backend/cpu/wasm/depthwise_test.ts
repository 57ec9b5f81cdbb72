import { assert, assertEquals } from "@std/assert";
import { type DType, manualSeed, noGrad, Tensor } from "../../../../mod.ts";
import { strategyWith } from "../../../../backend/cpu/strategy/strategy.ts";
import { WasmRuntime } from "../../../../backend/cpu/wasm/runtime.ts";
import { backendWith, learned, normal, numbersOf, sourcesOf, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";
import { assertNear } from "../../near.ts";
import { kernelsOf } from "../../loop_kernels.ts";

/** Images, channels, height, width, taps, padding: rests of rows and vectors, and none. */
const cases: readonly (readonly number[])[] = [
  [3, 8, 16, 16, 7, 3],
  [2, 5, 13, 11, 3, 1],
  [2, 4, 9, 30, 5, 0],
  [3, 6, 8, 9, 2, 0],
  [1, 3, 70, 66, 3, 2],
];

/** A convolution of each channel by itself, and its gradients by image and kernels. */
function results(given: readonly number[], dtype: DType): Tensor[] {
  const [n, c, h, w, k, padding] = given as [number, number, number, number, number, number];
  manualSeed(3);
  const [image, kernels] = [[n, c, h, w], [c, 1, k, k]]
    .map((shape) => learned(normal(shape, dtype).detach())) as [Tensor, Tensor];
  const y = image.conv2d(kernels, { padding, groups: c });
  y.mul(normal(y.shape, dtype)).sum().backward();
  return [y.detach(), image.grad!, kernels.grad!];
}

function isByChannel(tensor: Tensor): boolean {
  return sourcesOf(tensor).some((source) => source.includes("by themselves"));
}

testOnCPU("channels convolved by themselves, and their gradients, are those of doubles", () => {
  for (const given of cases) {
    const wanted = results(given, "float64").map((t) => numbersOf(t));
    results(given, "float32").forEach((tensor, k) => {
      assert(isByChannel(tensor), `${given}`);
      const scale = Math.max(...wanted[k]!.map(Math.abs));
      assertNear(numbersOf(tensor), wanted[k]!, 3e-6 * scale, `${k} of ${given}`);
    });
  }
});

/** Height, width, taps, stride, dilation, padding: odd and even rows, rests, bands, zeros that no window sees. */
const steps: readonly (readonly [number, number, number, number, number, number])[] = [
  [20, 20, 3, 2, 1, 1],
  [19, 23, 5, 2, 1, 2],
  [9, 9, 3, 1, 2, 2],
  [16, 31, 3, 2, 2, 3],
  [7, 7, 3, 1, 1, 1],
  [8, 4, 2, 1, 1, 1],
  [300, 200, 3, 1, 1, 1],
  [257, 401, 5, 2, 1, 0],
  [5, 64, 7, 1, 1, 6],
];

testOnCPU("channels by themselves are padded as they are read, and steps and epilogues go", () => {
  manualSeed(5);
  const [bias, residual] = [3.5, 0.25];
  for (const [h, w, taps, stride, dilation, padding] of steps) {
    const image = normal([2, 5, h, w]), kernels = normal([5, 1, taps, taps]);
    const channels = noGrad(() => normal([5, 1, 1]).mul(bias).realize());
    const of = (dtype: DType): Tensor => {
      const y = image.cast(dtype).conv2d(kernels.cast(dtype), {
        ...{ groups: 5, stride, dilation, padding },
      });
      const beside = Tensor.arange(y.size).reshape(y.shape).mul(residual).cos().realize();
      const next = y.add(channels.cast(dtype)).clamp(-2, 6);
      return next.mul(beside.cast(dtype)).add(next.gt(1).where(beside.cast(dtype), 0));
    };
    const y = of("float32");
    assert(isByChannel(y), `${[h, w, taps, stride, dilation, padding]}`);
    assertEquals(kernelsOf(() => y).map(({ label }) => label).length, 1);
    assertNear(numbersOf(y), numbersOf(of("float64")), 3e-5, `${[h, w, taps, stride]}`);
  }
});

testOnCPU("several kernels a channel, long steps and half floats go other ways", () => {
  const image = normal([2, 8, 20, 20]), kernels = normal([8, 1, 3, 3]);
  const others = [
    image.conv2d(kernels, { groups: 8, stride: 3 }),
    image.conv2d(Tensor.randn([16, 1, 3, 3]).realize(), { groups: 8 }),
    image.cast("float16").conv2d(kernels.cast("float16"), { groups: 8 }),
  ];
  assertEquals(others.map(isByChannel), [false, false, false]);
  assertEquals(isByChannel(image.conv2d(kernels, { groups: 8 })), true);
  assertEquals(numbersOf(Tensor.zeros([0, 8, 20, 20]).conv2d(kernels, { groups: 8 })), []);
});

testOnCPU("infinity in an image reaches its windows, and the taps that see it", () => {
  const pixels = new Float32Array(2 * 144).fill(1);
  pixels[4 * 12 + 11] = Infinity;
  const image = Tensor.fromHost(pixels, { shape: [1, 2, 12, 12] });
  const kernels = learned(Tensor.ones([2, 1, 3, 3]).realize());
  const y = image.conv2d(kernels, { groups: 2 });
  assert(isByChannel(y));
  numbersOf(y.detach()).forEach((value, k) => {
    const row = Math.floor(k / 10), column = k % 10;
    assertEquals(value, k < 100 && row >= 2 && row <= 4 && column === 9 ? Infinity : 9);
  });
  y.sum().backward();
  const taps = numbersOf(kernels.grad!);
  assertEquals(taps, taps.map((_, k) => k < 9 && k % 3 === 2 ? Infinity : 100));
});

testOnCPU("gradients of kernels do not drift over large images", () => {
  const image = noGrad(() => Tensor.full([4, 2, 200, 200], 0.1).realize());
  const kernels = learned(Tensor.ones([2, 1, 3, 3]).realize());
  const weights = noGrad(() => Tensor.full([4, 2, 198, 198], 0.7).realize());
  image.conv2d(kernels, { groups: 2 }).mul(weights).sum().backward();
  assert(isByChannel(kernels.grad!));
  const wanted = 4 * 198 * 198 * Math.fround(0.1) * Math.fround(0.7);
  assertNear(numbersOf(kernels.grad!), Array(18).fill(wanted), 3e-6 * wanted);
});

testOnCPU("channels by themselves have the same bits with any number of threads", () => {
  const strategy = strategyWith(null), { memory } = wasmBackend.strategy.wasm!;
  const { relaxed, hasPrivatePages } = strategy.wasm!;
  const [alone, three] = [1, 3].map((threads) => {
    const wasm = new WasmRuntime(memory, threads, { relaxed, hasPrivatePages });
    return results(cases[0]!, "float32").map((t) =>
      numbersOf(t, backendWith({ ...strategy, wasm }))
    );
  });
  assertEquals(three, alone);
});
