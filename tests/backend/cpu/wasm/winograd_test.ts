import { assert, assertEquals } from "@std/assert";
import { type DType, manualSeed, noGrad, Tensor } from "../../../../mod.ts";
import { strategyWith } from "../../../../backend/cpu/strategy/strategy.ts";
import { WasmRuntime } from "../../../../backend/cpu/wasm/runtime.ts";
import { backendWith, learned, normal, numbersOf, sourcesOf, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

type Sizes = readonly [
  images: number,
  channels: number,
  height: number,
  width: number,
  out: number,
];

/** Images whose sides tiles of four divide, and those that they do not; rests of groups and panels. */
const sizes: readonly Sizes[] = [
  [2, 16, 16, 16, 16],
  [3, 17, 13, 22, 19],
  [4, 64, 14, 7, 40],
  [9, 24, 5, 31, 12],
  [4, 150, 9, 9, 33],
];

const scaled = (shape: readonly number[], scale: number): Tensor =>
  noGrad(() => normal(shape).mul(scale).realize());

/** A convolution and its gradients by image and kernels, all of one type. */
function results([n, c, h, w, o]: Sizes, dtype: DType, options = {}): Tensor[] {
  manualSeed(5);
  const [image, kernels] = [normal([n, c, h, w]), scaled([o, c, 3, 3], 1 / Math.sqrt(9 * c))]
    .map((t) => learned(noGrad(() => t.cast(dtype).detach().realize()))) as [Tensor, Tensor];
  const y = image.conv2d(kernels, { padding: 1, ...options });
  y.mul(normal(y.shape).cast(dtype)).sum().backward();
  return [y.detach(), image.grad!, kernels.grad!];
}

function isMinimal(tensor: Tensor): boolean {
  return sourcesOf(tensor).some((source) => source.includes("minimal filtering"));
}

/** The largest difference, and the root of the mean square, of the wanted values' own. */
function errorsOf(found: readonly number[], wanted: readonly number[]): [number, number] {
  let most = 0, squares = 0, scale = 0;
  wanted.forEach((value, k) => {
    most = Math.max(most, Math.abs(found[k]! - value));
    squares += (found[k]! - value) ** 2;
    scale += value ** 2;
  });
  return [most / Math.sqrt(scale / wanted.length), Math.sqrt(squares / scale)];
}

testOnCPU("convolutions by minimal filtering and their gradients keep float32's digits", () => {
  for (const size of sizes) {
    const wanted = results(size, "float64").map((t) => numbersOf(t));
    results(size, "float32").forEach((tensor, k) => {
      const what = `${["result", "image", "kernels"][k]} of ${size}`;
      assert(isMinimal(tensor), what);
      const [most, usual] = errorsOf(numbersOf(tensor), wanted[k]!);
      assert(most < 2.5e-5 && usual < 2e-6, `${what}: ${most}, ${usual}`);
    });
  }
});

testOnCPU("what follows a convolution, and results within a larger buffer, are as ever", () => {
  manualSeed(6);
  const image = normal([2, 16, 13, 18]), bias = normal([24]);
  const kernels = [scaled([24, 16, 3, 3], 0.1), scaled([24, 16, 3, 3], 0.1)];
  const make = (dtype: DType): Tensor => {
    const parts = kernels.map((k) =>
      image.cast(dtype).conv2d(k.cast(dtype), { padding: 1, bias: bias.cast(dtype) }).relu()
    );
    return Tensor.concat(parts, 1);
  };
  assert(isMinimal(make("float32")));
  const [most] = errorsOf(numbersOf(make("float32")), numbersOf(make("float64")));
  assert(most < 1e-5, `${most}`);
});

testOnCPU("other convolutions are computed directly", () => {
  const image = normal([2, 16, 24, 24]), kernels = normal([16, 16, 3, 3]);
  const direct: Record<string, () => Tensor> = {
    stride: () => image.conv2d(kernels, { stride: 2 }),
    dilation: () => image.conv2d(kernels, { dilation: 2 }),
    groups: () => image.conv2d(normal([16, 4, 3, 3]), { groups: 4 }),
    "5x5": () => image.conv2d(normal([16, 16, 5, 5])),
    "1x1": () => image.conv2d(normal([64, 16, 1, 1])),
    "few rows": () => normal([40, 16, 5, 40]).conv2d(kernels),
    small: () => normal([1, 16, 6, 6]).conv2d(kernels),
    float64: () => image.cast("float64").conv2d(kernels.cast("float64")),
    float16: () => image.cast("float16").conv2d(kernels.cast("float16")),
  };
  for (const [name, make] of Object.entries(direct)) assert(!isMinimal(make()), name);
  assertEquals(numbersOf(normal([0, 16, 24, 24]).conv2d(kernels)), []);
  assert(isMinimal(image.conv2d(kernels)));
});

testOnCPU("numbers that are not finite reach what sees them, and nothing else", () => {
  for (const bad of [NaN, Infinity, -Infinity, 3e38]) {
    manualSeed(7);
    const clean = normal([1, 16, 32, 32]), kernels = normal([16, 16, 3, 3]);
    const spot = new Float32Array(clean.size);
    spot[3 * 1024 + 10 * 32 + 11] = bad;
    const image = noGrad(() => clean.add(Tensor.fromHost(spot, { shape: clean.shape })).realize());
    const y = image.conv2d(kernels, { padding: 1 });
    assert(isMinimal(y));
    const found = numbersOf(y), wanted = numbersOf(clean.conv2d(kernels, { padding: 1 }));
    found.forEach((value, k) => {
      const row = Math.floor(k / 32) % 32, column = k % 32;
      const sees = Math.abs(row - 10) <= 1 && Math.abs(column - 11) <= 1;
      if (sees) return assert(!(Math.abs(value) < 1e30), `${value} beside ${bad}`);
      assert(Math.abs(value - wanted[k]!) < 1e-3, `${value} for ${wanted[k]} far from ${bad}`);
    });
  }
});

testOnCPU("a number much larger than others has no influence on what does not see it", () => {
  const side = 32, kernels = scaled([16, 16, 3, 3], 1 / 12);
  const spots = [[1e6, 10, 11], [1e30, 31, 0], [4e3, 17, 16], [-1e6, 0, 31], [100, 5, 6]] as const;
  for (const [size, row, column] of spots) {
    manualSeed(8);
    const image = Float32Array.from(Tensor.rand([2 * 16 * side * side]).toHostSync("float32"));
    const make = (): Tensor => Tensor.fromHost(image.slice(), { shape: [2, 16, side, side] });
    const wanted = numbersOf(
      make().cast("float64").conv2d(kernels.cast("float64"), { padding: 1 }),
    );
    image[(16 + 3) * side * side + row * side + column] = size;
    const y = make().conv2d(kernels, { padding: 1 });
    assert(isMinimal(y));
    numbersOf(y).forEach((value, k) => {
      const at = [Math.floor(k / side) % side - row, k % side - column];
      const sees = k >= 16 * side * side && at.every((distance) => Math.abs(distance) <= 1);
      if (!sees) assert(Math.abs(value - wanted[k]!) < 1e-5, `${value}, not ${wanted[k]} (${k})`);
    });
  }
});

testOnCPU("a gradient that is not finite gives such kernels, by the taps that see it", () => {
  const image = normal([2, 16, 16, 16]);
  const kernels = learned(normal([16, 16, 3, 3]));
  const y = image.conv2d(kernels, { padding: 1 });
  const weights = new Float32Array(y.size);
  weights[5 * 256] = Infinity;
  y.mul(Tensor.fromHost(weights, { shape: y.shape })).sum().backward();
  assert(isMinimal(kernels.grad!));
  const found = numbersOf(kernels.grad!);
  found.forEach((value, k) => {
    const output = Math.floor(k / 144), row = Math.floor(k % 9 / 3), column = k % 3;
    const sees = output === 5 && row > 0 && column > 0;
    // 0 times infinity is NaN in every tap of that output: padding is zeros.
    if (output === 5) assertEquals(Number.isFinite(value), false, `${value} at ${k}`);
    else assertEquals(value, 0);
    if (sees) assertEquals(Math.abs(value), Infinity);
  });
});

testOnCPU("the bits are the same again, and with any number of threads", () => {
  const strategy = strategyWith(null), { memory } = wasmBackend.strategy.wasm!;
  const { relaxed, hasPrivatePages } = strategy.wasm!;
  const runtimes = [1, 3, 5].map((threads) =>
    new WasmRuntime(memory, threads, { relaxed, hasPrivatePages })
  );
  for (const size of sizes.slice(0, 3)) {
    const bits = [
      wasmBackend,
      wasmBackend,
      ...runtimes.map((wasm) => backendWith({ ...strategy, wasm })),
    ].map((backend) => results(size, "float32").map((t) => numbersOf(t, backend)));
    for (const other of bits.slice(1)) assertEquals(other, bits[0]);
  }
});

testOnCPU("minimal filtering is the same in engines without memories of a module's own", () => {
  const strategy = strategyWith(null), { memory } = wasmBackend.strategy.wasm!;
  const [own, shared] = [true, false].map((hasPrivatePages) => {
    const wasm = new WasmRuntime(memory, 2, { relaxed: false, hasPrivatePages });
    return results(sizes[1]!, "float32").map((t) =>
      numbersOf(t, backendWith({ ...strategy, wasm }))
    );
  });
  assertEquals(shared, own);
  const wanted = results(sizes[1]!, "float64").map((t) => numbersOf(t));
  own!.forEach((values, k) => assert(errorsOf(values, wanted[k]!)[0] < 2.5e-5));
});
