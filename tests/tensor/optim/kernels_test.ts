// How many kernels a training step launches.
import { assert } from "@std/assert";
import { manualSeed, nn, optim, profiler, Tensor } from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";
import { learn } from "../training.ts";

type Make = (parameters: Tensor[]) => optim.Optimizer;

const makers: Record<string, Make> = {
  SGD: (p) => new optim.SGD(p, { lr: 0.1 }),
  "SGD with momentum": (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9 }),
  Adam: (p) => new optim.Adam(p, { lr: 0.001 }),
  AdamW: (p) => new optim.AdamW(p, { lr: 0.001 }),
  RMSprop: (p) => new optim.RMSprop(p, { lr: 0.001 }),
};

/** The kernels of one step of a model with three linear layers, after a few to settle. */
function kernelsOfStep(make: Make): number {
  manualSeed(2);
  const [first, second] = [new nn.Linear(40, 32), new nn.Linear(32, 24)], relu = new nn.ReLU();
  const model = new nn.Sequential(first, relu, second, relu, new nn.Linear(24, 10));
  const optimizer = make(model.parameters());
  const x = Tensor.randn([16, 40]).realize();
  const labels = Tensor.fromHost(Uint8Array.from({ length: 16 }, (_, k) => k % 10)).realize();
  for (let step = 0;; step++) {
    profiler.reset();
    using loss = learn(optimizer, model.forward(x).crossEntropy(labels));
    loss.realize();
    if (step === 3) return profiler.counters().kernels;
  }
}

for (const [name, make] of Object.entries(makers)) {
  testOpenCL(`a step of three layers with ${name} is at most 12 kernels`, () => {
    // Three layers forward, two backward, three updates of weights: eight products. Then the loss and
    // its gradient, one update of all biases, and what Adam counts.
    const kernels = kernelsOfStep(make);
    assert(kernels <= 12, `${kernels} kernels`);
  });
}

testOpenCL("gradients in memory take one launch for all parameters, whatever their sizes", () => {
  const shapes = [[784, 256], [256], [128, 256], [128], [10, 128], [10]];
  const parameters = shapes.map((shape) => {
    const p = Tensor.randn(shape).realize();
    p.requiresGrad = true;
    p.grad = Tensor.randn(shape).realize();
    return p;
  });
  for (const [name, make] of Object.entries(makers)) {
    using optimizer = make(parameters);
    profiler.reset();
    optimizer.step();
    const { kernels } = profiler.counters();
    // Adam counts its steps beside.
    assert(kernels <= (name.startsWith("Adam") ? 2 : 1), `${name}: ${kernels} kernels`);
  }
});
