import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DTypeError, grad, manualSeed, nn, noGrad, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("Dropout drops while training only, and keeps the mean", async () => {
  manualSeed(4);
  const layer = new nn.Dropout(0.25);
  const x = Tensor.ones([200, 50], { requiresGrad: true });
  const y = layer.forward(x);
  y.sum().backward();
  const [out, gradient] = [await y.toHost(), await x.grad!.toHost()];
  assertEquals(out, gradient);
  assertEquals([...new Set([...out].map(Number))].sort(), [0, Math.fround(4 / 3)]);
  const kept = [...out].filter((v) => v !== 0).length / out.length;
  assertAlmostEquals(kept, 0.75, 0.02);
  const other = await layer.forward(x).toHost();
  assert(other.some((v, k) => v !== out[k]), "another draw");
  assertEquals(await layer.eval().forward(x).toHost(), await x.toHost());
  assertEquals(await new nn.Dropout(1).forward(Tensor.ones([3])).toArray(), [0, 0, 0]);
  assertEquals(await new nn.Dropout(0).forward(x).toHost(), await x.toHost());
  assertThrows(() => new nn.Dropout(1.5), RangeError, "1.5");
});

testOnBackends("Embedding looks vectors up; the padding does not learn", async () => {
  const layer = new nn.Embedding(4, 2, { paddingIndex: 1 });
  assertEquals(await layer.weight.slice(1).toArray(), [0, 0]);
  const ids = Tensor.fromHost(Int32Array.of(3, 1, 3, 0), { shape: [2, 2] });
  const out = layer.forward(ids);
  assertEquals(out.shape, [2, 2, 2]);
  out.sum().backward();
  assertEquals(await layer.weight.grad!.toArray(), [[1, 1], [0, 0], [0, 0], [2, 2]]);
  await assertRejects(
    () => layer.forward(Tensor.fromHost(Int32Array.of(4))).toHost(),
    RangeError,
    "embedding",
  );
  assertThrows(() => layer.forward(Tensor.ones([1])), DTypeError, "float32");
  assertThrows(() => new nn.Embedding(4, 2, { paddingIndex: 4 }), RangeError, "0 to 3");
});

testOnBackends("BatchNorm remembers the batches it was trained on", async () => {
  manualSeed(5);
  const layer = new nn.BatchNorm1d(3);
  const x = Tensor.randn([64, 3]).mul(2).add(1).realize();
  for (let k = 0; k < 60; k++) noGrad(() => layer.forward(x)).realize();
  await assertClose(layer.runningMean!, x.mean(0), 1e-2, "mean");
  await assertClose(layer.runningVar!, x.variance(0), 1e-2, "variance");
  assertEquals(await layer.numBatchesTracked!.item(), 60);
  const y = layer.eval().forward(x);
  assertAlmostEquals(await y.mean().item(), 0, 1e-2);
  assertAlmostEquals(await y.square().mean().item(), 1, 2e-2);
  assertEquals(await layer.numBatchesTracked!.item(), 60);
  const plain = new nn.BatchNorm2d(3, { affine: false, trackRunningStats: false }).eval();
  assertEquals(plain.parameters().length + plain.namedBuffers().length, 0);
  const image = x.reshape([16, 3, 2, 2]);
  assertAlmostEquals(await plain.forward(image).square().mean().item(), 1, 1e-3);
});

testOnBackends("BatchNorm: batches may be disposed before anything is read", async () => {
  const layer = new nn.BatchNorm1d(2);
  for (let k = 0; k < 3; k++) {
    using x = Tensor.fromHost([[k, 0], [k + 2, 4]]);
    using y = noGrad(() => layer.forward(x));
    await y.toHost();
  }
  const mean = 0.9 * (0.9 * 0.1 * 1 + 0.1 * 2) + 0.1 * 3;
  assertAlmostEquals((await layer.runningMean!.toHost())[0] as number, mean, 1e-6);
});

