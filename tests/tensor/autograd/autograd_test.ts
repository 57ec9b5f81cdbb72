/** Cases that `backward` refuses, and those that it leaves alone. */
import { assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DisposedError, grad, noGrad, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("a value that backward needs and that was assigned since is an error", () => {
  const w = Tensor.fromHost([2, 3], { requiresGrad: true });
  const loss = w.mul(w).sum();
  noGrad(() => w.assign(w.mul(10)));
  assertThrows(() => loss.backward(), Error, "Cannot go backward through mul");
});

testOnBackends("a value that backward does not need may be assigned", async () => {
  const w = Tensor.fromHost([2, 3], { requiresGrad: true });
  const loss = w.add(1).sum();
  noGrad(() => w.assign(w.mul(10)));
  loss.backward();
  assertEquals(await w.grad!.toArray(), [1, 1]);
  assertEquals(await w.toArray(), [20, 30]);
});

testOnBackends("the result of a recorded operation is not assigned", async () => {
  const w = Tensor.fromHost([0, 1], { requiresGrad: true });
  const y = w.exp();
  assertThrows(() => noGrad(() => y.assign(Tensor.zeros([2]))), TypeError, "detach() it first");
  y.sum().backward();
  assertEquals(await w.grad!.slice(0).item(), 1);
  const kept = y.detach();
  assertEquals(await kept.assign(Tensor.zeros([2])).toArray(), [0, 0]);
});

testOnBackends("backward takes its options alone, or behind a gradient", async () => {
  const x = Tensor.full([1], 3, { requiresGrad: true }), y = x.square();
  y.backward({ retainGraph: true });
  y.backward(Tensor.ones([1]), { retainGraph: true });
  y.backward({ createGraph: true });
  assertEquals(await x.grad!.toArray(), [18]);
  y.backward();
  assertThrows(() => x.square().sum().backward({ retain: true } as never), TypeError, "retain");
});

testOnBackends("going backward twice needs retainGraph", () => {
  const w = Tensor.ones([2], { requiresGrad: true });
  const loss = w.mul(w).sum();
  loss.backward(undefined, { retainGraph: true });
  loss.backward();
  assertThrows(() => loss.backward(), Error, "a second time");
});

testOnBackends("an index out of range names the operation, and work goes on", async () => {
  const m = Tensor.arange(6).reshape([2, 3]);
  const picked = m.indexSelect(1, Tensor.fromHost(Int32Array.of(0, 7)));
  await assertRejects(() => picked.toHost(), RangeError, "indexSelect: the index 7");
  assertEquals(await m.sum().item(), 15);
});

testOnBackends("a graph of 100,000 operations goes backward", async () => {
  const x = Tensor.fromHost([1], { requiresGrad: true });
  let y = x;
  for (let k = 0; k < 100_000; k++) y = y.add(1);
  const sum = y.sum();
  sum.backward();
  assertEquals(await x.grad!.toArray(), [1]);
  // Without it the next schedules would plan 100,000 operations again and again, and read as many
  // numbers.
  for (const tensor of [x.grad!, sum, y]) tensor.dispose();
});

testOnBackends("the second derivative of a product counts its zeros", async () => {
  // Of abc: row i of the matrix of second derivatives times (1, 2, 3).
  const cases = [
    [[2, 3, 5], [19, 11, 7]],
    [[0, 3, 5], [19, 5, 3]],
    [[0, 0, 5], [10, 5, 0]],
    [[0, 0, 0], [0, 0, 0]],
  ] as const;
  for (const [values, expected] of cases) {
    const x = Tensor.fromHost([...values], { requiresGrad: true });
    const [first] = grad([x.prod()], [x], { createGraph: true });
    const [second] = grad([first!.mul(Tensor.fromHost([1, 2, 3])).sum()], [x]);
    (await second!.toHost()).forEach((value, k) => {
      assertAlmostEquals(Number(value), expected[k]!, 1e-4);
    });
  }
});

const disposals: Record<string, (y: Tensor) => Tensor> = {
  "not computed": (y) => y,
  "computed on the way": (y) => {
    y.sum().itemSync();
    return y;
  },
  "in memory": (y) => y.realize(),
};

for (const [state, prepare] of Object.entries(disposals)) {
  testOnBackends(`backward goes through a tensor that was disposed of, ${state}`, () => {
    const x = Tensor.fromHost([1, 2], { requiresGrad: true }).realize();
    const y = prepare(x.mul(2));
    const loss = y.square().sum(); // needs the value of y
    y.dispose();
    assertThrows(() => y.add(1), DisposedError);
    loss.backward();
    assertEquals(x.grad!.toHostSync(), Float32Array.of(8, 16));
  });
}

testOnBackends("layers learn whose outputs were disposed of before backward", () => {
  const [v, w] = [[2, 3], [1, 1]].map((row) => Tensor.fromHost([row], { requiresGrad: true }));
  const forward = (x: Tensor): Tensor => {
    using hidden = x.matmul(v!).relu();
    return hidden.mul(w!).sum();
  };
  const optimizer = new optim.SGD([v!, w!], { lr: 0.5 });
  const x = Tensor.fromHost([[1]]);
  using loss = forward(x);
  assertEquals(loss.itemSync(), 5, "read before backward");
  loss.backward();
  optimizer.step();
  assertEquals(v!.toHostSync(), Float32Array.of(1.5, 2.5));
  assertEquals(w!.toHostSync(), Float32Array.of(0, -0.5));
});

testOnBackends("backward has the values of tensors that were disposed of", () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true }).realize();
  const y = x.exp().realize();
  const loss = y.square().sum();
  y.dispose();
  assertEquals(loss.itemSync() > 0, true);
  loss.backward();
  const expected = [1, 2].map((v) => 2 * Math.exp(2 * v));
  x.grad!.toHostSync().forEach((value, k) => assertAlmostEquals(Number(value), expected[k]!, 1e-4));
  const z = Tensor.fromHost([3], { requiresGrad: true }).realize();
  const twice = z.mul(2).realize(), sum = twice.sum();
  twice.dispose();
  assertEquals(sum.itemSync(), 6);
  sum.backward();
  assertEquals(z.grad!.toHostSync(), Float32Array.of(2));
});

testOnBackends("a tensor is written as JSON by its description", (backend) => {
  const text = JSON.stringify({ loss: Tensor.ones([2]) });
  assertEquals(text, `{"loss":"Tensor([2], float32, ${backend})"}`);
});

testOnBackends("isLeaf tells what no operation is recorded of", () => {
  const w = Tensor.fromHost([2, 3], { requiresGrad: true }), x = Tensor.fromHost([1, 2]);
  assertEquals([w.isLeaf, x.isLeaf, x.mul(2).isLeaf], [true, true, true]);
  const y = w.mul(x);
  assertEquals([y.isLeaf, y.detach().isLeaf, noGrad(() => w.mul(x)).isLeaf], [false, true, true]);
  y.sum().backward();
  assertEquals([y.isLeaf, w.isLeaf, w.grad!.isLeaf], [false, true, true]);
});
