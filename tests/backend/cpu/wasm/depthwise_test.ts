import { assert, assertEquals } from "@std/assert";
import { type DType, manualSeed, noGrad, Tensor } from "../../../../mod.ts";
import { schedule } from "../../../../backend/schedule/schedule.ts";
import { strategyWith } from "../../../../backend/cpu/strategy/strategy.ts";
import { WasmRuntime } from "../../../../backend/cpu/wasm/runtime.ts";
import { nodeOf } from "../../../../tensor/core/internals.ts";
import { backendWith, compute, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

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
  const [image, kernels] = [[n, c, h, w], [c, 1, k, k]].map((shape) => {
    const t = noGrad(() => Tensor.randn(shape).cast(dtype).detach().realize());
    t.requiresGrad = true;
    return t;
  }) as [Tensor, Tensor];
  const y = image.conv2d(kernels, { padding, groups: c });
  y.mul(noGrad(() => Tensor.randn(y.shape).cast(dtype).realize())).sum().backward();
  return [y.detach(), image.grad!, kernels.grad!];
}

function numbers(tensor: Tensor, backend = wasmBackend): number[] {
  return compute(backend, tensor).map(Number);
}

function isByChannel(tensor: Tensor): boolean {
  const kernels = schedule([nodeOf(tensor)]).kernels.map(({ kernel }) => kernel);
  return wasmBackend.prepare(kernels).some(({ source }) => source.includes("by themselves"));
}

testOnCPU(
  "channels that are convolved by themselves, and their gradients, are those of doubles",
  () => {
    for (const given of cases) {
      const wanted = results(given, "float64").map((t) => numbers(t));
      results(given, "float32").forEach((tensor, k) => {
        assert(isByChannel(tensor), `${given}`);
        const scale = Math.max(...wanted[k]!.map(Math.abs));
        numbers(tensor).forEach((value, i) => {
          const error = Math.abs(value - wanted[k]![i]!);
          assert(error < 3e-6 * scale, `${value}, not ${wanted[k]![i]} at ${i} of ${k}: ${given}`);
        });
      });
    }
  },
);

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

testOnCPU(
  "channels by themselves are padded as they are read, in steps, with what follows them",
  () => {
    manualSeed(5);
    const [bias, residual] = [3.5, 0.25];
    for (const [h, w, taps, stride, dilation, padding] of steps) {
      const image = noGrad(() => Tensor.randn([2, 5, h, w]).realize());
      const kernels = noGrad(() => Tensor.randn([5, 1, taps, taps]).realize());
      const channels = noGrad(() => Tensor.randn([5, 1, 1]).mul(bias).realize());
      const of = (dtype: DType): Tensor => {
        const y = image.cast(dtype).conv2d(kernels.cast(dtype), {
          ...{ groups: 5, stride, dilation, padding },
        });
        const beside = Tensor.arange(y.size).reshape(y.shape).mul(residual).cos().realize();
        const next = y.add(channels.cast(dtype)).clamp(-2, 6);
        return next.mul(beside.cast(dtype)).add(next.gt(1).where(beside.cast(dtype), 0));
      };
      const wanted = numbers(of("float64")), [y] = [of("float32")];
      assert(isByChannel(y), `${[h, w, taps, stride, dilation, padding]}`);
      const kinds = schedule([nodeOf(y)]).kernels.map(({ kernel }) => kernel.label);
      assertEquals(kinds.length, 1, `${kinds}`);
      numbers(y).forEach((value, k) => {
        const error = Math.abs(value - wanted[k]!);
        assert(error < 3e-5, `${value}, not ${wanted[k]} at ${k}: ${[h, w, taps, stride]}`);
      });
    }
  },
);

testOnCPU("several kernels a channel, long steps and half floats go other ways", () => {
  const image = noGrad(() => Tensor.randn([2, 8, 20, 20]).realize());
  const kernels = noGrad(() => Tensor.randn([8, 1, 3, 3]).realize());
  const others = [
    image.conv2d(kernels, { groups: 8, stride: 3 }),
    image.conv2d(Tensor.randn([16, 1, 3, 3]).realize(), { groups: 8 }),
    image.cast("float16").conv2d(kernels.cast("float16"), { groups: 8 }),
  ];
  assertEquals(others.map(isByChannel), [false, false, false]);
  assertEquals(isByChannel(image.conv2d(kernels, { groups: 8 })), true);
  assertEquals(numbers(Tensor.zeros([0, 8, 20, 20]).conv2d(kernels, { groups: 8 })), []);
});

testOnCPU("infinity in an image reaches its windows, and the taps that see it", () => {
  const pixels = new Float32Array(2 * 144).fill(1);
  pixels[4 * 12 + 11] = Infinity;
  const image = Tensor.fromHost(pixels, { shape: [1, 2, 12, 12] });
  const kernels = Tensor.ones([2, 1, 3, 3]).realize();
  kernels.requiresGrad = true;
  const y = image.conv2d(kernels, { groups: 2 });
  assert(isByChannel(y));
  numbers(y.detach()).forEach((value, k) => {
    const row = Math.floor(k / 10), column = k % 10;
    assertEquals(value, k < 100 && row >= 2 && row <= 4 && column === 9 ? Infinity : 9);
  });
  y.sum().backward();
  const taps = numbers(kernels.grad!);
  assertEquals(taps, taps.map((_, k) => k < 9 && k % 3 === 2 ? Infinity : 100));
});

testOnCPU("gradients of kernels do not drift over large images", () => {
  const image = noGrad(() => Tensor.full([4, 2, 200, 200], 0.1).realize());
  const kernels = Tensor.ones([2, 1, 3, 3]).realize();
  kernels.requiresGrad = true;
  const weights = noGrad(() => Tensor.full([4, 2, 198, 198], 0.7).realize());
  image.conv2d(kernels, { groups: 2 }).mul(weights).sum().backward();
  assert(isByChannel(kernels.grad!));
  const wanted = 4 * 198 * 198 * Math.fround(0.1) * Math.fround(0.7);
  for (const value of numbers(kernels.grad!)) {
    assert(Math.abs(value / wanted - 1) < 3e-6, `${value / wanted - 1}`);
  }
});

testOnCPU("channels by themselves have the same bits with any number of threads", () => {
  const strategy = strategyWith(null), { memory } = wasmBackend.strategy.wasm!;
  const { relaxed, hasPrivatePages } = strategy.wasm!;
  const [alone, three] = [1, 3].map((threads) => {
    const wasm = new WasmRuntime(memory, threads, { relaxed, hasPrivatePages });
    return results(cases[0]!, "float32").map((t) => numbers(t, backendWith({ ...strategy, wasm })));
  });
  assertEquals(three, alone);
});
