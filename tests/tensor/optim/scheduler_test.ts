import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { manager, optim, Tensor, withDevice } from "../../../mod.ts";
import { testOnCPU } from "../../opencl.ts";
import expected from "../../fixtures/pytorch/schedules.json" with { type: "json" };

const cpu = manager.default("cpu");

function makeOptimizer(lr = 0.2): optim.Optimizer {
  return withDevice(cpu, () => new optim.SGD([Tensor.ones([1], { requiresGrad: true })], { lr }));
}

type Make = (optimizer: optim.Optimizer) => optim.Scheduler;

const schedules: Record<string, Make> = {
  step: (o) => new optim.StepLR(o, { stepSize: 7, gamma: 0.5 }),
  multi_step: (o) => new optim.MultiStepLR(o, { milestones: [3, 10, 11], gamma: 0.3 }),
  exponential: (o) => new optim.ExponentialLR(o, { gamma: 0.9 }),
  cosine: (o) => new optim.CosineAnnealingLR(o, { tMax: 30, etaMin: 0.01 }),
  linear: (o) => new optim.LinearLR(o, { startFactor: 0.25, endFactor: 0.75, totalIters: 8 }),
  lambda: (o) => new optim.LambdaLR(o, (time) => 1 / (1 + time)),
  polynomial: (o) => new optim.PolynomialLR(o, { totalIters: 12, power: 2 }),
  one_cycle: (o) => new optim.OneCycleLR(o, { maxLr: 0.5, totalSteps: 31 }),
  one_cycle_3: (o) => {
    const factors = { pctStart: 0.25, divFactor: 10, finalDivFactor: 100 };
    const shape = { annealStrategy: "linear", threePhase: true } as const;
    return new optim.OneCycleLR(o, { maxLr: 0.5, totalSteps: 31, ...factors, ...shape });
  },
  restarts: (o) => new optim.CosineAnnealingWarmRestarts(o, { t0: 7 }),
  restarts_2: (o) => new optim.CosineAnnealingWarmRestarts(o, { t0: 3, tMult: 2, etaMin: 0.01 }),
  sequential: (o) =>
    new optim.SequentialLR(o, [
      new optim.LinearLR(o, { startFactor: 0.1, totalIters: 6 }),
      new optim.ExponentialLR(o, { gamma: 0.8 }),
    ], [6]),
};

for (const [name, make] of Object.entries(schedules)) {
  Deno.test(`the schedule "${name}" gives PyTorch's rates, also when it is resumed`, () => {
    const optimizer = makeOptimizer(), scheduler = make(optimizer);
    const rates = expected[name as keyof typeof expected];
    rates.forEach((rate, time) => {
      assertAlmostEquals(optimizer.lr, rate, 1e-9);
      scheduler.step();
      if (time !== 12) return;
      const other = makeOptimizer(), resumed = make(other);
      resumed.loadStateDict(JSON.parse(JSON.stringify(scheduler.stateDict())));
      assertAlmostEquals(other.lr, optimizer.lr, 1e-12);
      other.dispose();
    });
    optimizer.dispose();
  });
}

const most = { mode: "max", threshold: 0.01, thresholdMode: "abs", minLr: 0.02 } as const;
const plateaus: Record<"plateau" | "plateau_max", optim.PlateauOptions> = {
  plateau: { factor: 0.5, patience: 2, cooldown: 1 },
  plateau_max: { factor: 0.5, patience: 1, ...most },
};

for (const [name, options] of Object.entries(plateaus)) {
  Deno.test(`ReduceLROnPlateau as "${name}" gives PyTorch's rates, also when it is resumed`, () => {
    const optimizer = makeOptimizer();
    let scheduler = new optim.ReduceLROnPlateau(optimizer, options);
    expected[name as keyof typeof plateaus].forEach((rate, time) => {
      assertAlmostEquals(optimizer.lr, rate, 1e-9);
      scheduler.step(expected.metrics[time]!);
      const state = JSON.parse(JSON.stringify(scheduler.stateDict()));
      scheduler = new optim.ReduceLROnPlateau(optimizer, options);
      scheduler.loadStateDict(state);
    });
    optimizer.dispose();
  });
}

testOnCPU("a schedule moves every group from its own rate", () => {
  const [a, b] = [1, 2].map((v) => Tensor.full([1], v, { requiresGrad: true }));
  const groups = [{ parameters: [a!] }, { parameters: [b!], lr: 0.5 }];
  const optimizer = new optim.SGD(groups, { lr: 0.1 });
  new optim.LambdaLR(optimizer, (time) => time === 0 ? 1 : 0.1).step();
  assertAlmostEquals(optimizer.groups[0]!.lr, 0.01, 1e-12);
  assertAlmostEquals(optimizer.groups[1]!.lr, 0.05, 1e-12);
});

Deno.test("schedules refuse what makes no sense", () => {
  const optimizer = makeOptimizer();
  assertThrows(() => new optim.StepLR(optimizer, { stepSize: 0 }), RangeError, "stepSize 0");
  assertThrows(() => new optim.SequentialLR(optimizer, [], []), RangeError, "milestone");
  assertThrows(() => new optim.ReduceLROnPlateau(optimizer, { factor: 1 }), RangeError, "factor");
  const scheduler = new optim.ExponentialLR(optimizer, { gamma: 0.5 });
  const wrong = { time: 1, initialRates: [1, 2] };
  assertThrows(() => scheduler.loadStateDict(wrong), RangeError, "2 groups: the optimizer has 1");
  assertEquals(optimizer.lr, 0.2);
});
