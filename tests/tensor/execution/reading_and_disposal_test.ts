/** Values that reading keeps, that dispose ends, and what memory holds of values that nobody asks for. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DisposedError, grad, memory, nn, optim, ShapeError, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { leaf } from "../numbers.ts";
import { kernelsOf, learn } from "../training.ts";

testOnBackends("a value is read again without a kernel, and views of it", async () => {
  const x = Tensor.arange(24).reshape([4, 6]).realize();
  for (const size of [1, 2000]) {
    const y = x.add(1).expand([size, 4, 6]);
    const first = await y.toHost();
    assertEquals(kernelsOf(() => assertEquals(y.toHostSync(), first)), 0);
    const views: [Tensor, number[]][] = [
      [y.slice(0, 1), [7, 8, 9, 10, 11, 12]],
      [y.slice(0, null, 2), [3, 9, 15, 21]],
      [y.slice(0, 1, [0, 6, 2]), [7, 9, 11]],
      [y.slice(0, [2, 4]).transpose(), [13, 19, 14, 20, 15, 21, 16, 22, 17, 23, 18, 24]],
      [y.slice(0, 3).reshape([2, 3]).transpose().flip(0), [21, 24, 20, 23, 19, 22]],
      [y.slice(0, 3, [0, 2]).unsqueeze(0).expand([2, 2]), [19, 20, 19, 20]],
      [y.slice([0, 0]), []],
    ];
    for (const [view, expected] of views) {
      const kernels = kernelsOf(() => assertEquals([...view.toHostSync()], expected));
      assertEquals(kernels, 0, `${view}`);
    }
  }
});

testOnBackends("a loss that was read is not computed again", () => {
  const w = Tensor.rand([30, 30], { requiresGrad: true });
  const loss = w.matmul(w).tanh().mean();
  const value = loss.itemSync();
  assertEquals(kernelsOf(() => assertEquals(loss.itemSync(), value)), 0);
  assertEquals(kernelsOf(() => assertEquals(loss.detach().itemSync(), value)), 0);
});

/** Results of `a`, read after `a` was disposed of. */
const afterDisposal: Record<string, (a: Tensor) => { read: () => Tensor; expected: number }> = {
  "at once": (a) => {
    const b = a.mul(3);
    return { read: () => b, expected: 6 };
  },
  "computed on the way to something else": (a) => {
    const b = a.mul(3);
    b.add(1).realize();
    return { read: () => b, expected: 6 };
  },
  "two operations later": (a) => {
    const b = a.mul(3), c = b.add(1);
    c.sum().itemSync();
    return { read: () => b.add(c), expected: 13 };
  },
  "a view": (a) => {
    const b = a.reshape([10, 100]).transpose();
    b.add(1).realize();
    return { read: () => b, expected: 2 };
  },
  "an activation": (a) => {
    const w = Tensor.full([1000], 1, { requiresGrad: true }), h = a.mul(w);
    learn(new optim.SGD([w]), h.square().sum());
    return { read: () => h, expected: 2 };
  },
  "a gradient": (a) => {
    const w = Tensor.full([1000], 1, { requiresGrad: true });
    a.mul(w).sum().backward();
    return { read: () => w.grad!, expected: 2 };
  },
  "a graph that backward goes through later": (a) => {
    const w = Tensor.full([1000], 3, { requiresGrad: true });
    const y = a.mul(w).realize(), loss = y.square().sum();
    y.dispose();
    return { read: () => (loss.backward(), w.grad!), expected: 24 };
  },
};

for (const [what, make] of Object.entries(afterDisposal)) {
  testOnBackends(`dispose ends a tensor, not what needs its value: ${what}`, () => {
    const a = Tensor.full([1000], 2).realize();
    const { read, expected } = make(a);
    a.dispose();
    // What comes into the place that would have been free.
    for (let k = 0; k < 4; k++) Tensor.full([1000], -7).realize();
    assert(read().toHostSync().every((v) => v === expected));
    assertThrows(() => a.add(1), DisposedError);
  });
}

testOnBackends("an activation that nobody read is gone after the second step", () => {
  if (isEager()) return; // every value is stored as it is made
  const w = Tensor.fromHost([2, 3], { requiresGrad: true });
  const step = (): Tensor => {
    const h = w.mul(2);
    w.grad = null;
    h.sum().backward();
    w.grad!.realize();
    w.assign(Tensor.fromHost([1, 1])).realize();
    return h;
  };
  const read = step();
  assertEquals(read.toHostSync(), Float32Array.of(4, 6));
  const unread = step();
  step();
  step();
  assertEquals(read.toHostSync(), Float32Array.of(4, 6));
  const error = assertThrows(() => unread.toHostSync(), DisposedError);
  assert(error.message.includes("realize()") && error.message.includes("next step"), error.message);
});

