/** Reads, assignments and results of a compiled function, call after call. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { compile, DisposedError, memory, optim, profiler, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, leaf } from "../numbers.ts";
import { stored, type Wrap } from "./outcomes.ts";

const CALLS = 5;

const assignments: Record<string, (value: number) => Tensor> = {
  "host data": (value) => Tensor.fromHost([value]),
  "a constant": (value) => Tensor.full([1], value),
  "a value in memory": (value) => stored(value),
  "a value that is not computed yet": (value) => stored(value - 1).add(1),
};

for (const [what, make] of Object.entries(assignments)) {
  testOnBackends(`a compiled function sees a tensor that was assigned ${what}`, () => {
    const x = stored(1), state = stored(0);
    const sum = compile((x: Tensor) => x.add(state));
    for (let k = 0; k < CALLS; k++) {
      state.assign(make(k));
      assertEquals(sum(x).itemSync(), k + 1);
    }
  });
}

testOnBackends("compile: a compiled function gives a tensor its next value", () => {
  const x = stored(1), mean = stored(0);
  const step = compile((x: Tensor) => {
    mean.assign(mean.mul(0.5).add(x.mul(0.5)));
    return mean.mul(10);
  });
  let expected = 0;
  for (let k = 0; k < CALLS; k++) {
    expected = expected / 2 + 0.5;
    assertEquals(step(x).itemSync(), expected * 10);
    assertEquals(mean.itemSync(), expected);
  }
});

testOnBackends("compile: a compiled function exchanges two tensors", () => {
  const x = stored(1), a = stored(1), b = stored(2);
  const before = memory.stats().doubleReleases;
  const exchange = compile((x: Tensor) => {
    const former = a.detach();
    a.assign(b);
    b.assign(former);
    return x.add(1);
  });
  for (let k = 1; k <= CALLS; k++) {
    exchange(x).dispose();
    assertEquals([a.itemSync(), b.itemSync()], k % 2 ? [2, 1] : [1, 2]);
  }
  assertEquals(memory.stats().doubleReleases, before);
});

testOnBackends("compile: what was computed before a compiled function stays as it was", () => {
  const x = stored(1), w = stored(2);
  const twice = w.mul(2); // of the first value, whatever becomes of w
  const sum = compile((x: Tensor) => x.add(twice).add(w));
  for (let k = 0; k < CALLS; k++) {
    w.assign(Tensor.fromHost([k]));
    assertEquals(sum(x).itemSync(), 5 + k);
  }
});

testOnBackends("compile: functions return their arguments, other tensors and views", () => {
  const before = memory.stats().doubleReleases;
  const x = stored(1, 2), other = stored(3, 4);
  const all = compile((x: Tensor) => {
    return { x, other, views: [x.reshape([2, 1]), other.detach()], sum: x.add(other) };
  });
  for (let k = 0; k < CALLS; k++) {
    const out = all(x);
    assertStrictEquals(out.x, x);
    assertStrictEquals(out.other, other);
    assertEquals(out.views.map((view) => view.shape), [[2, 1], [2]]);
    assertEquals(out.views.map((view) => view.toHostSync()[0]), [1, 3]);
    assertEquals(out.sum.toHostSync(), Float32Array.of(4, 6));
    for (const tensor of [...out.views, out.sum]) tensor.dispose();
  }
  assertEquals([x.toHostSync()[1], other.toHostSync()[1]], [2, 4]);
  assertEquals(memory.stats().doubleReleases, before);
});

testOnBackends("compile: a compiled function knows arguments that share memory", () => {
  const a = stored(1), b = stored(10), view = b.detach();
  const f = compile((x: Tensor, y: Tensor) => x.sub(y.mul(3)));
  const pairs = [[b, b], [b, b], [a, b], [b, a], [a, b], [b, view], [view, b], [a, a], [a, b]];
  const values = pairs.map(([x, y]) => f(x!, y!).itemSync());
  assertEquals(values, [-20, -20, -29, 7, -29, -20, -20, -2, -29]);
});

testOnBackends("compile: tensors within arrays and objects are arguments, too", () => {
  const f = compile((batch: { x: Tensor; more: Tensor[] }, scale: number) => {
    return batch.more.reduce((sum, y) => sum.add(y), batch.x).mul(scale);
  });
  for (let k = 0; k < CALLS; k++) {
    assertEquals(f({ x: stored(k), more: [stored(1), stored(2)] }, 2).itemSync(), 2 * (k + 3));
  }
  assertEquals(f({ x: stored(1), more: [stored(1)] }, 2).itemSync(), 4, "another kind of call");
  assertEquals(f({ x: stored(1), more: [stored(1)] }, 3).itemSync(), 6, "another number");
});

testOnBackends("compile: what cannot be compiled says so", () => {
  assertThrows(() => compile(3 as never), TypeError, "Cannot compile 3");
  const later = compile((x: Tensor) => Promise.resolve(x.add(1)));
  assertThrows(() => later(stored(1)), TypeError, "Cannot compile an asynchronous function");
});

testOnBackends("compile: an assigned tensor is computed with what is computed next", () => {
  const x = stored(1), state = stored(0);
  for (let k = 1; k <= CALLS; k++) {
    state.assign(state.add(x));
    assertEquals(state.isRealized, false);
    assertEquals(state.mul(10).realize().itemSync(), 10 * k);
    assertEquals(state.isRealized, true);
  }
});

/** Gradients of `mean(square(x w))` by steps of a function, beside those of the same function plainly. */
function losses(wrap: Wrap, where: string, steps: string): number[] {
  const w = leaf(stored(1, -2, 3).reshape([3, 1]).realize()), x = Tensor.ones([2, 3]).realize();
  const optimizer = new optim.SGD([w], { lr: 0.1 });
  const call = wrap((x: Tensor) => {
    if (where === "inside") optimizer.zeroGrad();
    const loss = x.matmul(w).square().mean();
    loss.backward();
    if (steps === "inside") optimizer.step();
    return loss;
  });
  const seen: number[] = [];
  for (let k = 0; k < CALLS + 2; k++) {
    if (where === "before") optimizer.zeroGrad();
    using loss = call(x);
    seen.push(loss.itemSync());
    if (steps !== "inside") seen.push(w.grad!.sum().itemSync());
    if (steps === "outside") optimizer.step();
  }
  return seen;
}

