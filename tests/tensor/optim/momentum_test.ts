/** Options that change while an optimizer learns: a cycled momentum, and what is turned on later. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { compile, optim, profiler, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import cycles from "../../fixtures/pytorch/one_cycles.json" with { type: "json" };
import { assertNumbers, numbersOf } from "../numbers.ts";
import { learn } from "../training.ts";

const makers: Record<string, (p: Tensor[]) => optim.Optimizer> = {
  "SGD": (p) => new optim.SGD(p, { lr: 0.1 }),
  "SGD nesterov": (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9, nesterov: true }),
  "RMSprop": (p) => new optim.RMSprop(p),
  "Adam": (p) => new optim.Adam(p),
  "Adam amsgrad": (p) => new optim.Adam(p, { amsgrad: true }),
  "AdamW": (p) => new optim.AdamW(p, { weightDecay: 0.1 }),
  "NAdam": (p) => new optim.NAdam(p),
  "RAdam": (p) => new optim.RAdam(p),
};

/** A parameter, its optimizer in a cycle of 12 steps, and a step. */
function learner(name: string) {
  const [kind, phases] = name.split(", ") as [string, string];
  const x = Tensor.fromHost([1, -2, 0.5], { requiresGrad: true });
  const target = Tensor.fromHost([0.3, 0.1, -0.7]).realize();
  const optimizer = makers[kind]!([x]);
  const threePhase = phases.startsWith("3");
  const annealStrategy = threePhase ? "linear" as const : "cos" as const;
  const options = { maxLr: 0.2, totalSteps: 12, threePhase, annealStrategy };
  const scheduler = new optim.OneCycleLR(optimizer, options);
  const step = (): void => {
    learn(optimizer, x.sub(target).square().sum());
  };
  return { x, optimizer, scheduler, step };
}

for (const [name, { momenta, learned }] of Object.entries(cycles)) {
  testOnBackends(`OneCycleLR cycles the momentum of ${name} as PyTorch does`, () => {
    for (const isCompiled of [false, true]) {
      const { x, optimizer, scheduler, step } = learner(name);
      const run = isCompiled ? compile(step) : step;
      let built = 0;
      for (const [k, momentum] of momenta.entries()) {
        assertAlmostEquals(optimizer.groups[0]!.momentum!, momentum, 1e-12);
        if (k === 4) built = profiler.counters().programsBuilt;
        run();
        if (k < momenta.length - 1) scheduler.step();
      }
      assertEquals(profiler.counters().programsBuilt, built, "a momentum is no part of a kernel");
      assertNumbers(numbersOf(x), learned, 1e-5);
    }
  });
}

testOnBackends("a cycle goes on from its state, with the momentum that it had", async () => {
  const name = "SGD, 2 phases", a = learner(name), b = learner(name);
  for (let k = 0; k < 11; k++) {
    if (k === 5) {
      b.x.requiresGrad = false;
      b.x.assign(a.x.detach());
      b.x.requiresGrad = true;
      b.optimizer.loadStateDict(a.optimizer.stateDict());
      b.scheduler.loadStateDict(JSON.parse(JSON.stringify(a.scheduler.stateDict())));
    }
    for (const { step, scheduler } of k < 5 ? [a] : [a, b]) step(), scheduler.step();
  }
  assertEquals(await b.x.toArray(), await a.x.toArray());
});

testOnBackends("a schedule sets the momentum while it is its turn in a sequence", () => {
  const optimizer = new optim.AdamW([Tensor.ones([1], { requiresGrad: true })], { lr: 0.1 });
  const scheduler = new optim.SequentialLR(optimizer, [
    new optim.LinearLR(optimizer, { totalIters: 2 }),
    new optim.OneCycleLR(optimizer, { maxLr: 0.1, totalSteps: 4 }),
  ], [2]);
  const alone = new optim.AdamW([Tensor.ones([1], { requiresGrad: true })]);
  const cycle = new optim.OneCycleLR(alone, { maxLr: 0.1, totalSteps: 4 });
  const momentum = () => optimizer.groups[0]!.momentum;
  const turns = [1, 2, 3, 4, 5].map((time) => {
    scheduler.step();
    if (time > 2) cycle.step();
    assertEquals(momentum(), alone.groups[0]!.momentum);
    return momentum();
  });
  assertEquals(turns.slice(0, 2), [0.95, 0.95]);
  assertEquals(new Set(turns).size, 3);
  const none = new optim.Adagrad([Tensor.ones([1], { requiresGrad: true })]);
  const options = { maxLr: 0.1, totalSteps: 4 };
  assertThrows(() => new optim.OneCycleLR(none, options), TypeError, "cycleMomentum: false");
  assertEquals(new optim.OneCycleLR(none, { ...options, cycleMomentum: false }).time, 0);
  assertThrows(() => none.groups[0]!.momentum = 0.5, TypeError, "none");
  const wrong = { ...options, maxMomentum: 1 };
  assertThrows(() => new optim.OneCycleLR(optimizer, wrong), RangeError, "maxMomentum 1");
});

type Make = (p: Tensor[]) => optim.Optimizer;

const turnedOn: Record<string, [make: Make, name: string, on: unknown]> = {
  "momentum of SGD": [(p) => new optim.SGD(p, { lr: 0.1 }), "momentum", 0.9],
  "momentum of RMSprop": [(p) => new optim.RMSprop(p, { alpha: 0 }), "momentum", 0.9],
  "amsgrad": [(p) => new optim.Adam(p, { beta1: 0, beta2: 0 }), "amsgrad", true],
};

for (const [title, [make, name, on]] of Object.entries(turnedOn)) {
  testOnBackends(`${title} that is turned on later remembers from then on`, async () => {
    const leaf = (values: unknown) => Tensor.fromHost(values as number[], { requiresGrad: true });
    const turn = (optimizer: optim.Optimizer): void => {
      (optimizer.groups[0]!.options as Record<string, unknown>)[name] = on;
    };
    for (const isCompiled of [false, true]) {
      const x = leaf([3, -4]), optimizer = make([x]);
      const plain = () => void learn(optimizer, x.square().sum()),
        step = isCompiled ? compile(plain) : plain;
      step(), step();
      const fresh = leaf(await x.toArray()), other = make([fresh]);
      turn(optimizer), turn(other);
      for (let k = 0; k < 3; k++) step(), learn(other, fresh.square().sum());
      assertEquals(await x.toArray(), await fresh.toArray());
      assertEquals(Object.keys(optimizer.stateDict()), Object.keys(other.stateDict()));
    }
  });
}

testOnBackends("an option that is changed must be one that could be passed", () => {
  const x = Tensor.ones([2], { requiresGrad: true }), sgd = new optim.SGD([x], { momentum: 0.5 });
  const options = sgd.groups[0]!.options as optim.SGDOptions;
  x.sum().backward();
  options.momentum = -1;
  assertThrows(() => sgd.step(), RangeError, "momentum -1");
  Object.assign(options, { momentum: 0, nesterov: true });
  assertThrows(() => sgd.step(), RangeError, "nesterov");
  assertEquals(x.toHostSync(), new Float32Array([1, 1]));
  options.momentum = 0.5;
  sgd.step();
});
