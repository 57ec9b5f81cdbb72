// 50 steps of a regression by every optimizer: all parameters stay where PyTorch's are.
import { optim, type Tensor } from "../../../mod.ts";
import { fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

type Make = (parameters: Tensor[]) => optim.Optimizer;

interface Setup {
  fixture?: string;
  make: (weight: Tensor, bias: Tensor) => optim.Optimizer;
  schedule?: (optimizer: optim.Optimizer) => optim.Scheduler;
  afterBackward?: (parameters: Tensor[]) => void;
  biasLearns?: (step: number) => boolean;
}

/** A setup in which weight and bias learn the same way. */
const of = (make: Make, fixture?: string): Setup => ({
  make: (w, b) => make([w, b]),
  ...fixture !== undefined && { fixture },
});
const sgd = (lr: number, options: optim.SGDOptions = {}) =>
  of((p) => new optim.SGD(p, { lr, ...options }));
const adam = (lr: number, options: optim.AdamOptions = {}) =>
  of((p) => new optim.Adam(p, { lr, ...options }));
const clipped = (clip: (parameters: Tensor[]) => Tensor | void): Setup => ({
  ...sgd(0.5),
  afterBackward: (p) => clip(p)?.dispose(),
});
const more = (make: Make): Setup => of(make, "more_optimizers");
const matrices = (make: Make): Setup => of(make, "matrix_optimizers");

/** Options that stand in more than one row, or would not fit in it. */
const [slow, centered] = [{ beta1: 0.8, beta2: 0.99 }, { momentum: 0.5, centered: true }];
const started = { initialAccumulatorValue: 0.1, eps: 1e-6 };
const decoupled = { momentumDecay: 0.01, decoupledWeightDecay: true };
const rms = { momentum: 0.8, nesterov: false, nsSteps: 3, adjustLr: "matchRmsAdamw" } as const;
const factored = { beta2Decay: -0.6, eps1: 1e-6, eps2: 1e-2, d: 1.5 };

const setups: Record<string, Setup> = {
  sgd: sgd(0.1),
  sgd_decay: sgd(0.1, { weightDecay: 0.05 }),
  sgd_momentum: sgd(0.05, { momentum: 0.9 }),
  sgd_dampening: sgd(0.1, { momentum: 0.8, dampening: 0.3, weightDecay: 0.01 }),
  sgd_nesterov: sgd(0.05, { momentum: 0.9, nesterov: true }),
  adam: adam(0.02),
  adam_decay: adam(0.02, { ...slow, eps: 1e-6, weightDecay: 0.1 }),
  adam_amsgrad: adam(0.05, { amsgrad: true }),
  adamw: of((p) => new optim.AdamW(p, { lr: 0.02, weightDecay: 0.3 })),
  adamw_default: of((p) => new optim.AdamW(p)),
  rmsprop: of((p) => new optim.RMSprop(p, { lr: 0.01 })),
  rmsprop_centered: of((p) =>
    new optim.RMSprop(p, { lr: 0.002, alpha: 0.9, ...centered, weightDecay: 0.01 })
  ),
  adagrad: more((p) => new optim.Adagrad(p, { lr: 0.2 })),
  adagrad_decay: more((p) =>
    new optim.Adagrad(p, { lr: 0.2, lrDecay: 0.1, weightDecay: 0.05, ...started })
  ),
  nadam: more((p) => new optim.NAdam(p, { lr: 0.02 })),
  nadam_decay: more((p) =>
    new optim.NAdam(p, { lr: 0.02, ...slow, weightDecay: 0.1, ...decoupled })
  ),
  radam: more((p) => new optim.RAdam(p, { lr: 0.02 })),
  radam_decay: more((p) =>
    new optim.RAdam(p, { lr: 0.05, beta1: 0.8, beta2: 0.98, weightDecay: 0.1 })
  ),
  lion: more((p) => new optim.Lion(p, { lr: 0.01 })),
  lion_decay: more((p) =>
    new optim.Lion(p, { lr: 0.01, beta1: 0.8, beta2: 0.95, weightDecay: 0.3 })
  ),
  muon: matrices(([w]) => new optim.Muon([w!], { lr: 0.02 })),
  muon_rms: matrices(([w]) => new optim.Muon([w!], { lr: 0.01, weightDecay: 0.3, ...rms })),
  adafactor: matrices((p) => new optim.Adafactor(p, { lr: 0.05 })),
  adafactor_decay: matrices((p) =>
    new optim.Adafactor(p, { lr: 0.1, ...factored, weightDecay: 0.2 })
  ),
  groups: {
    make: (w, b) => {
      const groups = [{ parameters: [w] }, { parameters: [b], lr: 0.1, weightDecay: 0.2 }];
      return new optim.Adam(groups, { lr: 0.01 });
    },
  },
  sometimes: { ...adam(0.05), biasLearns: (step) => step % 3 !== 1 },
  clip_norm: clipped((p) => optim.clipGradNorm(p, 0.1)),
  clip_norm_1: clipped((p) => optim.clipGradNorm(p, 0.1, { normType: 1 })),
  clip_norm_inf: clipped((p) => optim.clipGradNorm(p, 0.1, { normType: Infinity })),
  clip_value: clipped((p) => optim.clipGradValue(p, 0.05)),
  scheduled: {
    ...of((p) => new optim.AdamW(p, { lr: 0.1 })),
    schedule: (optimizer) => new optim.CosineAnnealingLR(optimizer, { tMax: 50 }),
  },
};

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
      if (step % 10 !== 9 && step > 0) continue;
      const expected = numbersOf(run[name]!.slice(step)), found = numbersOf(weight, bias);
      assertNumbers(found, expected.slice(0, found.length), 5e-5, `step ${step}`);
    }
    optimizer.dispose();
  });
}