testOnBackends("a pending read has the value, whatever becomes of its tensor", async () => {
  const a = Tensor.full([500_000], 1).realize(), b = Tensor.full([500_000], 2).realize();
  const sum = a.add(b);
  const reads = [a, b, sum, a.slice([5, 10])].map((t) => t.toHost("float32"));
  a.dispose();
  sum.dispose();
  b.assign(Tensor.full([500_000], 9)).realize();
  for (let k = 0; k < 4; k++) Tensor.full([500_000], -7).realize();
  const values = (await Promise.all(reads)).map((read) => new Set(read));
  assertEquals(values.map((set) => [...set]), [[1], [2], [3], [1]]);
  await assertRejects(() => a.toHost(), DisposedError);
});

testOnBackends("a state is loaded as often as one likes, into several models", () => {
  const learner = () => {
    const net = new nn.Linear(4, 4), adam = new optim.Adam(net.parameters(), { lr: 0.1 });
    const lossOf = () => net.forward(Tensor.ones([2, 4])).square().mean();
    return { net, adam, step: (): number => learn(adam, lossOf()).itemSync() };
  };
  const a = learner(), b = learner();
  a.step();
  const state = a.net.stateDict(), moments = a.adam.stateDict();
  const before = state.weight!.toHostSync();
  const runs = Array.from({ length: 6 }, (_, k) => {
    const { net, adam, step } = k % 2 === 0 ? a : b;
    net.loadStateDict(state);
    adam.loadStateDict(moments);
    return [step(), step(), step()];
  });
  for (const run of runs) assertEquals(run, runs[0]);
  assertEquals(state.weight!.toHostSync(), before);
});

testOnBackends("requiresGrad counts when an operation is recorded", () => {
  const x = Tensor.fromHost([1, 2]), w = Tensor.fromHost([3, 4], { requiresGrad: true });
  const early = x.mul(w).sum();
  x.requiresGrad = true;
  early.backward();
  assertEquals(x.grad, null);
  assertEquals(w.grad!.toHostSync(), Float32Array.of(1, 2));
  x.mul(w).sum().backward();
  assertEquals(x.grad!.toHostSync(), Float32Array.of(3, 4));
  const last = x.mul(w).sum();
  w.requiresGrad = false;
  last.backward();
  assertEquals(x.grad!.toHostSync(), Float32Array.of(6, 8));
  assertEquals(w.grad!.toHostSync(), Float32Array.of(2, 4));
});

testOnBackends("more ranges than axes are an error", () => {
  assertThrows(() => Tensor.ones([4]).slice(0, 0), ShapeError);
  assertThrows(() => Tensor.ones([4, 1]).slice(0, 0, 0), ShapeError);
  assertEquals(Tensor.ones([4, 1]).slice(0, 0).shape, []);
});

testOnBackends("a loop that never awaits does not run out of memory by garbage", () => {
  const x = Tensor.ones([100_000]).realize(), kept = x.add(0.5).realize();
  memory.emptyCache();
  memory.setLimit(memory.stats().reservedBytes + 64 * 2 ** 20);
  try {
    for (let k = 0; k < 400; k++) x.add(k).realize(); // 160 MB
    assert(kept.toHostSync().every((v) => v === 1.5), "moved to the host and back");
    assertEquals(kept.add(x).sum().itemSync(), 250_000);
  } finally {
    memory.setLimit(null);
  }
});

testOnBackends("a state that is passed on from step to step unread stays short", () => {
  const w = Tensor.ones([2], { requiresGrad: true }), sgd = new optim.SGD([w], { lr: 0.01 });
  let state = Tensor.zeros([]);
  for (let k = 0; k < 150; k++) {
    const loss = learn(sgd, w.square().sum());
    state = state.mul(0.5).add(loss.detach());
    assert(nodeOf(state).depth < 120, `${nodeOf(state).depth} operations`);
  }
  assert(Number.isFinite(state.itemSync()));
});

testOnBackends("assign computes a state that steps pass on unread before it is long", () => {
  if (isEager()) return;
  const states = {
    "two that take turns": () => {
      const p = Tensor.linspace(-1, 1, 8), v = Tensor.zeros([8]);
      const pull = (): Tensor => p.sub(p.flip(0)).square().sum().neg().exp().mul(p).mul(0.01);
      return { state: p, step: () => v.assign(v.sub(pull())) && p.assign(p.add(v)) };
    },
    "one with gradients on the way": () => {
      const w = Tensor.linspace(-1, 1, 8);
      const step = (): Tensor => {
        const at = leaf(w.detach());
        const [g] = grad(at.sin().square().sum(), [at]);
        return w.assign(w.sub(g!.mul(0.1)));
      };
      return { state: w, step };
    },
  };
  for (const [name, make] of Object.entries(states)) {
    const { state, step } = make();
    const kernels = kernelsOf(() => {
      for (let k = 0; k < 90; k++) step();
    });
    const left = kernelsOf(() => state.toHostSync());
    assert(left < kernels / 3, `${name}: ${kernels} kernels, and then ${left}`);
  }
});
