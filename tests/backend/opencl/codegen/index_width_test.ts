/** Kernels count in 32 bits where that suffices, else in 64: what is written, and that it is right. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { backendOf } from "../../../../backend/internal.ts";
import { NARROW_END } from "../../../../backend/kernel/index_range.ts";
import { type DeviceHandle, manager, Tensor, withDevice } from "../../../../mod.ts";
import type { OpenCLBackend } from "../../../../backend/opencl/runtime/opencl_backend.ts";
import { testOpenCL } from "../../../opencl.ts";

/** Nothing is stored: only the text of the kernels is asked for. */
const N = 2 ** 31 + 16;
const bytes = (shape: readonly number[]): Tensor => Tensor.full(shape, 1, { dtype: "uint8" });
const places = (...list: number[]): Tensor => Tensor.fromHost(BigInt64Array.from(list, BigInt));

const large: Readonly<Record<string, () => Tensor>> = {
  fill: () => bytes([N]),
  elementwise: () => Tensor.arange(0, N, 1, { dtype: "float32" }).mul(3).exp(),
  broadcast: () => Tensor.rand([2 ** 16, 1]).add(Tensor.rand([2 ** 15 + 1])),
  slice: () => Tensor.arange(0, N, 1, { dtype: "int64" }).slice([N - 3, N]),
  flip: () => Tensor.arange(0, N, 1, { dtype: "int64" }).flip(0),
  pad: () => bytes([4]).pad([[N, 0]]),
  permute: () => Tensor.rand([2 ** 16, 2 ** 15 + 1]).permute([1, 0]),
  sum: () => bytes([N]).sum(),
  rows: () => Tensor.rand([2, N]).sum(1),
  columns: () => Tensor.rand([N / 16, 16]).sum(0),
  softmax: () => Tensor.rand([4, 2 ** 29]).softmax(1),
  argmax: () => bytes([N]).argmax(0),
  gather: () => bytes([N]).gather(0, places(N - 1, 0)),
  embedding: () => Tensor.rand([2 ** 22, 512]).indexSelect(0, places(2 ** 22 - 1)),
  scatter: () => bytes([N]).scatter(0, places(1), bytes([1])),
  concat: () => Tensor.concat([bytes([N]), bytes([16])], 0),
  cumsum: () => bytes([4, 2 ** 29]).cumsum(1),
  argsort: () => Tensor.rand([2 ** 25, 64]).argsort(1),
  random: () => Tensor.rand([N]),
  matmul: () => Tensor.rand([2 ** 16, 2 ** 15]).matmul(Tensor.rand([2 ** 15, 4])),
  convolution: () => Tensor.rand([2 ** 15, 1, 256, 256]).conv2d(Tensor.rand([1, 1, 3, 3])),
};

/** The kernels that a tensor takes. */
function textOf(make: () => Tensor, device = "cl"): string {
  return withDevice(device, () => make().explain());
}

for (const [name, make] of Object.entries(large)) {
  testOpenCL(`${name} counts in 64 bits beyond 2^31`, () => {
    const text = textOf(make);
    const kernels = text.split(/^kernel void /m).slice(1);
    assert(kernels.length > 0, text);
    const wide = kernels.filter((kernel) => /\bconst long p\d/.test(kernel));
    assert(wide.length > 0, text);
    for (const kernel of wide) {
      assert(!/\bint (i\d+|row|from|behind|first|end|start) =/.test(kernel), kernel);
    }
  });
}

testOpenCL("kernels below that count in 32 bits", () => {
  for (const n of [1000, 2 ** 30, NARROW_END - 2 ** 20]) {
    const text = textOf(() => bytes([n]).sum()) + textOf(() => bytes([n]).add(1).flip(0));
    assertMatch(text, /const int p\d/);
    assert(!/\blong (p|i)\d/.test(text), text);
  }
  assertMatch(textOf(() => bytes([NARROW_END])), /const long p0/);
});

Deno.test("positions are int32, and int64 where that is too small", () => {
  const type = (n: number): string => bytes([n]).argmax(0).dtype;
  assertEquals(type(2 ** 31), "int32");
  assertEquals(type(2 ** 31 + 1), "int64");
  assertEquals(bytes([2, N]).argmin(1).dtype, "int64");
  assertEquals(bytes([N]).argsort().dtype, "int64");
  assertEquals(bytes([2, N]).argmax(0).dtype, "int32");
});

