/** A gradient that the program got from `grad` stays readable, whatever takes its place. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  amp,
  compile,
  DisposedError,
  memory,
  nn,
  optim,
  ShapeError,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { hasOpenCL, testOnBackends } from "../../opencl.ts";
import { learn } from "../training.ts";

const leaf = (...values: number[]): Tensor => Tensor.fromHost(values, { requiresGrad: true });

/** Actions on a gradient after a program has got it. */
const replacements: Record<string, (w: Tensor) => unknown> = {
  "Optimizer.zeroGrad": (w) => new optim.SGD([w], { lr: 0.1 }).zeroGrad(),
  "Module.zeroGrad": (w) => {
    const model = new nn.Linear(1, 1);
    model.weight = w;
    model.zeroGrad();
  },
  "LBFGS.zeroGrad": (w) => new optim.LBFGS([w]).zeroGrad(),
  "a second backward": (w) => w.mul(10).sum().backward(),
  "clipGradNorm": (w) => optim.clipGradNorm([w], 0.1),
  "clipGradValue": (w) => optim.clipGradValue([w], 0.1),
  "GradScaler.unscale": (w) => new amp.GradScaler().unscale(new optim.SGD([w], { lr: 0.1 })),
  "a step and a compiled one": (w) => {
    const optimizer = new optim.Adam([w], { lr: 0.1 });
    const step = compile((x: Tensor) => {
      learn(optimizer, w.mul(x).sum());
    });
    for (let k = 1; k <= 4; k++) step(Tensor.full([2], k));
  },
};

for (const [name, replace] of Object.entries(replacements)) {
  testOnBackends(`a gradient that is held outlives ${name}`, async () => {
    const w = leaf(1, 2);
    w.square().sum().backward();
    const held = w.grad!, [pending] = [held.mul(2)];
    replace(w);
    for (let step = 0; step < 3; step++) {
      w.grad = null;
      w.mul(step).sum().backward();
      new optim.SGD([w], { lr: 0.1 }).step();
    }
    assertEquals(await held.toArray(), [2, 4]);
    assertEquals(await pending.toArray(), [4, 8]);
  });
}

testOnBackends("gradients of two losses are combined without copies", async () => {
  const model = new nn.Linear(3, 2, { bias: false }), [w] = model.parameters() as [Tensor];
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.5 });
  w.assign(Tensor.ones([2, 3]));
  for (let step = 0; step < 4; step++) {
    const before = await w.toNumbers();
    const y = model.forward(Tensor.full([1, 3], step + 1)), kept: Tensor[] = [];
    for (const loss of [y.slice(0, 0), y.slice(0, 1).mul(-2)]) {
      optimizer.zeroGrad();
      loss.backward(undefined, { retainGraph: true });
      kept.push(w.grad!);
    }
    optimizer.zeroGrad();
    w.grad = kept[0]!.add(kept[1]!);
    optimizer.step();
    const change = [1, 1, 1, -2, -2, -2].map((v) => v * (step + 1) * 0.5);
    assertEquals(await w.toNumbers(), before.map((v, k) => v - change[k]!));
  }
});

testOnBackends("gradients that compiled calls return stay what they were", async () => {
  const w = leaf(1, 1), optimizer = new optim.SGD([w], { lr: 0 }), kept: Tensor[] = [];
  const step = compile((x: Tensor): Tensor => {
    optimizer.zeroGrad();
    w.mul(x).sum().backward();
    optim.clipGradNorm([w], 1e6);
    const { grad } = w;
    optimizer.step();
    return grad!;
  });
  for (let k = 1; k <= 6; k++) kept.push(step(Tensor.full([2], k)));
  for (const [k, grad] of kept.entries()) assertEquals(await grad.toArray(), [k + 1, k + 1]);
});

testOnBackends("a gradient that was given is the giver's", async () => {
  const w = leaf(1, 1), given = Tensor.fromHost([3, 4]);
  for (let k = 0; k < 3; k++) {
    w.grad = given;
    w.sum().backward();
    assertEquals(await w.grad.toArray(), [4, 5]);
    new optim.SGD([w], { lr: 0.1 }).zeroGrad();
    assertEquals(await given.toArray(), [3, 4]);
  }
});

testOnBackends("gradients that nobody looked at go with zeroGrad", () => {
  const nbytes = 2 ** 18, w = Tensor.ones([nbytes / 4], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 0.1 });
  const turn = (): number => {
    w.square().sum().backward();
    optimizer.step();
    optimizer.zeroGrad();
    return memory.stats().currentAllocated;
  };
  turn(), turn();
  const before = turn();
  for (let k = 0; k < 5; k++) assert(turn() < before + nbytes);
});

testOnBackends("a gradient that the program disposes of is gone", async () => {
  const w = leaf(1, 2), optimizer = new optim.SGD([w], { lr: 0.1 });
  w.square().sum().backward();
  const { grad } = w;
  grad!.dispose();
  assertThrows(() => optimizer.step(), DisposedError);
  await assertRejects(() => grad!.toHost(), DisposedError);
  learn(optimizer, w.square().sum());
});

testOnBackends("what a hook was given stays readable", async () => {
  const w = leaf(1, 2), optimizer = new optim.SGD([w], { lr: 0.5 }), seen: Tensor[] = [];
  w.registerHook((gradient) => {
    seen.push(gradient);
    return gradient;
  });
  const values: number[][] = [];
  for (let step = 0; step < 4; step++) {
    optimizer.zeroGrad();
    const y = w.square();
    y.registerHook((gradient) => {
      seen.push(gradient);
      return gradient.mul(2);
    });
    values.push([1, 1], (await w.toNumbers()).map((v) => 4 * v));
    y.sum().backward();
    optimizer.step();
  }
  for (const [k, gradient] of seen.entries()) {
    assertEquals(await gradient.toArray(), values[k], `${k}`);
  }
});

testOnBackends("a gradient that does not fit is refused where it is given", async () => {
  const w = leaf(1, 2, 3);
  const wrong: [unknown, typeof TypeError | typeof ShapeError, RegExp][] = [
    [3, TypeError, /grad with 3: pass a tensor.*null/],
    [undefined, TypeError, /undefined.*pass a tensor.*null/],
    [[1, 2, 3], TypeError, /pass a tensor/],
    [Tensor.ones([4]), ShapeError, /\[4\].*\[3\]/],
    [Tensor.ones([1]), ShapeError, /\[1\].*\[3\]/],
    [Tensor.ones([]), ShapeError, /\[\].*\[3\]/],
  ];
  for (const [gradient, type, pattern] of wrong) {
    for (const call of [(fn: () => void) => fn(), (fn: () => void) => compile(fn)()]) {
      const error = assertThrows(() => call(() => void (w.grad = gradient as Tensor)), type);
      assert(pattern.test(error.message), error.message);
      assertEquals(w.grad, null);
    }
  }
  w.grad = Tensor.ones([3]);
  new optim.SGD([w], { lr: 1 }).step();
  assertEquals(await w.toArray(), [0, 1, 2]);
});

Deno.test("a gradient on another device is refused where it is given", {
  ignore: !hasOpenCL,
}, () => {
  const w = withDevice("cpu", () => leaf(1, 2)), other = withDevice("cl", () => Tensor.ones([2]));
  const error = assertThrows(() => w.grad = other, TypeError);
  assert(/grad.*move it with to\(\)/.test(error.message), error.message);
});
