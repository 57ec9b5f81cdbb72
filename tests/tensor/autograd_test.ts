/** What `backward` refuses, and what it leaves alone. */
import { assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { grad, noGrad, Tensor, withDevice } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

testOnBackends("a value that backward needs and that was assigned since is an error", (backend) => {
  withDevice(backend, () => {
    const w = Tensor.fromHost([2, 3], { requiresGrad: true });
    const loss = w.mul(w).sum();
    noGrad(() => w.assign(w.mul(10)));
    assertThrows(() => loss.backward(), Error, "Cannot go backward through mul");
  });
});

testOnBackends("a value that backward does not need may be assigned", async (backend) => {
  await withDevice(backend, async () => {
    const w = Tensor.fromHost([2, 3], { requiresGrad: true });
    const loss = w.add(1).sum();
    noGrad(() => w.assign(w.mul(10)));
    loss.backward();
    assertEquals(await w.grad!.toArray(), [1, 1]);
    assertEquals(await w.toArray(), [20, 30]);
  });
});

testOnBackends("the result of a recorded operation is not assigned", async (backend) => {
  await withDevice(backend, async () => {
    const w = Tensor.fromHost([0, 1], { requiresGrad: true });
    const y = w.exp();
    assertThrows(() => noGrad(() => y.assign(Tensor.zeros([2]))), TypeError, "detach() it first");
    y.sum().backward();
    assertEquals(await w.grad!.slice(0).item(), 1);
    const kept = y.detach();
    assertEquals(await kept.assign(Tensor.zeros([2])).toArray(), [0, 0]);
  });
});

testOnBackends("going backward twice needs retainGraph", (backend) => {
  withDevice(backend, () => {
    const w = Tensor.ones([2], { requiresGrad: true });
    const loss = w.mul(w).sum();
    loss.backward(undefined, { retainGraph: true });
    loss.backward();
    assertThrows(() => loss.backward(), Error, "a second time");
  });
});

testOnBackends("an index out of range names the operation, and work goes on", async (backend) => {
  await withDevice(backend, async () => {
    const m = Tensor.arange(6).reshape([2, 3]);
    const picked = m.indexSelect(1, Tensor.fromHost(Int32Array.of(0, 7)));
    await assertRejects(() => picked.toHost(), RangeError, "indexSelect: the index 7");
    assertEquals(await m.sum().item(), 15);
  });
});

testOnBackends("a graph of 100,000 operations goes backward", async (backend) => {
  await withDevice(backend, async () => {
    const x = Tensor.fromHost([1], { requiresGrad: true });
    let y = x;
    for (let k = 0; k < 100_000; k++) y = y.add(1);
    y.sum().backward();
    assertEquals(await x.grad!.toArray(), [1]);
  });
});

testOnBackends("the second derivative of a product counts its zeros", async (backend) => {
  await withDevice(backend, async () => {
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
});