/** The same work on a device that counts in 64 bits always, and on the built-in backend. */
const cases: Readonly<Record<string, () => Tensor | Tensor[]>> = {
  elementwise: () => Tensor.arange(60).reshape([3, 20]).mul(Tensor.arange(20)).sqrt(),
  integers: () => Tensor.arange(0, 50, 1, { dtype: "int32" }).mul(7).remainder(5),
  bytes: () => bytes([77]).add(Tensor.arange(0, 77, 1, { dtype: "uint8" })),
  views: () => data([4, 6]).transpose().slice([1, 5, 2]).flip(0).pad([[1, 2], [0, 1]]),
  sums: () => [data([3, 50, 7]).sum(), data([3, 50, 7]).sum(1), data([3, 5, 70]).mean([0, 2])],
  many: () => data([200_000]).sum(),
  columns: () => data([9, 70]).sum(0),
  extremes: () => [data([37]).max(), data([5, 9]).argmax(1), data([3, 40]).argmin(0)],
  softmax: () => [data([5, 17]).softmax(1), data([5, 40]).logSoftmax(0), data([5, 5]).softmax(1)],
  cumsum: () => data([3, 11]).cumsum(1),
  sort: () => data([3, 11]).argsort(1),
  products: () => [
    data([5, 7]).matmul(data([7, 3])),
    data([33, 40]).matmul(data([40, 35])).add(1),
    data([33, 40]).matmul(data([35, 40]).transpose()),
    data([2, 3, 5]).matmul(data([2, 5, 4])),
  ],
  convolution: () => [
    data([2, 3, 9, 8]).conv2d(data([4, 3, 3, 3]), { bias: data([4]), stride: 2, padding: 1 }),
    data([2, 3, 9, 8]).conv2d(data([4, 3, 3, 3]), { padding: 1 }),
    data([2, 3, 8, 8]).maxPool2d(2),
  ],
  indices: () => [
    data([30, 5]).indexSelect(0, places(29, 0, 7)),
    Tensor.zeros([3, 5]).scatterAdd(
      0,
      places(2, 0, 2).reshape([3, 1]).expand([3, 5]),
      data([3, 5]),
    ),
    places(2, 0, 1).oneHot(4),
  ],
  random: () => Tensor.rand([40]).mul(0),
};

function data(shape: readonly number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return Tensor.fromHost(Float32Array.from({ length: size }, (_, i) => Math.sin(i + 1)), { shape });
}

function valuesOn(device: string | DeviceHandle, make: () => Tensor | Tensor[]): number[] {
  return withDevice(device, () => [make()].flat().flatMap((t) => [...t.toHostSync()].map(Number)));
}

/** Calls a function while the default device counts in 64 bits always. */
function alwaysWide(isGpu: boolean, fn: () => void): void {
  const backend = backendOf(manager.default("cl")) as OpenCLBackend;
  const value = { ...backend.target, narrowEnd: 0, isGpu };
  Object.defineProperty(backend, "target", { value, configurable: true });
  try {
    fn();
  } finally {
    Reflect.deleteProperty(backend, "target"); // the class has its own
  }
}

/** Asserts that a case computes there what the built-in backend computes. */
function checkWide(make: () => Tensor | Tensor[]): void {
  assertMatch(withDevice("cl", () => [make()].flat()[0]!.explain()), /const long p\d/);
  const expected = valuesOn("cpu", make), found = valuesOn("cl", make);
  assertEquals(found.length, expected.length);
  found.forEach((value, k) => {
    const error = Math.abs(value - expected[k]!);
    assert(error <= 1e-4 * (1 + Math.abs(expected[k]!)), `${value} is not ${expected[k]} at ${k}`);
  });
}

for (const isGpu of [false, true]) {
  for (const [name, make] of Object.entries(cases)) {
    testOpenCL(
      `${name}: kernels of 64-bit indices are right, written for a ${isGpu ? "GPU" : "CPU"}`,
      () => alwaysWide(isGpu, () => checkWide(make)),
    );
  }
}