/** Places where gradients are zeroed, and where the optimizer steps. */
const ways = [
  ...[["before", "outside"], ["inside", "outside"], ["before", "inside"], ["inside", "inside"]],
  ...[["nowhere", "outside"], ["nowhere", "never"]],
] as [where: string, steps: string][];

for (const [where, steps] of ways) {
  testOnBackends(`compiled gradients are plain calls', zeroed ${where}, stepped ${steps}`, () => {
    const before = memory.stats().doubleReleases;
    const plain = losses((fn) => fn, where, steps), compiled = losses(compile, where, steps);
    assertNumbers(compiled, plain, 1e-4);
    assertEquals(memory.stats().doubleReleases, before);
  });
}

testOnBackends("compile: gradients take no more memory with each call", () => {
  const w = leaf(Tensor.rand([100, 100]).realize()), x = Tensor.rand([4, 100]).realize();
  const call = compile((x: Tensor) => {
    const loss = x.matmul(w).square().mean();
    loss.backward();
    return loss;
  });
  const step = (): void => {
    w.grad?.dispose();
    w.grad = null;
    call(x).dispose();
  };
  for (let k = 0; k < 4; k++) step();
  const before = memory.stats().requestedBytes;
  for (let k = 0; k < 10; k++) step();
  assertEquals(memory.stats().requestedBytes, before);
});

testOnBackends("compile: an assigned tensor that is read stays, and is assigned again", () => {
  const x = stored(1, 2), state = stored(0, 0);
  for (let k = 1; k <= CALLS; k++) {
    state.assign(state.add(x));
    assertEquals(state.toHostSync(), Float32Array.of(k, 2 * k));
    profiler.reset();
    assertEquals(state.toHostSync(), Float32Array.of(k, 2 * k));
    assertEquals(profiler.counters().kernels, 0);
  }
});

testOnBackends("compile: a tensor whose value is gone does not keep others from theirs", () => {
  if (isEager()) return;
  const x = leaf(stored(1, 2)), state = stored(0, 0), sound = stored(3, 4);
  const y = x.exp();
  y.sum().backward();
  x.grad!.realize();
  // Read neither before nor after the first step, it is gone with the second.
  for (let k = 0; k < 2; k++) x.assign(stored(k, k)).realize();
  const other = stored(0);
  state.assign(y);
  other.assign(stored(1).add(1));
  assertEquals(sound.add(1).toHostSync(), Float32Array.of(4, 5));
  assertEquals(other.isRealized, true);
  assertThrows(() => state.toHostSync(), DisposedError);
  assertEquals(sound.add(1).toHostSync(), Float32Array.of(4, 5));
});
