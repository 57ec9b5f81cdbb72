// Suite: alone; asks what all blocks of the process come to.
/**
 * A training loop that disposes of nothing and never awaits holds as much after each step, whatever
 * layers, losses and optimizers it is made of: what an operation makes on its way is not the user's.
 */
import { assertEquals } from "@std/assert";
import { amp, checkpoint, manualSeed, memory, nn, optim, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { learn } from "../training.ts";

/** A model, and its input; the loop is that of a training with either. */
type Case = readonly [model: () => nn.Module, input: () => Tensor];

const rows = () => Tensor.rand([6, 12]), images = () => Tensor.rand([2, 3, 6, 6]);
const linear = () => new nn.Linear(12, 8), conv = () => new nn.Conv2d(3, 4, 3);

const cases: Record<string, Case> = {
  Linear: [linear, rows],
  Conv2d: [() => new nn.Conv2d(3, 4, 3, { padding: 1 }), images],
  LayerNorm: [() => new nn.Sequential(linear(), new nn.LayerNorm(8)), rows],
  BatchNorm1d: [() => new nn.Sequential(linear(), new nn.BatchNorm1d(8)), rows],
  BatchNorm2d: [() => new nn.Sequential(conv(), new nn.BatchNorm2d(4)), images],
  Dropout: [() => new nn.Sequential(linear(), new nn.Dropout(0.5)), rows],
  Embedding: [() => new nn.Embedding(10, 8), () => Tensor.randint(0, 10, [4, 5])],
  MultiheadAttention: [
    () => new nn.MultiheadAttention(8, 2, { batchFirst: true }),
    () => Tensor.rand([2, 5, 8]),
  ],
  "pooling and activations": [() => {
    const pooled = [conv(), new nn.GELU(), new nn.MaxPool2d(2), new nn.Flatten()];
    return new nn.Sequential(...pooled, new nn.Linear(16, 4), new nn.SiLU());
  }, images],
};

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

for (const [name, [model, input]] of Object.entries(cases)) {
  testOnCPU(`a loop that trains ${name} holds the same after each step`, () => {
    manualSeed(0);
    const layer = model(), x = input().realize();
    const optimizer = new optim.Adam(layer.parameters(), { lr: 1e-3 });
    const held = heldAfterSteps(() => learn(optimizer, layer.forward(x).square().mean()));
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
  testOnCPU(`a loop that minimizes ${name}, clipped, holds the same after each step`, () => {
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
    amp.autocast("bfloat16", () => model.forward(x).square().mean()),
  "autocast to float16": (model, x) =>
    amp.autocast("float16", () => model.forward(x).square().mean()),
  "a checkpoint": (model, x) => checkpoint((x: Tensor) => model.forward(x), x).square().mean(),
  "a graph that is kept": (model, x) => {
    const loss = model.forward(x).square().mean();
    loss.backward(undefined, { retainGraph: true });
    return loss;
  },
  "a loss that is read first": (model, x) => {
    const loss = model.forward(x).square().mean();
    loss.itemSync();
    return loss;
  },
};

for (const [name, lossOf] of Object.entries(ways)) {
  testOnBackends(`a loop of steps with ${name} holds the same after each step`, () => {
    if (isEager()) return; // every value is stored, until the collector comes
    manualSeed(0);
    const features = [new nn.Conv2d(3, 8, 3), new nn.Flatten(), new nn.GELU()];
    const model = new nn.Sequential(...features, new nn.Linear(128, 16)), x = images().realize();
    const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
    assertFlat(heldAfterSteps(() => learn(optimizer, lossOf(model, x))), 1, name);
  });
}
