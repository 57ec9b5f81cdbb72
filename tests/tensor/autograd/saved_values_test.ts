// Suite: alone; asks what all blocks of the process come to.
/** Values read before `backward`, which does not compute them again. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type BackendName,
  checkpoint,
  grad,
  manager,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  OutOfMemoryError,
  profiler,
  realizeAll,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";
import { kernelsOf, learn } from "../training.ts";

const ROWS = 256, WIDTH = 48, LAYERS = 4;

class Network {
  readonly layers = Array.from({ length: LAYERS }, () => new nn.Linear(WIDTH, WIDTH));
  readonly parameters = this.layers.flatMap((layer) => layer.parameters());
  readonly x = Tensor.randn([ROWS, WIDTH]).realize();
  readonly labels = Tensor.fromHost(Int32Array.from({ length: ROWS }, (_, k) => k % WIDTH));

  constructor(readonly activation: (x: Tensor) => Tensor) {
    realizeAll([...this.parameters, this.labels]);
  }

  forward(): { hidden: Tensor; loss: Tensor } {
    let hidden = this.x;
    for (const layer of this.layers.slice(0, -1)) hidden = this.activation(layer.forward(hidden));
    return { hidden, loss: this.layers.at(-1)!.forward(hidden).crossEntropy(this.labels) };
  }

  /** Computes all gradients and gives them back with their kernels. */
  gradients(loss: Tensor): { kernels: number; values: number[] } {
    for (const p of this.parameters) p.grad = null;
    loss.backward();
    profiler.reset();
    const gradients = this.parameters.map((p) => p.grad!);
    realizeAll(gradients);
    const { kernels } = profiler.counters();
    const values = gradients.map((g) => {
      using sizes = g.abs();
      using sum = sizes.sum();
      return sum.itemSync();
    });
    for (const g of gradients) g.dispose();
    return { kernels, values };
  }
}

const activations = {
  relu: (x: Tensor) => x.relu(),
  gelu: (x: Tensor) => x.gelu(),
  checkpointed: (x: Tensor) => checkpoint((x: Tensor) => x.gelu(), x),
};

function onNetwork(
  title: string,
  fn: (network: Network, backend: BackendName) => void,
  names = Object.keys(activations) as (keyof typeof activations)[],
): void {
  for (const name of names) {
    testOnBackends(`${title}: ${name}`, (backend) => {
      manualSeed(4);
      fn(new Network(activations[name]), backend);
    });
  }
}

/** Bytes held; what a test let fall may leave meanwhile, so that they are bounds for later ones. */
function held(backend: BackendName): number {
  return memory.stats(manager.default(backend)).requestedBytes;
}

onNetwork("a loss that was read is not computed again by backward", (network) => {
  const whole = network.gradients(network.forward().loss);
  const forward = noGrad(() => kernelsOf(() => network.forward().loss.itemSync()));
  const { loss } = network.forward();
  const read = kernelsOf(() => loss.itemSync());
  // One kernel may compute the loss and the gradient of the logits.
  assert(read <= forward + 1, `${read} kernels to read, ${forward} without gradients`);
  const rest = network.gradients(loss);
  assert(
    read + rest.kernels <= whole.kernels + 3,
    `${read} and ${rest.kernels} kernels, ${whole.kernels} in one go`,
  );
  assertNumbers(rest.values, whole.values, 1e-4);
}, ["relu", "gelu"]);

onNetwork("gradients after a read are those without", (network) => {
  const { values } = network.gradients(network.forward().loss);
  const { hidden, loss } = network.forward();
  hidden.toHostSync();
  const mean = hidden.mean();
  mean.itemSync();
  loss.itemSync();
  assertNumbers(network.gradients(loss).values, values, 1e-4);
});

onNetwork("gradients that are wanted now and then are those without a read", (network) => {
  const [first, last] = [network.layers[0]!.weight, network.layers.at(-1)!.weight];
  const gradients = (isRead: boolean): number[] => {
    const { loss } = network.forward();
    if (isRead) loss.itemSync();
    network.parameters.forEach((p) => p.grad = null);
    loss.backward();
    return numbersOf(...network.parameters.flatMap((p) => p.grad ?? []));
  };
  for (const [isFirst, isLast] of [[true, true], [false, true], [true, false], [true, true]]) {
    first.requiresGrad = isFirst!, last.requiresGrad = isLast!;
    const expected = gradients(false);
    for (let step = 0; step < 3; step++) assertNumbers(gradients(true), expected, 1e-4);
  }
});

/**
 * Steps that read, until memory has room for what they keep: while it grows for the first time, values that
 * no kernel has read for a while move to the host.
 */
function settle(network: Network): void {
  for (let step = 0; step < 4; step++) {
    const { hidden, loss } = network.forward();
    hidden.toHostSync();
    loss.itemSync();
    network.gradients(loss);
    loss.dispose();
    hidden.dispose();
    endTransients(network);
  }
}

/** Activations that are computed from a read one may be read until the next assignment. */
function endTransients({ parameters: [weight] }: Network): void {
  weight!.assign(weight!).realize();
}

onNetwork("what a read keeps goes with backward", (network, backend) => {
  settle(network);
  const before = held(backend);
  const { hidden, loss } = network.forward();
  hidden.toHostSync();
  loss.itemSync();
  const bytes = ROWS * WIDTH * 4;
  assert(held(backend) >= before + (LAYERS - 2) * bytes, "nothing is kept");
  network.gradients(loss);
  assert(held(backend) - before <= 4 + bytes, "more than what was read is kept");
  assertEquals(Number.isFinite(loss.itemSync()), true);
  loss.dispose();
  hidden.dispose();
  endTransients(network);
  assert(held(backend) <= before, `${held(backend)} bytes for ${before}`);
}, ["relu", "gelu"]);