testOnBackends("normalization can be differentiated twice", async () => {
  const x = Tensor.fromHost([[1, 2, 4]], { requiresGrad: true });
  const f = (x: Tensor): Tensor => new nn.LayerNorm(3, { affine: false }).forward(x).pow(3).sum();
  const [first] = grad([f(x)], [x], { createGraph: true });
  const [second] = grad([first!.square().sum()], [x]);
  const h = 1e-2, values = [1, 2, 4];
  const squares = async (at: number[]): Promise<number> => {
    const moved = Tensor.fromHost([at], { requiresGrad: true });
    const [g] = grad([f(moved)], [moved]);
    return await g!.square().sum().item();
  };
  for (let k = 0; k < 3; k++) {
    const moved = (d: number): number[] => values.map((v, j) => j === k ? v + d : v);
    const expected = (await squares(moved(h)) - await squares(moved(-h))) / (2 * h);
    assertAlmostEquals((await second!.toHost())[k] as number, expected, 2e-2);
  }
});

testOnBackends("layers name the shapes that they do not take", () => {
  const rows: [layer: nn.Module, shape: number[], text: string][] = [
    [new nn.Linear(3, 2), [4, 5], "Linear on a tensor of shape [4, 5]: its last axis must have 3"],
    [new nn.LayerNorm([2, 3]), [3], "last axes must be [2, 3]"],
    [new nn.BatchNorm2d(3), [2, 4, 1, 1], "3 channels on axis 1"],
    [new nn.BatchNorm2d(3), [2, 3], "4 axes"],
    [new nn.BatchNorm1d(3), [1, 3], "one value a channel"],
    [new nn.Conv2d(3, 4, 3), [1, 2, 5, 5], "channels"],
  ];
  for (const [layer, shape, text] of rows) {
    assertThrows(() => layer.forward(Tensor.ones(shape)), ShapeError, text);
  }
  assertThrows(() => new nn.Conv2d(3, 4, 3, { groups: 2 }), RangeError, "2 groups");
});

testOnBackends("AvgPool2d counts padding as zeros, or not at all", async () => {
  const image = Tensor.arange(1, 10, { dtype: "float32" }).reshape([1, 1, 3, 3]);
  const means = (options: { countIncludePad?: boolean }) => {
    return new nn.AvgPool2d(2, { stride: 1, padding: 1, ...options }).forward(image).toArray();
  };
  const [first, last] = [[0.25, 0.75, 1.25, 0.75], [1.75, 3.75, 4.25, 2.25]];
  const counted = [first, [1.25, 3, 4, 2.25], [2.75, 6, 7, 3.75], last];
  const alone = [[1, 1.5, 2.5, 3], [2.5, 3, 4, 4.5], [5.5, 6, 7, 7.5], [7, 7.5, 8.5, 9]];
  assertEquals(await means({}), [[counted]]);
  assertEquals(await means({ countIncludePad: true }), [[counted]]);
  assertEquals(await means({ countIncludePad: false }), [[alone]]);
});

testOnBackends("Softmax, pooling and Flatten are the tensor's", async () => {
  const x = Tensor.arange(32, { dtype: "float32" }).reshape([2, 1, 4, 4]).realize();
  const same = (layer: nn.Module, expected: Tensor) =>
    assertClose(layer.forward(x), expected, 1e-6, layer.constructor.name);
  await same(new nn.Softmax(2), x.softmax(2));
  await same(new nn.MaxPool2d(2, { stride: 1 }), x.maxPool2d(2, { stride: 1 }));
  await same(new nn.AvgPool2d([2, 1]), x.avgPool2d([2, 1]));
  await same(new nn.AdaptiveAvgPool2d(1), x.mean([2, 3], { keepDims: true }));
  await same(new nn.Flatten(), x.reshape([2, 16]));
  await same(new nn.Flatten(0, 1), x.reshape([2, 4, 4]));
});
