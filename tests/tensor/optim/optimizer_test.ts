import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import {
  compile,
  loadSafetensors,
  manager,
  manualSeed,
  memory,
  nn,
  optim,
  profiler,
  saveSafetensors,
  ShapeError,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { gradientOf } from "../../../tensor/core/internals.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { assertNumbers } from "../numbers.ts";
import { learn } from "../training.ts";

const inputs = Float32Array.from({ length: 60 }, (_, k) => Math.sin(k));

function makeModel(): nn.Module {
  return new nn.Sequential(new nn.Linear(6, 8), new nn.Tanh(), new nn.Linear(8, 2));
}

function lossOf(model: nn.Module): Tensor {
  return model.forward(Tensor.fromHost(inputs, { shape: [10, 6] })).sub(1).square().mean();
}

function train(model: nn.Module, optimizer: optim.Optimizer, steps: number): number {
  let last = NaN;
  for (let step = 0; step < steps; step++) {
    using loss = learn(optimizer, lossOf(model));
    last = loss.itemSync();
  }
  return last;
}

const makers: Record<string, (parameters: Tensor[]) => optim.Optimizer> = {
  SGD: (p) => new optim.SGD(p, { lr: 0.05, momentum: 0.9, dampening: 0.1 }),
  Adam: (p) => new optim.Adam(p, { lr: 0.01, amsgrad: true }),
  AdamW: (p) => new optim.AdamW(p, { lr: 0.01 }),
  RMSprop: (p) => new optim.RMSprop(p, { momentum: 0.5, centered: true }),
};

for (const [name, make] of Object.entries(makers)) {
  testOnBackends(`${name} goes on from a saved state to the last bit`, async (backend) => {
    manualSeed(7);
    const model = makeModel(), optimizer = make(model.parameters());
    train(model, optimizer, 5);
    optimizer.lr = 0.003;
    const path = await Deno.makeTempFile();
    await saveSafetensors(path, optimizer.stateDict());
    const weights = model.stateDict();
    const expected = train(model, optimizer, 5);

    const other = makeModel();
    other.loadStateDict(weights);
    const resumed = make(other.parameters());
    resumed.loadStateDict(await loadSafetensors(path, { device: backend }));
    await Deno.remove(path);
    assertEquals(resumed.lr, 0.003);
    assertEquals(train(other, resumed, 5), expected);
  });
}

testOnBackends("memory does not grow from step to step", (backend) => {
  const dev = manager.default(backend);
  for (const make of Object.values(makers)) {
    const model = makeModel(), optimizer = make(model.parameters());
    train(model, optimizer, 2);
    const live = memory.stats(dev).currentAllocated;
    train(model, optimizer, 5);
    // Less where the collector has found what other tests have left.
    const after = memory.stats(dev).currentAllocated;
    assert(after <= live, `${after - live} bytes more`);
  }
});

testOnBackends("Adam takes one kernel a parameter and one for its bias corrections", () => {
  const parameters = [3, 5, 7].map((n) => Tensor.ones([n, n], { requiresGrad: true }));
  const optimizer = new optim.Adam(parameters);
  for (const parameter of parameters) parameter.grad = parameter.onesLike().realize();
  optimizer.step();
  profiler.reset();
  optimizer.step();
  assert(profiler.counters().kernels <= 4, `${profiler.counters().kernels} kernels`);
});

testOnBackends("what was computed before a step can be read after it", async () => {
  const w = Tensor.fromHost([1, 2], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 1 });
  const y = w.mul(10);
  y.sum().backward();
  optimizer.step();
  assertEquals(await y.toArray(), [10, 20]);
  assertEquals(await w.toArray(), [-9, -8]);
});

testOnBackends("parameters without a gradient stay, zeroGrad takes all gradients", async () => {
  const [a, b] = [1, 2].map((v) => Tensor.full([2], v, { requiresGrad: true }));
  const optimizer = new optim.Adam([a!, b!], { lr: 0.5 });
  optimizer.step();
  a!.sum().backward();
  optimizer.step();
  assertEquals(await b!.toArray(), [2, 2]);
  assertAlmostEquals((await a!.toHost())[0] as number, 0.5, 1e-5);
  optimizer.zeroGrad();
  assertEquals(a!.grad, null);
});

testOnBackends("half precision parameters learn by moments of single precision", async () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const w = Tensor.full([4], 1, { dtype, requiresGrad: true });
    const optimizer = new optim.Adam([w], { lr: 0.25 });
    w.mul(1e-3).sum().backward();
    optimizer.step();
    assertEquals(w.dtype, dtype);
    assertEquals(await w.toArray(), [0.75, 0.75, 0.75, 0.75]);
    const { "state.0.exp_avg_sq": square } = optimizer.stateDict();
    assertEquals(square!.dtype, "float32");
  }
});

testOnBackends("a step can be held back on the device", async () => {
  const w = Tensor.fromHost([1, 2], { requiresGrad: true });
  const optimizer = new optim.Adam([w], { lr: 0.5 });
  w.sum().backward();
  using yes = Tensor.fromHost(true), no = Tensor.fromHost(false);
  optimizer.step({ skip: () => yes });
  assertEquals(await w.toArray(), [1, 2]);
  assertEquals(await optimizer.stateDict()["state.0.step"]!.item(), 0);
  optimizer.step({ skip: () => no });
  assertAlmostEquals((await w.toHost())[0] as number, 0.5, 1e-5);
  assertEquals(await optimizer.stateDict()["state.0.step"]!.item(), 1);
});