onNetwork(
  "a read keeps two values of each layer: the product, and what the next one reads",
  (network, backend) => {
    network.gradients(network.forward().loss);
    const before = held(backend);
    const { loss } = network.forward();
    loss.itemSync();
    const values = (held(backend) - before) / (ROWS * WIDTH * 4);
    // With the logits, and a few numbers of each row.
    assert(values <= 2 * (LAYERS - 1) + 1.25, `${values} values`);
  },
  ["relu", "gelu"],
);

onNetwork("what a read keeps goes with the tensor that was read", (network, backend) => {
  settle(network);
  const before = held(backend);
  const { loss } = network.forward();
  loss.itemSync();
  assert(held(backend) > before + 4);
  loss.dispose();
  assert(held(backend) <= before, `${held(backend)} bytes for ${before}`);
});

onNetwork("without gradients a read keeps the value that was read alone", (network, backend) => {
  network.gradients(network.forward().loss);
  const before = held(backend);
  const { loss, hidden } = noGrad(() => network.forward());
  loss.itemSync();
  hidden.toHostSync();
  // The loss is a number: it needs no memory on the device.
  assertEquals(held(backend), before + ROWS * WIDTH * 4);
});

onNetwork("a read value that is realized stays", (network) => {
  const { hidden, loss } = network.forward();
  const values = hidden.toHostSync();
  hidden.realize();
  network.gradients(loss);
  assertEquals(kernelsOf(() => assertEquals(hidden.toHostSync(), values)), 0);
}, ["relu"]);

onNetwork("gradients that keep the graph keep the values too", (network) => {
  const { loss } = network.forward();
  loss.itemSync();
  const first = grad([loss], network.parameters);
  const kernels = kernelsOf(() => realizeAll(first));
  const again = kernelsOf(() => realizeAll(grad([loss], network.parameters)));
  assertEquals(again, kernels);
  loss.backward();
}, ["relu"]);

onNetwork("where memory is short, what was kept goes and is computed again", (network, backend) => {
  const { values } = network.gradients(network.forward().loss);
  const device = manager.default(backend);
  const { loss } = network.forward();
  loss.itemSync();
  const before = held(backend);
  const stats = memory.stats(device);
  memory.setLimit(stats.reservedBytes, device);
  try {
    const large = Tensor.zeros([stats.reservedBytes / 2]);
    assertThrows(() => large.realize(), OutOfMemoryError); // twice the limit
  } finally {
    memory.setLimit(null, device);
  }
  assert(held(backend) < before);
  assertNumbers(network.gradients(loss).values, values, 1e-4);
}, ["gelu"]);

testOnBackends("a step whose loss is read first is the step whose loss is read last", () => {
  const losses = (first: boolean): number[] => {
    manualSeed(6);
    const [wide, norm, last] = [new nn.Linear(8, 16), new nn.BatchNorm1d(16), new nn.Linear(16, 4)];
    const model = new nn.Sequential(wide, norm, new nn.GELU(), new nn.Dropout(0.3), last);
    const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
    const x = Tensor.randn([32, 8]).realize();
    const labels = Tensor.fromHost(Int32Array.from({ length: 32 }, (_, k) => k % 4)).realize();
    return Array.from({ length: 5 }, () => {
      using loss = model.forward(x).crossEntropy(labels);
      const early = first ? loss.itemSync() : 0;
      learn(optimizer, loss);
      const late = loss.itemSync();
      if (first) assertEquals(early, late);
      return late;
    });
  };
  assertNumbers(losses(true), losses(false), 1e-5);
});

testOnBackends("a cast operand of few rows that was saved for backward is read as it lies", () => {
  const weight = Tensor.full([8, 4], 0.5, { requiresGrad: true }), x = Tensor.ones([2, 8]);
  const half = weight.mul(2).cast("float16");
  const loss = x.cast("float16").matmul(half).mul(half.sum()).sum();
  assertEquals(loss.itemSync(), 2 * 8 * 4 * 32);
  loss.backward();
  // Of the product's 64 elements and of the sum's 32, each by what the other is, doubled.
  assertEquals([...new Set(weight.grad!.toHostSync("float32"))], [2 * (2 * 32 + 64)]);
});

testOnBackends(
  "a part that nobody reads keeps what it is a part of, and nothing behind that",
  () => {
    manualSeed(4);
    const x = Tensor.rand([64, 32]).realize();
    const layers = Array.from({ length: 4 }, () => [new nn.Linear(32, 96), new nn.Linear(32, 32)]);
    const model = new nn.Sequential(...layers.flat());
    const optimizer = new optim.SGD(model.parameters(), { lr: 1e-3 });
    const held: number[] = [];
    for (let k = 0; k < 8; k++) {
      let hidden = x;
      for (const [wide, narrow] of layers) {
        const [first] = wide!.forward(hidden).gelu().split(32, -1);
        hidden = narrow!.forward(first!).gelu().add(hidden);
      }
      const loss = hidden.square().mean();
      loss.itemSync();
      learn(optimizer, loss);
      held.push(memory.stats().requestedBytes);
    }
    // What is split, as often as there are layers; it was twice as much.
    const more = held.at(-1)! - held[3]!, split = 4 * 64 * 96 * layers.length * (held.length - 4);
    assert(more <= 1.2 * split, `${more} bytes more, ${split} of what is split`);
  },
);
