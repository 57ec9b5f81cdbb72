// 50 steps of a regression by every optimizer: all parameters stay where PyTorch's are.
import { assert } from "@std/assert";
import { optim, type Tensor } from "../../../mod.ts";
import { fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";

interface Setup {
  fixture?: string;
  make: (weight: Tensor, bias: Tensor) => optim.Optimizer;
  schedule?: (optimizer: optim.Optimizer) => optim.Scheduler;
  afterBackward?: (parameters: Tensor[]) => void;
  biasLearns?: (step: number) => boolean;
}

const sgd = (lr: number, options: optim.SGDOptions = {}): Setup => ({
  make: (w, b) => new optim.SGD([w, b], { lr, ...options }),
});
const adam = (lr: number, options: optim.AdamOptions = {}): Setup => ({
  make: (w, b) => new optim.Adam([w, b], { lr, ...options }),
});

function later(
  made: Record<string, (p: Tensor[]) => optim.Optimizer>,
  fixture = "more_optimizers",
): Record<string, Setup> {
  return Object.fromEntries(
    Object.entries(made).map(([name, make]) => [
      name,
      { make: (w: Tensor, b: Tensor) => make([w, b]), fixture },
    ]),
  );
}

const setups: Record<string, Setup> = {
  sgd: sgd(0.1),
  sgd_decay: sgd(0.1, { weightDecay: 0.05 }),
  sgd_momentum: sgd(0.05, { momentum: 0.9 }),
  sgd_dampening: sgd(0.1, { momentum: 0.8, dampening: 0.3, weightDecay: 0.01 }),
  sgd_nesterov: sgd(0.05, { momentum: 0.9, nesterov: true }),
  adam: adam(0.02),
  adam_decay: adam(0.02, { beta1: 0.8, beta2: 0.99, eps: 1e-6, weightDecay: 0.1 }),
  adam_amsgrad: adam(0.05, { amsgrad: true }),
  adamw: { make: (w, b) => new optim.AdamW([w, b], { lr: 0.02, weightDecay: 0.3 }) },
  adamw_default: { make: (w, b) => new optim.AdamW([w, b]) },
  rmsprop: { make: (w, b) => new optim.RMSProp([w, b], { lr: 0.01 }) },
  rmsprop_centered: {
    make: (w, b) =>
      new optim.RMSProp([w, b], {
        lr: 0.002,
        alpha: 0.9,
        momentum: 0.5,
        centered: true,
        weightDecay: 0.01,
      }),
  },
  ...later({
    adagrad: (p) => new optim.Adagrad(p, { lr: 0.2 }),
    adagrad_decay: (p) =>
      new optim.Adagrad(p, {
        lr: 0.2,
        lrDecay: 0.1,
        weightDecay: 0.05,
        initialAccumulatorValue: 0.1,
        eps: 1e-6,
      }),
    nadam: (p) => new optim.NAdam(p, { lr: 0.02 }),
    nadam_decay: (p) =>
      new optim.NAdam(p, {
        lr: 0.02,
        beta1: 0.8,
        beta2: 0.99,
        weightDecay: 0.1,
        momentumDecay: 0.01,
        decoupledWeightDecay: true,
      }),
    radam: (p) => new optim.RAdam(p, { lr: 0.02 }),
    radam_decay: (p) => new optim.RAdam(p, { lr: 0.05, beta1: 0.8, beta2: 0.98, weightDecay: 0.1 }),
    lion: (p) => new optim.Lion(p, { lr: 0.01 }),
    lion_decay: (p) => new optim.Lion(p, { lr: 0.01, beta1: 0.8, beta2: 0.95, weightDecay: 0.3 }),
  }),
  ...later({
    muon: ([w]) => new optim.Muon([w!], { lr: 0.02 }),
    muon_rms: ([w]) =>
      new optim.Muon([w!], {
        lr: 0.01,
        momentum: 0.8,
        nesterov: false,
        weightDecay: 0.3,
        nsSteps: 3,
        adjustLr: "match_rms_adamw",
      }),
    adafactor: (p) => new optim.Adafactor(p, { lr: 0.05 }),
    adafactor_decay: (p) =>
      new optim.Adafactor(p, {
        lr: 0.1,
        beta2Decay: -0.6,
        eps1: 1e-6,
        eps2: 1e-2,
        d: 1.5,
        weightDecay: 0.2,
      }),
  }, "matrix_optimizers"),
  groups: {
    make: (w, b) =>
      new optim.Adam([{ parameters: [w] }, { parameters: [b], lr: 0.1, weightDecay: 0.2 }], {
        lr: 0.01,
      }),
  },
  sometimes: { ...adam(0.05), biasLearns: (step) => step % 3 !== 1 },
  clip_norm: { ...sgd(0.5), afterBackward: (p) => optim.clipGradNorm(p, 0.1).dispose() },
  clip_norm_1: {
    ...sgd(0.5),
    afterBackward: (p) => optim.clipGradNorm(p, 0.1, { normType: 1 }).dispose(),
  },
  clip_norm_inf: {
    ...sgd(0.5),
    afterBackward: (p) => optim.clipGradNorm(p, 0.1, { normType: Infinity }).dispose(),
  },
  clip_value: { ...sgd(0.5), afterBackward: (p) => optim.clipGradValue(p, 0.05) },
  scheduled: {
    make: (w, b) => new optim.AdamW([w, b], { lr: 0.1 }),
    schedule: (optimizer) => new optim.CosineAnnealingLR(optimizer, { tMax: 50 }),
  },
};

async function assertRow(expected: Tensor, step: number, parts: Tensor[]): Promise<void> {
  const row = await expected.slice(step).toHost();
  let at = 0;
  for (const part of parts) {
    for (const value of await part.toHost()) {
      const difference = Math.abs(Number(value) - Number(row[at++]));
      assert(difference < 1e-4, `step ${step}: ${value} is off by ${difference}`);
    }
  }
}

for (const [name, setup] of Object.entries(setups)) {
  testOnBackends(`${name} stays within 1e-4 of PyTorch over 50 steps`, async (backend) => {
    const run = await fixture(setup.fixture ?? "optimizers", backend);
    const { x, y } = run as Record<"x" | "y", Tensor>;
    const [weight, bias] = [run.weight!, run.bias!];
    weight.requiresGrad = bias.requiresGrad = true;
    const optimizer = setup.make(weight, bias), scheduler = setup.schedule?.(optimizer);
    for (let step = 0; step < 50; step++) {
      const loss = x.matmul(weight.transpose()).add(bias).tanh().sub(y).square().mean();
      optimizer.zeroGrad();
      loss.backward();
      if (setup.biasLearns?.(step) === false) bias.grad = null;
      setup.afterBackward?.([weight, bias].filter((p) => p.grad));
      optimizer.step();
      scheduler?.step();
      if (step % 10 === 9 || step === 0) await assertRow(run[name]!, step, [weight, bias]);
    }
    optimizer.dispose();
  });
}
