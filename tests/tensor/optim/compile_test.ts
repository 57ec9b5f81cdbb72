// Steps that are recorded once and replayed: whatever changes from step to step must be in memory.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { amp, compile, manualSeed, nn, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { outcomesOf } from "../compile/outcomes.ts";
import { numbersOf } from "../numbers.ts";
import { learn } from "../training.ts";

function makeModel(): nn.Module {
  return new nn.Sequential(new nn.Linear(4, 8), new nn.BatchNorm1d(8), new nn.Linear(8, 1));
}

type Make = (parameters: Tensor[]) => optim.Optimizer;

const makers: Record<string, Make> = {
  "SGD with dampening": (p) => new optim.SGD(p, { lr: 0.05, momentum: 0.9, dampening: 0.5 }),
  AdamW: (p) => new optim.AdamW(p, { lr: 0.01 }),
  RMSprop: (p) => new optim.RMSprop(p, { momentum: 0.5 }),
};

/** The losses of 8 steps, compiled or not; the rate is halved after 4. */
async function losses(make: Make, compiled: boolean): Promise<number[]> {
  manualSeed(8);
  const model = makeModel(), optimizer = make(model.parameters());
  const x = Tensor.randn([16, 4]).realize(), y = x.sum(1, { keepDims: true }).realize();
  const step = (x: Tensor, y: Tensor): Tensor => {
    const loss = nn.mse(model.forward(x), y);
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    return loss;
  };
  const run = compiled ? compile(step) : step;
  const out: number[] = [];
  for (let k = 0; k < 8; k++) {
    if (k === 4) optimizer.lr /= 2;
    using loss = run(x, y);
    out.push(await loss.item());
  }
  out.push(...[...await model.namedBuffers()[0]![1].toHost()].map(Number));
  return out;
}

for (const [name, make] of Object.entries(makers)) {
  testOnBackends(`a compiled step of ${name} is the same step`, async () => {
    const expected = await losses(make, false), actual = await losses(make, true);
    assertEquals(actual.length, expected.length);
    actual.forEach((value, k) => assertAlmostEquals(value, expected[k]!, 1e-5));
  });
}

testOnBackends("a compiled step with a scaler recovers from overflow", async () => {
  const w = Tensor.ones([2], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 0.25 });
  const scaler = new amp.GradScaler({ initScale: 4, growthInterval: 2 });
  const step = compile((factor: Tensor) => learn(optimizer, w.mul(factor).sum(), scaler));
  const scales: number[] = [];
  for (const value of [1, 1, Infinity, 1, 1]) {
    using factor = Tensor.fromHost(value);
    step(factor).dispose();
    scales.push(await scaler.currentScale());
  }
  assertEquals(scales, [4, 8, 4, 4, 8]);
  assertEquals(await w.toArray(), [0, 0]);
});

testOnBackends("a compiled dropout drops others every time", async () => {
  const layer = new nn.Dropout(0.5);
  const run = compile((x: Tensor) => layer.forward(x));
  const x = Tensor.ones([200]).realize();
  const draws = new Set<string>();
  for (let k = 0; k < 4; k++) {
    using y = run(x);
    draws.add(String(await y.toArray()));
  }
  assertEquals(draws.size, 4);
});

/** Changes of an optimizer between two steps, after which a compiled step goes on to be replayed. */
const changes: Record<string, (adam: optim.Adam, model: nn.Module) => void> = {
  "an option that changes": ({ groups }) => groups[0]!.options.weightDecay = 0.5,
  "parameters that are cast": (_, model) => model.to("float16"),
  "state that is loaded": (adam) => adam.loadStateDict(adam.stateDict()),
  "parameters that are added": (adam) =>
    adam.addParamGroup({ parameters: [Tensor.ones([1], { requiresGrad: true })] }),
};

for (const [name, change] of Object.entries(changes)) {
  testOnBackends(`compile() replays steps again after ${name}`, () => {
    const [expected, actual] = [false, true].map((isCompiled) => {
      manualSeed(5);
      const model = new nn.Linear(3, 2), adam = new optim.Adam(model.parameters());
      const step = (): void => void learn(adam, model.forward(Tensor.ones([2, 3])).square().sum());
      const run = isCompiled ? compile(step) : step;
      for (let k = 0; k < 3; k++) run();
      change(adam, model);
      for (let k = 0; k < 3; k++) run();
      if (isCompiled) assertEquals(outcomesOf(run), ["followed"]);
      else run();
      return numbersOf(...model.parameters());
    });
    assertEquals(actual, expected);
  });
}
