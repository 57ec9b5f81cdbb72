// Suite: alone; asks what all blocks of the process come to.
/**
 * A training loop that disposes of nothing and never awaits holds as much after each step, whatever
 * layers, losses and optimizers it is made of: what an operation makes on its way is not the user's.
 */
import { assertEquals } from "@std/assert";
import {
  amp,
  checkpoint,
  device,
  manualSeed,
  memory,
  nn,
  optim,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";

interface Case {
  readonly layer: () => nn.Module;
  /** The shape of the input; of integers below `classes` where that is given. */
  readonly shape: readonly number[];
  readonly classes?: number;
}

const cases: Record<string, Case> = {
  Linear: { layer: () => new nn.Linear(12, 8), shape: [6, 12] },
  Conv2d: { layer: () => new nn.Conv2d(3, 4, 3, { padding: 1 }), shape: [2, 3, 6, 6] },
  LayerNorm: {
    layer: () => new nn.Sequential(new nn.Linear(12, 8), new nn.LayerNorm(8)),
    shape: [6, 12],
  },
  BatchNorm1d: {
    layer: () => new nn.Sequential(new nn.Linear(12, 8), new nn.BatchNorm1d(8)),
    shape: [6, 12],
  },
  BatchNorm2d: {
    layer: () => new nn.Sequential(new nn.Conv2d(3, 4, 3), new nn.BatchNorm2d(4)),
    shape: [2, 3, 6, 6],
  },
  Dropout: {
    layer: () => new nn.Sequential(new nn.Linear(12, 8), new nn.Dropout(0.5)),
    shape: [6, 12],
  },
  Embedding: { layer: () => new nn.Embedding(10, 8), shape: [4, 5], classes: 10 },
  MultiheadAttention: {
    layer: () => new nn.MultiheadAttention(8, 2, { batchFirst: true }),
    shape: [2, 5, 8],
  },
  "pooling and activations": {
    layer: () =>
      new nn.Sequential(
        new nn.Conv2d(3, 4, 3),
        new nn.GELU(),
        new nn.MaxPool2d(2),
        new nn.Flatten(),
        new nn.Linear(16, 4),
        new nn.SiLU(),
      ),
    shape: [2, 3, 6, 6],
  },
};

function inputOf({ shape, classes }: Case): Tensor {
  return (classes ? Tensor.randint(0, classes, shape) : Tensor.rand(shape)).realize();
}

function heldAfterSteps(step: () => Tensor, steps = 8): number[] {
  return Array.from({ length: steps }, () => {
    step().realize();
    return memory.stats().requestedBytes;
  });
}

/** `scalars` of a step are the caller's: it reads them, or the collector finds them. */
function assertFlat(held: readonly number[], scalars: number, what: string): void {
  const [fourth, last] = [held[3]!, held.at(-1)!];
  assertEquals(last - fourth, 4 * scalars * (held.length - 4), `${what}: ${held}`);
}

// The backend's threads start with its first work, and stay.
Tensor.ones([1], { device: "cpu" }).realize().dispose();

for (const [name, item] of Object.entries(cases)) {
  Deno.test(`a loop that trains ${name} holds the same after each step`, () => {
    using _device = device("cpu");
    manualSeed(0);
    const layer = item.layer(), x = inputOf(item);
    const optimizer = new optim.Adam(layer.parameters(), { lr: 1e-3 });
    const held = heldAfterSteps(() => {
      const loss = (layer.forward(x) as Tensor).square().mean();
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      return loss;
    });
    assertFlat(held, 1, name);
  });
}

/** Losses that are sums of two numbers, which are the caller's, too. */
const sums: ReadonlySet<string> = new Set(["norms"]);
const losses: Record<string, (y: Tensor) => Tensor> = {
  crossEntropy: (y) => y.crossEntropy(Tensor.zeros([6], { dtype: "int32" })),
  mse: (y) => nn.mse(y, y.onesLike()),
  variance: (y) => y.variance(1).add(y.std(1)).sum(),
  softmax: (y) => y.softmax(1).add(y.logSoftmax(1)).add(y.cumsum(1)).sum(),
  norms: (y) => y.logSumExp(1).sum().add(y.prod(1).sum()),
};

for (const [name, lossOf] of Object.entries(losses)) {
  Deno.test(`a loop that minimizes ${name}, clipped, holds the same after each step`, () => {
    using _device = device("cpu");
    manualSeed(0);
    const layer = new nn.Linear(12, 8), x = Tensor.rand([6, 12]).realize();
    const optimizer = new optim.SGD(layer.parameters(), { lr: 1e-3, momentum: 0.9 });
    const held = heldAfterSteps(() => {
      const loss = lossOf(layer.forward(x));
      optimizer.zeroGrad();
      loss.backward();
      optim.clipGradNorm(layer.parameters(), 1);
      optimizer.step();
      return loss;
    });
    assertFlat(held, sums.has(name) ? 4 : 2, name);
  });
}

/** Ways in which a loss is made and gone back from, where views, casts and second walks leave tensors behind. */
const ways: Record<string, (model: nn.Module, x: Tensor) => Tensor> = {
  "autocast to bfloat16": (model, x) =>
    amp.autocast("bfloat16", () => (model.forward(x) as Tensor).square().mean()),
  "autocast to float16": (model, x) =>
    amp.autocast("float16", () => (model.forward(x) as Tensor).square().mean()),
  "a checkpoint": (model, x) =>
    checkpoint((x: Tensor) => model.forward(x) as Tensor, x).square().mean(),
  "a graph that is kept": (model, x) => {
    const loss = (model.forward(x) as Tensor).square().mean();
    loss.backward(undefined, { retainGraph: true });
    return loss;
  },
  "a loss that is read first": (model, x) => {
    const loss = (model.forward(x) as Tensor).square().mean();
    loss.itemSync();
    return loss;
  },
};

for (const [name, lossOf] of Object.entries(ways)) {
  testOnBackends(`a loop of steps with ${name} holds the same after each step`, (backend) => {
    if (isEager()) return; // every value is stored, until the collector comes
    withDevice(backend, () => {
      manualSeed(0);
      const model = new nn.Sequential(
        new nn.Conv2d(3, 8, 3),
        new nn.Flatten(),
        new nn.GELU(),
        new nn.Linear(128, 16),
      );
      const x = Tensor.rand([2, 3, 6, 6]).realize();
      const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
      const held = heldAfterSteps(() => {
        const loss = lossOf(model, x);
        optimizer.zeroGrad();
        loss.backward();
        optimizer.step();
        return loss;
      });
      assertFlat(held, 1, name);
    });
  });
}