/** Steps of a small model, which `change` gets before each. */
async function losses(
  make: (parameters: Tensor[]) => optim.Optimizer | optim.LBFGS,
  change: (model: nn.Linear, step: number) => void,
): Promise<number[]> {
  manualSeed(5);
  const model = new nn.Linear(4, 3), optimizer = make(model.parameters()), found: number[] = [];
  const values = Float32Array.from({ length: 20 }, (_, k) => Math.sin(k));
  for (let step = 0; step < 6; step++) {
    change(model, step);
    const { device, dtype } = model.weight;
    const x = Tensor.fromHost(values, { shape: [5, 4], device }).cast(dtype);
    const closure = () => {
      optimizer.zeroGrad();
      const loss = model.forward(x).square().mean();
      loss.backward();
      return loss;
    };
    if (optimizer instanceof optim.LBFGS) found.push(await optimizer.step(closure));
    else {
      const loss = closure();
      optimizer.step();
      found.push(await loss.item());
    }
  }
  return found;
}

const kinds = {
  SGD: (p: Tensor[]) => new optim.SGD(p, { lr: 0.1, momentum: 0.9 }),
  Adam: (p: Tensor[]) => new optim.Adam(p, { lr: 0.05 }),
  LBFGS: (p: Tensor[]) => new optim.LBFGS(p, { maxIter: 2 }),
};

testOpenCL("an optimizer goes on with a model that to() moves", async () => {
  for (const [name, make] of Object.entries(kinds)) {
    const run = (change: Parameters<typeof losses>[1]) =>
      withDevice("cpu", () => losses(make, change));
    const expected = await run(() => {});
    for (const first of [0, 1, 3]) {
      const actual = await run((model, step) => {
        if (step === first) model.to("cl");
        if (step === first + 2) model.to("cpu");
      });
      assertNumbers(actual, expected, 1e-4, `${name}, from step ${first}`);
    }
  }
});

testOnBackends("an optimizer goes on with a model that is cast", async () => {
  const expected = await losses(kinds.Adam, () => {});
  const actual = await losses(kinds.Adam, (model, step) => {
    if (step === 2) model.half();
    if (step === 4) model.to("float32");
  });
  assertNumbers(actual, expected, 0.02);
});

testOnBackends("a compiled step goes on with a model that is cast", async () => {
  const train = async (wrap: (step: (x: Tensor) => Tensor) => (x: Tensor) => Tensor) => {
    manualSeed(5);
    const model = new nn.Linear(2, 1), optimizer = new optim.Adam(model.parameters(), { lr: 0.1 });
    const step = wrap((x) => {
      return learn(optimizer, () => model.forward(x.cast(model.weight.dtype)).square().mean());
    });
    const found: unknown[] = [], x = Tensor.fromHost([[1, 2], [3, -4], [0, 1]]);
    for (let k = 0; k < 16; k++) {
      if (k === 6) model.half();
      if (k === 11) model.to("float32");
      const loss = step(x);
      found.push(loss.dtype, await loss.item());
    }
    return found;
  };
  assertEquals(await train(compile), await train((step) => step));
});

testOnBackends("to() takes gradients along, and the tensors stay the same", async () => {
  const model = new nn.Linear(2, 1), { weight } = model;
  model.forward(Tensor.ones([3, 2])).sum().backward();
  const before = gradientOf(weight)!;
  model.half();
  assert(before.disposed, "the former gradient waits for no collector");
  assert(model.weight === weight);
  assertEquals([weight.grad!.dtype, await weight.grad!.toArray()], ["float16", [[3, 3]]]);
});

testOnBackends("optimizers refuse what they cannot use", () => {
  const w = Tensor.ones([2], { requiresGrad: true });
  // That every option is checked is in param_groups_test.ts.
  assertThrows(() => new optim.SGD([]), TypeError, "no parameters");
  assertThrows(() => new optim.SGD([Tensor.ones([2])]), TypeError, "require a gradient");
  assertThrows(() => new optim.SGD([w.mul(2)]), TypeError, "require a gradient");
  assertThrows(() => new optim.SGD([w, w]), TypeError, "twice");
  assertThrows(() => new optim.SGD([w], { nesterov: true }), RangeError, "nesterov");
  assertThrows(() => new optim.Adam([w]).lr = NaN, RangeError, "rate of NaN");
  assertThrows(() => new optim.Adam([w]).lr = "0.1" as never, TypeError, 'rate of "0.1": pass a');
  assertThrows(() => optim.clipGradNorm([w], 1), Error, "call backward() first");
  const optimizer = new optim.Adam([w]), state = optimizer.stateDict();
  const { "state.0.step": _, ...without } = state;
  assertThrows(() => optimizer.loadStateDict(without), RangeError, "state.0.step");
  const wrong = { ...state, "state.0.exp_avg": Tensor.ones([3]) };
  assertThrows(() => optimizer.loadStateDict(wrong), ShapeError, "exp_avg is [2] and got [3]");
});
