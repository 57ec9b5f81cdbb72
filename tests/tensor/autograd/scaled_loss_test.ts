/** A loss that backward went through on its way from another number is computed with the step. */
import { assert, assertAlmostEquals } from "@std/assert";
import { amp, compile, manualSeed, nn, optim, profiler, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

/** Ways in which a step goes backward from its loss and updates the parameters. */
type Finish = (loss: Tensor, optimizer: optim.Optimizer) => void;

const scaled: Readonly<Record<string, () => Finish>> = {
  "a part of a sum over steps": () => (loss, optimizer) => {
    loss.div(4).backward();
    optimizer.step();
  },
  "a sum of two losses": () => (loss, optimizer) => {
    loss.add(loss.mul(0.5)).backward();
    optimizer.step();
  },
  "a loss times the factor of a GradScaler": () => {
    const scaler = new amp.GradScaler();
    return (loss, optimizer) => {
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
    };
  },
};

/** A training step of a small network. */
function trainingStep(finish: Finish): (x: Tensor, labels: Tensor) => Tensor {
  manualSeed(3);
  const model = new nn.Sequential(new nn.Linear(12, 16), new nn.Tanh(), new nn.Linear(16, 5));
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  return (x, labels) => {
    const loss = model.forward(x).crossEntropy(labels);
    optimizer.zeroGrad();
    finish(loss, optimizer);
    return loss;
  };
}

for (const [name, make] of Object.entries(scaled)) {
  testOnBackends(`${name} is computed with the step, not once more when it is read`, () => {
    const x = Tensor.randn([8, 12]).realize();
    const labels = Tensor.fromHost(Int32Array.from({ length: 8 }, (_, k) => k % 5)).realize();
    const plain = trainingStep(make()), compiled = compile(trainingStep(make()));
    let former = 0;
    for (let step = 0; step < 4; step++) {
      profiler.reset();
      using loss = plain(x, labels);
      const kernels = profiler.counters().kernels;
      const value = loss.itemSync();
      const read = profiler.counters().kernels - kernels;
      assert(read === 0, `${read} kernels to read the loss of step ${step}`);
      using same = compiled(x, labels);
      assertAlmostEquals(same.itemSync(), value, 1e-5);
      assert(step === 0 || value < former, `step ${step}: ${value} after ${former}`);
      former = value;
    }
  });
}
