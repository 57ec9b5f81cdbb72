/**
 * Ways to train on several ranks, each held against one process with all samples; run by data_parallel_test.ts.
 * The file is long because the laws share their samples, models and comparisons.
 */
import { assert, assertEquals } from "@std/assert";
import { cpuUsage } from "node:process";
import {
  compile,
  DataLoader,
  device,
  distributed,
  manualSeed,
  nn,
  noGrad,
  optim,
  Tensor,
  TensorDataset,
} from "../../mod.ts";
import { isFollowing } from "../../tensor/core/calls.ts";
import { Device } from "../../ffi/mod.ts";
import { assertSameEverywhere, valuesOf } from "./ways/everywhere.ts";
import { wayOf } from "./ways/way.ts";

const { way, args } = wayOf(import.meta.url);

if (Deno.env.has("NETCL_TEST_APART")) {
  Object.defineProperty(Device.prototype, "hostUnifiedMemory", { get: () => false });
}
using _dev = device(args[0]!);
using group = distributed.init();
const options: distributed.DataParallelOptions = args[1] === "default"
  ? {}
  : { reduceOn: args[1] as "host" | "device" };
const { rank, size } = group;

/** Eight samples a rank. */
const allX = Tensor.fromHost(
  Float32Array.from({ length: 48 * size }, (_, k) => Math.sin(k * 1.3)),
  { shape: [8 * size, 6] },
);
const allY = Tensor.fromHost(Int32Array.from({ length: 8 * size }, (_, k) => k % 3));
const own = [8 * rank, 8 * (rank + 1)] as const;
const x = allX.slice(own).contiguous().realize(), y = allY.slice(own).contiguous().realize();

type Batch = [x: Tensor, y: Tensor];
type Loss = (x: Tensor, y: Tensor) => Tensor;

function mlp(): nn.Sequential {
  return new nn.Sequential(
    new nn.Linear(6, 16),
    new nn.Tanh(),
    new nn.Linear(16, 16),
    new nn.Tanh(),
    new nn.Linear(16, 3),
  );
}

function seeded<M extends nn.Module>(make: () => M): M {
  manualSeed(3);
  return make();
}

async function assertNear(
  model: nn.Module,
  expected: nn.Module,
  what: string,
  tolerance = 1e-5,
): Promise<void> {
  const values = await valuesOf(model), others = await valuesOf(expected);
  await assertSameEverywhere(group, values, what);
  const worst = Math.max(...values.map((value, k) => Math.abs(value - others[k]!)));
  assert(worst < tolerance, `${what}: off by ${worst}`);
}

const adam = (parameters: Tensor[]) => new optim.Adam(parameters, { lr: 0.02 });
const lossOf = (model: nn.Module): Loss => (x, y) =>
  (model as nn.Sequential).forward(x).crossEntropy(y);

const backwardOf = (model: nn.Module) => (x: Tensor, y: Tensor): void => {
  using loss = lossOf(model)(x, y);
  loss.backward();
};

/** The weights that one process learns from all samples in so many steps. */
function taught<M extends nn.Module>(
  make: () => M,
  between: (model: M) => void = () => {},
  steps = 6,
): M {
  const model = seeded(make), optimizer = adam(model.parameters()), loss = lossOf(model);
  for (let k = 0; k < steps; k++) {
    optimizer.zeroGrad();
    loss(allX, allY).backward();
    between(model);
    optimizer.step();
  }
  return model;
}

