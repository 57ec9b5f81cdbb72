/** Graphs that were fused wrongly once, or not at all. */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { grad, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers } from "../numbers.ts";

testOnBackends("what a product reads is not computed by the product's kernel", async () => {
  const x = Tensor.arange(48, { dtype: "float32" }).div(50).reshape([6, 8]).realize();
  const twice = Tensor.eye(8).mul(2).realize();
  const z = x.exp();
  const y = z.add(z.matmul(twice).tanh().add(z));
  const expected = Array.from({ length: 48 }, (_, k) => {
    const v = Math.exp(k / 50);
    return 2 * v + Math.tanh(2 * v);
  });
  assertNumbers(await y.toHost(), expected, 1e-6);
});

testOnBackends("both axes of a repeated matrix are split in a reduction", () => {
  const x = Tensor.arange(6, { dtype: "float32" }).add(1).reshape([2, 3]).realize();
  const means = Float32Array.of(2.5, 3.5, 4.5, 2.5, 3.5, 4.5);
  assertEquals(x.repeat([2, 2]).mean(0).toHostSync(), means);
  assertEquals(x.repeat([2, 2]).sum(1).toHostSync(), Float32Array.of(12, 30, 12, 30));
});

testOnBackends("an index that is read from memory picks from a repeated tensor", () => {
  const x = Tensor.arange(4, { dtype: "float32" }).add(1).realize();
  const indices = Tensor.fromHost(Int32Array.of(0, 5, 7));
  assertEquals(x.repeat([2]).indexSelect(0, indices).toHostSync(), Float32Array.of(1, 2, 4));
  assertEquals(x.repeat([2]).mul(2).gather(0, indices).toHostSync(), Float32Array.of(2, 4, 8));
});

testOnBackends("what was picked at an index from one element is not stored there", () => {
  const x = Tensor.fromHost([[3]], { requiresGrad: true });
  const [first] = grad([x.sort().values.neg().sin().sum()], [x], { createGraph: true });
  const [second] = grad([first!.square().sum()], [x]);
  assertAlmostEquals(first!.itemSync(), -Math.cos(3), 1e-6);
  assertAlmostEquals(second!.itemSync(), -Math.sin(6), 1e-6);
});

testOnBackends("nothing in, something out", () => {
  const none = Tensor.zeros([3, 0]).realize(), across = Tensor.zeros([0, 4]).realize();
  assertEquals(none.sum().add(1).itemSync(), 1);
  assertEquals(none.matmul(across).toHostSync(), new Float32Array(12));
  const indices = Tensor.zeros([0, 4], { dtype: "int32" }).realize();
  const x = Tensor.ones([2, 4]).realize();
  assertEquals(x.scatterAdd(0, indices, across).toHostSync(), new Float32Array(8).fill(1));
  assertEquals(none.softmax(1).shape, [3, 0]);
  assertEquals(none.logSoftmax(0).shape, [3, 0]);
});

testOnBackends("the largest element has a gradient, however it was computed before", () => {
  const data = Float32Array.from({ length: 40 }, (_, k) => Math.sin(k * 1.7));
  const x = Tensor.fromHost(data, { shape: [8, 5], requiresGrad: true });
  const scaled = x.mul(1 / 3).add(0.1).mul(x).sin();
  const top = scaled.max(1);
  const before = top.toHostSync();
  top.realize();
  top.sum().backward();
  const gradient = x.grad!.toHostSync("float32");
  assertEquals(before.length, 8);
  for (let row = 0; row < 8; row++) {
    const part = gradient.subarray(5 * row, 5 * row + 5);
    assertEquals(part.filter((g) => g !== 0).length, 1, `${part}`);
  }
});

testOnBackends("indices that are computed are not looked at around what is padded", async () => {
  // Beyond its ends the sequence goes on to -1 and to 3, which are no classes.
  const hot = Tensor.arange(0, 3).oneHot(3).cast("float32");
  const padded = hot.pad([[1, 1], [0, 0]]);
  assertEquals(await padded.toArray(), [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]);
  const around = Tensor.concat([hot.slice([2, null]), hot.slice([0, 2])]);
  assertEquals(await around.toArray(), [[0, 0, 1], [1, 0, 0], [0, 1, 0]]);
});