for (const clips of [false, true]) {
  // Optimizer state in shards, in ordinary steps and in a function that compile was asked to replay.
  const clip = (model: nn.Module): void => {
    if (clips) optim.clipGradNorm(model.parameters(), 0.05);
  };
  const expected = taught(mlp, clip);
  for (const isCompiled of [false, true]) {
    const model = seeded(mlp), what = `ZeRO, clips ${clips}, compiled ${isCompiled}`;
    using parallel = new distributed.DataParallel(model, group, options);
    using optimizer = new distributed.ShardedOptimizer(model.parameters(), group, adam);
    const gradients = backwardOf(model);
    const each = isCompiled ? compile(gradients) : gradients;
    let isReplayed = false;
    const update = (): void => {
      clip(model);
      optimizer.step();
      optimizer.zeroGrad();
      isReplayed = isFollowing();
    };
    const learn = isCompiled ? compile(update) : update;
    for (let k = 0; k < 6; k++) {
      parallel.onEachDevice([[x, y] as Batch], each);
      learn();
      assertEquals(isReplayed, isCompiled && k > 0, `${what}, step ${k}`);
    }
    await assertNear(model, expected, what);
  }
}
{
  // What a compiled function computes behind the step has the parameters of all ranks.
  const expected = taught(mlp), model = seeded(mlp);
  using parallel = new distributed.DataParallel(model, group, options);
  using optimizer = new distributed.ShardedOptimizer(model.parameters(), group, adam);
  const learn = compile((x: Tensor) => {
    optimizer.step();
    optimizer.zeroGrad();
    return noGrad(() => model.forward(x));
  });
  for (let k = 0; k < 6; k++) {
    parallel.onEachDevice([[x, y] as Batch], (x, y) => lossOf(model)(x, y).backward());
    const output = learn(allX);
    assert(await output.allClose(noGrad(() => model.forward(allX))), `behind step ${k}`);
  }
  await assertNear(model, expected, "ZeRO, with a forward pass behind the step");
}
{
  // A mean over any number of ranks is the exact one, rounded once: thirds are no worse than halves. MPI
  // adds in float32, and rounds each sum.
  class Factors extends nn.Module {
    factors = nn.parameter(Tensor.ones([4096]));
    override forward(x: Tensor): Tensor {
      return x.mul(this.factors);
    }
  }
  const model = new Factors(),
    parts = Array.from(
      { length: size },
      (_, r) => Float32Array.from({ length: 4096 }, (_, k) => Math.cos(k) * (k % 7 - r)),
    );
  using parallel = new distributed.DataParallel(model, group, options);
  parallel.noSync(() => model.forward(Tensor.fromHost(parts[rank]!)).sum().backward());
  parallel.reduceGradients();
  (await model.factors.grad!.toNumbers()).forEach((value, k) => {
    const terms = parts.map((part) => part[k]!), exact = terms.reduce((a, b) => a + b) / size;
    const most = terms.reduce((sum, term) => sum + Math.abs(term), 0) * 2 ** -24;
    if (args[1] !== "host") assertEquals(value, Math.fround(exact));
    else assert(Math.abs(value - exact) <= most, `${value} for ${exact}`);
  });
}
{
  // Four parts of a batch, whose gradients are added up by a compiled function, and reduced with the last.
  const expected = taught(mlp), model = seeded(mlp), optimizer = adam(model.parameters());
  using parallel = new distributed.DataParallel(model, group, options);
  const parts = [0, 2, 4, 6].map((k): Batch => [
    x.slice([k, k + 2]).contiguous().realize(),
    y.slice([k, k + 2]).contiguous().realize(),
  ]);
  const each = compile((x: Tensor, y: Tensor) => {
    using loss = lossOf(model)(x, y).mul(0.25);
    loss.backward();
  });
  const learn = compile(() => {
    optimizer.step();
    optimizer.zeroGrad();
  });
  for (let k = 0; k < 6; k++) {
    parallel.noSync(() => parts.slice(0, 3).forEach((part) => each(...part)));
    parallel.onEachDevice([parts[3]!], each);
    learn();
  }
  await assertNear(model, expected, "accumulated gradients, compiled");
}
{
  // Words that are read by the layer which writes them: one weight, two uses.
  class Tied extends nn.Module {
    words = new nn.Embedding(12, 8);
    inner = new nn.Linear(8, 8);
    override forward(x: Tensor): Tensor {
      return this.inner.forward(this.words.forward(x)).tanh().matmul(this.words.weight.transpose());
    }
  }
  const words = Tensor.fromHost(Int32Array.from({ length: 8 * size }, (_, k) => k * 5 % 12));
  const next = Tensor.fromHost(Int32Array.from({ length: 8 * size }, (_, k) => k * 7 % 12));
  const expected = seeded(() => new Tied()), other = adam(expected.parameters());
  const model = seeded(() => new Tied()), optimizer = adam(model.parameters());
  using parallel = new distributed.DataParallel(model, group, { ...options, bucketBytes: 300 });
  const each = compile((x: Tensor, y: Tensor) => {
    using loss = model.forward(x).crossEntropy(y);
    loss.backward();
  });
  const batch = [words, next].map((all) => all.slice(own).contiguous().realize()) as Batch;
  for (let k = 0; k < 6; k++) {
    parallel.onEachDevice([batch], each);
    optimizer.step();
    optimizer.zeroGrad();
    expected.forward(words).crossEntropy(next).backward();
    other.step();
    other.zeroGrad();
  }
  await assertNear(model, expected, "tied embedding");
}
{
  // One rank leaves out a layer in every other step; the gradients that it has not count as zeros.
  class Some extends nn.Module {
    first = new nn.Linear(6, 8);
    extra = new nn.Linear(8, 8);
    last = new nn.Linear(8, 3);
    forwardWith(x: Tensor, usesExtra: boolean): Tensor {
      const h = this.first.forward(x).tanh();
      return this.last.forward(usesExtra ? this.extra.forward(h).tanh() : h);
    }
    override forward(x: Tensor): Tensor {
      return this.forwardWith(x, true);
    }
  }
  const model = seeded(() => new Some()), optimizer = adam(model.parameters());
  const expected = seeded(() => new Some()), other = adam(expected.parameters());
  using parallel = new distributed.DataParallel(model, group, options);
  const compiled = [false, true].map((usesExtra) =>
    compile((x: Tensor, y: Tensor) => {
      using loss = model.forwardWith(x, usesExtra).crossEntropy(y);
      loss.backward();
    })
  );
  for (let k = 0; k < 8; k++) {
    const usesExtra = (r: number): boolean => r > 0 || k % 2 === 0;
    parallel.onEachDevice([[x, y] as Batch], compiled[Number(usesExtra(rank))]!);
    optimizer.step();
    optimizer.zeroGrad();
    const losses = Array.from({ length: size }, (_, r) => {
      const part = [8 * r, 8 * (r + 1)] as const;
      return expected.forwardWith(allX.slice(part), usesExtra(r)).crossEntropy(allY.slice(part));
    });
    losses.reduce((a, b) => a.add(b)).div(size).backward();
    other.step();
    other.zeroGrad();
  }
  await assertNear(model, expected, "a layer that one rank leaves out at times");
}
{
  // A rank that has no batch takes part with no gradients at all.
  const model = seeded(mlp), expected = seeded(mlp);
  const optimizer = adam(model.parameters()), other = adam(expected.parameters());
  using parallel = new distributed.DataParallel(model, group, options);
  const each = compile(backwardOf(model));
  for (let k = 0; k < 6; k++) {
    const isLast = k % 3 === 2;
    if (isLast && rank === size - 1) parallel.reduceGradients();
    else parallel.onEachDevice([[x, y] as Batch], each);
    optimizer.step();
    optimizer.zeroGrad();
    const count = isLast ? size - 1 : size, part = [0, 8 * count] as const;
    lossOf(expected)(allX.slice(part), allY.slice(part)).mul(count / size).backward();
    other.step();
    other.zeroGrad();
  }
  await assertNear(model, expected, "a rank without a batch");
  optimizer.zeroGrad();
  parallel.reduceGradients();
  assert(model.parameters().every(({ grad }) => grad === null), "nobody has a gradient");
}
{
  // An empty batch is a batch: its gradients are zeros.
  const model = seeded(() => new nn.Linear(6, 3)), isLast = rank === size - 1;
  using parallel = new distributed.DataParallel(model, group, options);
  parallel.forward(isLast ? x.slice([0, 0]) : x).sum().backward();
  const sums = allX.slice([0, 8 * (size - 1)]).sum(0, { keepDims: true }).div(size);
  assert(await model.weight.grad!.allClose(sums.expand([3, 6]), { atol: 1e-5 }), "empty batch");
  const share = Tensor.full([3], 8 * (size - 1) / size);
  assert(await model.bias!.grad!.allClose(share, { atol: 1e-5 }), "empty batch");
}
{
  // Samples that do not divide by ranks and batches: as many batches on each rank, every sample is there.
  for (const length of [1, size + 1, 7 * size + 3]) {
    const data = new TensorDataset({
      data: Float32Array.from({ length }, (_, k) => k),
      shape: [length],
    });
    const loader = new DataLoader(data, { batchSize: 2, shuffle: true, shard: group });
    const seen: number[] = [];
    let batches = 0;
    for await (const [batch] of loader) {
      batches++;
      seen.push(...await batch!.toNumbers());
    }
    await assertSameEverywhere(group, [batches, seen.length, loader.length], `${length} samples`);
    assertEquals(batches, loader.length);
    const all = await (await group.allGather(Tensor.fromHost(seen))).toNumbers();
    assertEquals(new Set(all).size, length, `${length} samples`);
  }
}
{
  // Parameters of 16 bits: their gradients are added up in 32, and rounded once.
  for (const dtype of ["bfloat16", "float16"] as const) {
    const make = (): nn.Linear => {
      const layer = new nn.Linear(6, 3, { bias: false });
      layer.cast(dtype);
      return layer;
    };
    const model = seeded(make), loss = (x: Tensor) => model.forward(x.cast(dtype)).sum();
    using parallel = new distributed.DataParallel(model, group, options);
    const each = compile((x: Tensor) => loss(x.mul(rank + 1)).backward());
    for (let k = 0; k < 4; k++) {
      model.zeroGrad();
      parallel.onEachDevice([[x] as [Tensor]], each);
    }
    const { grad } = model.weight;
    assertEquals(grad!.dtype, dtype);
    const terms = await Promise.all(Array.from({ length: size }, async (_, r) => {
      const part = allX.slice([8 * r, 8 * (r + 1)]).mul(r + 1).cast(dtype);
      return await part.cast("float32").sum(0).cast(dtype).cast("float32").toNumbers();
    }));
    const mean = terms[0]!.map((_, k) => terms.reduce((sum, term) => sum + term[k]!, 0) / size);
    const expected = await Tensor.fromHost(mean).cast(dtype).cast("float32").toNumbers();
    const found = await grad!.cast("float32").toArray() as number[][];
    // The ranks' own gradients may be rounded by one more or less.
    const step = dtype === "bfloat16" ? 2 ** -7 : 2 ** -10;
    for (const row of found) {
      row.forEach((value, k) => {
        const most = step * Math.max(...terms.map((term) => Math.abs(term[k]!)), 0.1);
        assert(Math.abs(value - expected[k]!) <= most, `${dtype}: ${value} for ${expected[k]}`);
      });
    }
    await assertSameEverywhere(group, found.flat(), dtype);
  }
}
{
  // Batch statistics of all ranks in a function that compile was asked to replay: it runs as it is.
  const make = (norm: () => nn.Module) => () =>
    new nn.Sequential(
      // A bias would have no gradient but what rounding leaves, which Adam enlarges.
      new nn.Linear(6, 8, { bias: false }),
      norm(),
      new nn.Tanh(),
      new nn.Linear(8, 3),
    );
  const model = seeded(make(() => new distributed.SyncBatchNorm(8, group)));
  const expected = seeded(make(() => new nn.BatchNorm1d(8)));
  const optimizer = adam(model.parameters()), other = adam(expected.parameters());
  using parallel = new distributed.DataParallel(model, group, options);
  const each = compile(backwardOf(model));
  for (let k = 0; k < 5; k++) {
    parallel.onEachDevice([[x, y] as Batch], each);
    optimizer.step();
    optimizer.zeroGrad();
    lossOf(expected)(allX, allY).backward();
    other.step();
    other.zeroGrad();
  }
  await assertNear(model, expected, "SyncBatchNorm, compiled", 1e-4);
}
if (args[1] === "default") {
  // Who waits for another rank sleeps until that one wakes it.
  const model = seeded(() => new nn.Linear(300, 300));
  using parallel = new distributed.DataParallel(model, group, options);
  const input = Tensor.ones([500, 300]).realize();
  const each = compile((x: Tensor) => {
    using loss = model.forward(x).square().mean();
    loss.backward();
  });
  const step = (): void => {
    parallel.onEachDevice([[input] as [Tensor]], each);
    for (const parameter of model.parameters()) parameter.grad = null;
  };
  for (let k = 0; k < 12; k++) step();
  const usual = cpuMsOf(step);
  await group.barrier();
  if (rank === 1) await new Promise((resolve) => setTimeout(resolve, 1000));
  const start = performance.now(), added = cpuMsOf(step) - usual, wall = performance.now() - start;
  assert(rank === 1 || added < 0.045 * wall, `${added} ms of a core in a wait of ${wall} ms`);
}
console.log(`rank ${rank} of ${size}, ${way}: good`);

/** Milliseconds of cores that a function takes in this process. */
function cpuMsOf(fn: () => void): number {
  const before = cpuUsage();
  fn();
  const { user, system } = cpuUsage(before);
  return (user + system) / 1000;
}
